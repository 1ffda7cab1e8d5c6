// attention, streaming, from texels, a subgroup to a tile:
//
//   joined[b][i][h] = dropout(softmax(scale · q[b][i][h] · k[b][·][g]ᵀ)) · v[b][·][g], g = h / (H / G)
//
//   query (B, Lq, …), key (B, Lk, …), value (B, Lk, …): heads side by side from a first column on → out (B, Lq, H·dv)
//
// The scores are never stored: a tile of KEYS keys is met, weighed by the largest score so far, and forgotten (the
// online softmax: Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022).
// One workgroup = one subgroup = ROWS queries of the heads that share a key/value head. One invocation = four keys of a
// tile while it is scored, then COLS groups of four columns of the sums; it loads ROWS / LANES of the queries and hands
// them round, as it does its weights. Tiles start at multiples of KEYS, whoever the neighbours are, so that a row's
// answer does not depend on them. Tiles outside the band and the lengths are not met, unless a learned key stands
// behind them.
// Chosen on llvmpipe, Mesa's CPU adapter, for values wider than 16 under no mask and no bias: both halves are products
// as matmul_texels.wgsl has them, in loops that fit what a processor keeps of decoded instructions; those of
// attention_texels.wgsl do not, and take more than twice as long to compile. No barrier, no workgroup memory. Assumes
// that widths and starts are multiples of four, and a subgroup of exactly LANES lanes. Of wide values a workgroup takes
// a part, and meets the keys for it anew.
// Arithmetic intensity: 2·ROWS·16 operations per 4 + ROWS / LANES loads of four words in every lane for the scores,
// 2·ROWS·COLS·16 per 4·COLS for the sums.

// Constants
override HAS_DROPOUT: bool = true;
override OUT_TEXELS: bool = true;
const LANES: u32 = 8u;
const LANES_LOG2: u32 = 3u;
const ROWS: u32 = 16u;
const COLS: u32 = 2u;
// Loads of queries; groups of four sums; keys of a tile.
const LOADS: u32 = ROWS / LANES;
const SUMS: u32 = ROWS * COLS;
const KEYS: u32 = LANES * 4u;
// Rows whose bits of dropout fill a word.
const WORD_ROWS: u32 = 8u;
// A hidden key's weight: −0.
const HIDDEN: u32 = 0x80000000u;
const LOWEST: f32 = -0x1.fffffep+127f;
const LOG2_E: f32 = 1.44269504088896;
// Texels in a row of a texture that holds a tensor, four words each, in the tensor's order: 2¹⁰.
const TEXEL_ROW_LOG2: u32 = 10u;
const TEXEL_ROW_MASK: u32 = 1023u;

// Places in a tensor are computed modulo 2³²: `…_base` brings them into the bound window, which is smaller than that.
struct Params {
    entry_start: u32,
    row_start: u32,
    entries: u32,
    rows: u32,
    all_rows: u32,
    columns: u32,
    num_keys: u32,
    num_heads: u32,
    group: u32,
    head_dim: u32,
    value_dim: u32,
    scale: f32,
    band_start: i32,
    band_end: i32,
    has_valid_lens: u32,
    has_attend_mask: u32,
    has_bias: u32,
    valid_lens_entry_stride: u32,
    valid_lens_row_stride: u32,
    mask_entry_stride: u32,
    mask_head_stride: u32,
    bias_entry_stride: u32,
    bias_head_stride: u32,
    query_first: u32,
    query_stride: u32,
    key_first: u32,
    key_stride: u32,
    value_first: u32,
    value_stride: u32,
    out_stride: u32,
    statistics: u32,
    query_base: u32,
    key_base: u32,
    value_base: u32,
    valid_lens_base: u32,
    mask_base: u32,
    bias_base: u32,
    pattern_base: u32,
    out_base: u32,
    value_parts: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var query_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(2) var key_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(3) var value_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(4) var<storage, read> valid_lens: array<u32>;
@group(0) @binding(5) var<storage, read> pattern: array<u32>;
@group(0) @binding(6) var<storage, read_write> out: array<f32>;
@group(0) @binding(7) var out_texels: texture_storage_2d<rgba32float, write>;

// --- One row: the same text in every shader of attention ---

// One query of one head: which keys it sees by position and length, where its mask and bias start.
struct Row {
    query: u32,
    head: u32,
    first_key: i32,
    end_key: i32,
    mask: u32,
    bias: u32,
}

// Row `index` of a group: the query heads that share a key/value head stand side by side.
fn row_of(entry: u32, kv_head: u32, index: u32) -> Row {
    let query_row = params.row_start + index / params.group;
    let head = kv_head * params.group + index % params.group;
    var end = min(i32(query_row) + params.band_end, i32(params.num_keys));
    if params.has_valid_lens != 0u {
        let place = entry * params.valid_lens_entry_stride + query_row * params.valid_lens_row_stride;
        // A length past all keys hides none; compared unsigned, it cannot turn negative.
        end = min(end, i32(min(valid_lens[params.valid_lens_base + place], params.num_keys)));
    }
    let mask_row = entry * params.mask_entry_stride + head * params.mask_head_stride + query_row * params.num_keys;
    let bias_row = entry * params.bias_entry_stride + head * params.bias_head_stride + query_row * params.num_keys;
    let first = max(i32(query_row) + params.band_start, 0);
    return Row(query_row, head, first, end, params.mask_base + mask_row, params.bias_base + bias_row);
}

fn power(score: f32, largest: f32) -> f32 {
    return exp2((score - largest) * LOG2_E);
}

// --- End of the row ---

// --- Dropped weights: the same text in every shader that drops some ---

// The high word of a · b, put together of products of 16-bit halves: WGSL multiplies modulo 2³².
fn high_product(a: u32, b: u32) -> u32 {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let cross = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let middle = (a & 0xffffu) * (b >> 16u) + (cross & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (cross >> 16u) + (middle >> 16u);
}

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011): four random words from a counter of four, under a key of two.
fn philox(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
    var words = counter;
    var bumped = key;
    for (var round = 0u; round < 10u; round++) { // unroll
        let first = vec2<u32>(high_product(0xd2511f53u, words.x), 0xd2511f53u * words.x);
        let second = vec2<u32>(high_product(0xcd9e8d57u, words.z), 0xcd9e8d57u * words.z);
        words = vec4<u32>(second.x ^ words.y ^ bumped.x, second.y, first.x ^ words.w ^ bumped.y, first.y);
        bumped += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return words;
}

// Which of four weights from key 4 · group on are kept: a bit for each, the first lowest.
fn kept_of(entry: u32, head: u32, query_row: u32, group: u32) -> u32 {
    let key = vec2<u32>(pattern[params.pattern_base + 2u], pattern[params.pattern_base + 3u]);
    let words = philox(vec4<u32>(group, query_row, head, entry), key);
    let kept = (words >> vec4<u32>(1u)) >= vec4<u32>(pattern[params.pattern_base]);
    return dot(select(vec4<u32>(), vec4<u32>(1u, 2u, 4u, 8u), kept), vec4<u32>(1u));
}

// What a kept weight is multiplied with.
fn kept_scale() -> f32 {
    return bitcast<f32>(pattern[params.pattern_base + 1u]);
}

// --- End of dropped weights ---

fn texel(word: u32) -> vec2<u32> {
    return vec2<u32>((word / 4u) & TEXEL_ROW_MASK, (word / 4u) >> TEXEL_ROW_LOG2);
}

// --- Where heads start: the same text in all ---

// Where a row's query starts, and where key 0 of a head and value 0 of a group of four columns do.
fn query_line(entry: u32, row: Row) -> u32 {
    let line = (entry * params.all_rows + row.query) * params.query_stride + params.query_first;
    return line + row.head * params.head_dim;
}

fn first_key_of(entry: u32, kv_head: u32) -> u32 {
    return entry * params.columns * params.key_stride + params.key_first + kv_head * params.head_dim;
}

fn first_value_of(entry: u32, kv_head: u32, four: u32) -> u32 {
    // The last part may end behind the head; its sums are not stored.
    let inside = min(four * 4u, params.value_dim - 4u);
    return entry * params.columns * params.value_stride + params.value_first + kv_head * params.value_dim + inside;
}

// --- End of where heads start ---

// Four words of each of four keys: column i of key i, which starts at lines[i], from word d on.
fn load_keys(lines: vec4<u32>, d: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        textureLoad(key_texels, texel(lines.x + d)),
        textureLoad(key_texels, texel(lines.y + d)),
        textureLoad(key_texels, texel(lines.z + d)),
        textureLoad(key_texels, texel(lines.w + d)),
    );
}

// Column i is four words of value i, which starts at lines[i].
fn load_values(lines: vec4<u32>) -> mat4x4<f32> {
    return mat4x4<f32>(
        textureLoad(value_texels, texel(lines.x)),
        textureLoad(value_texels, texel(lines.y)),
        textureLoad(value_texels, texel(lines.z)),
        textureLoad(value_texels, texel(lines.w)),
    );
}

// The largest of a subgroup's words, and their sum: every lane has it, in the same order of summation.
fn largest_of_lanes(word: f32) -> f32 {
    var largest = word;
    for (var b = 0u; b < LANES_LOG2; b++) { // unroll
        largest = max(largest, subgroupShuffleXor(largest, 1u << b));
    }
    return largest;
}

fn sum_of_lanes(word: f32) -> f32 {
    var sum = word;
    for (var b = 0u; b < LANES_LOG2; b++) { // unroll
        sum += subgroupShuffleXor(sum, 1u << b);
    }
    return sum;
}

// Which of four keys a row sees: those of its band and length, and the learned ones, which stand behind all others.
fn visible_of(first_key: i32, end_key: i32, keys: vec4<i32>, learned: vec4<bool>) -> vec4<bool> {
    return learned | ((keys >= vec4<i32>(first_key)) & (keys < vec4<i32>(end_key)));
}

// weight · words, or 0 where the weight is hidden.
fn weighed(weight: f32, words: vec4<f32>) -> vec4<f32> {
    return select(weight * words, vec4<f32>(), bitcast<u32>(weight) == HIDDEN);
}

fn store(word: u32, value: vec4<f32>) {
    if OUT_TEXELS {
        textureStore(out_texels, texel(word), value);
    } else {
        let place = params.out_base + word;
        out[place] = value.x;
        out[place + 1u] = value.y;
        out[place + 2u] = value.z;
        out[place + 3u] = value.w;
    }
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(subgroup_invocation_id) lane: u32) {
    // Read here, where nothing asks yet who takes part: anywhere else the compiler reads a parameter lane by lane.
    let head_dim = params.head_dim;
    let scale = params.scale;
    let key_stride = params.key_stride;
    let value_stride = params.value_stride;
    let num_keys = params.num_keys;
    let all_columns = params.columns;
    let group_rows = params.rows * params.group;
    let blocks = (group_rows + ROWS - 1u) / ROWS;
    let index = workgroup.y * params.grid_width + workgroup.x;
    let kv_heads = params.num_heads / params.group;
    // The grid is folded into two dimensions and may have workgroups to spare.
    if index / blocks / params.value_parts >= params.entries * kv_heads {
        return;
    }
    let entry = params.entry_start + index / blocks / params.value_parts / kv_heads;
    let kv_head = index / blocks / params.value_parts % kv_heads;
    let first_four = index / blocks % params.value_parts * LANES * COLS + lane;
    let first_row = index % blocks * ROWS;
    // rows[g] of lane j is row g · LANES + j; those past the end repeat the last one and are not stored.
    var rows: array<Row, LOADS>;
    // Keys that any of the rows sees, and those that all of them see.
    var any_keys = vec2<i32>(i32(params.num_keys), 0);
    var all_keys = vec2<i32>(0, i32(params.num_keys));
    for (var g = 0u; g < LOADS; g++) { // unroll
        rows[g] = row_of(entry, kv_head, min(first_row + g * LANES + lane, group_rows - 1u));
        let keys = vec2<i32>(rows[g].first_key, rows[g].end_key);
        any_keys = vec2<i32>(min(any_keys.x, keys.x), max(any_keys.y, keys.y));
        all_keys = vec2<i32>(max(all_keys.x, keys.x), min(all_keys.y, keys.y));
    }
    let first_key = u32(subgroupMin(any_keys.x));
    // The learned key stands behind all others.
    let end_key = select(u32(subgroupMax(any_keys.y)), all_columns, all_columns > num_keys);
    let whole = vec2<i32>(subgroupMax(all_keys.x), subgroupMin(all_keys.y));
    var largest: array<f32, ROWS>;
    // Of a lane's own keys.
    var sum: array<f32, ROWS>;
    var seen: array<bool, ROWS>;
    for (var r = 0u; r < ROWS; r++) { // unroll
        largest[r] = LOWEST;
        sum[r] = 0.0;
        seen[r] = false;
    }
    var query_lines: array<u32, LOADS>;
    for (var g = 0u; g < LOADS; g++) { // unroll
        query_lines[g] = query_line(entry, rows[g]);
    }
    let first_key_line = first_key_of(entry, kv_head);
    var first_value_lines: array<u32, COLS>;
    for (var c = 0u; c < COLS; c++) { // unroll
        first_value_lines[c] = first_value_of(entry, kv_head, first_four + c * LANES);
    }
    // sums[r · COLS + c] = Σ weight · value[·][column group c] of row r
    var sums: array<vec4<f32>, SUMS>;
    for (var key = first_key / KEYS * KEYS; key < end_key; key += KEYS) {
        // weights[r][i]: the product of row r with key 4·lane + i of the tile; then its weight
        var weights: array<vec4<f32>, ROWS>;
        let own_keys = vec4<u32>(key + lane * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
        // Keys past the last one repeat it, and are hidden.
        let key_lines = first_key_line + min(own_keys, vec4<u32>(all_columns - 1u)) * key_stride;
        for (var d = 0u; d < head_dim; d += 4u) {
            let keys = transpose(load_keys(key_lines, d));
            for (var g = 0u; g < LOADS; g++) { // unroll
                let own = textureLoad(query_texels, texel(query_lines[g] + d));
                for (var j = 0u; j < LANES; j++) { // unroll
                    let query = subgroupShuffle(own, j);
                    let first = keys[0] * query.x + keys[1] * query.y;
                    weights[g * LANES + j] += first + keys[2] * query.z + keys[3] * query.w;
                }
            }
        }
        // Which of four weights of each row are kept. Written out, ten rounds for each would be too much text.
        var kept = vec2<u32>();
        if HAS_DROPOUT {
            for (var r = 0u; r < ROWS; r++) {
                let place = min(first_row + r, group_rows - 1u);
                let head = kv_head * params.group + place % params.group;
                let four = kept_of(entry, head, params.row_start + place / params.group, key / 4u + lane);
                let moved = four << (r % WORD_ROWS * 4u);
                kept |= select(vec2<u32>(moved, 0u), vec2<u32>(0u, moved), r >= WORD_ROWS);
            }
        }
        let places = vec4<i32>(own_keys);
        let learned = (own_keys >= vec4<u32>(num_keys)) & (own_keys < vec4<u32>(all_columns));
        for (var g = 0u; g < LOADS; g++) { // unroll
            for (var j = 0u; j < LANES; j++) { // unroll
                let r = g * LANES + j;
                let row_first = subgroupShuffle(rows[g].first_key, j);
                let row_end = subgroupShuffle(rows[g].end_key, j);
                let visible = visible_of(row_first, row_end, places, learned);
                let scores = select(vec4<f32>(LOWEST), scale * weights[r], visible);
                let largest_own = max(max(scores.x, scores.y), max(scores.z, scores.w));
                let before = largest[r];
                largest[r] = max(before, largest_of_lanes(largest_own));
                let factor = power(before, largest[r]);
                var weight = exp2((scores - largest[r]) * LOG2_E);
                weight = select(vec4<f32>(bitcast<f32>(HIDDEN)), weight, visible);
                sum[r] = sum[r] * factor + ((weight.x + weight.y) + (weight.z + weight.w));
                seen[r] = seen[r] || any(visible);
                if HAS_DROPOUT {
                    let bits = vec4<u32>(kept[r / WORD_ROWS] >> (r % WORD_ROWS * 4u)) >> vec4<u32>(0u, 1u, 2u, 3u);
                    weight *= vec4<f32>(bits & vec4<u32>(1u));
                    weight = select(vec4<f32>(bitcast<f32>(HIDDEN)), weight, visible);
                }
                weights[r] = weight;
                for (var c = 0u; c < COLS; c++) { // unroll
                    sums[r * COLS + c] *= factor;
                }
            }
        }
        // A loop is left where nobody goes round; both ways of a question are gone there.
        let is_whole = i32(key) >= whole.x && i32(key + KEYS) <= whole.y;
        for (var l = 0u; l < select(0u, LANES, is_whole); l++) {
            let lines = (vec4<u32>(key + l * 4u) + vec4<u32>(0u, 1u, 2u, 3u)) * value_stride;
            for (var c = 0u; c < COLS; c++) { // unroll
                let values = load_values(first_value_lines[c] + lines);
                for (var r = 0u; r < ROWS; r++) { // unroll
                    let weight = subgroupShuffle(weights[r], l);
                    let first = values[0] * weight.x + values[1] * weight.y;
                    sums[r * COLS + c] += first + values[2] * weight.z + values[3] * weight.w;
                }
            }
        }
        // 0 · ∞ would be NaN: what a hidden key's value holds must not count.
        for (var l = 0u; l < select(LANES, 0u, is_whole); l++) {
            let others = vec4<u32>(key + l * 4u) + vec4<u32>(0u, 1u, 2u, 3u);
            let lines = min(others, vec4<u32>(all_columns - 1u)) * value_stride;
            for (var c = 0u; c < COLS; c++) { // unroll
                let values = load_values(first_value_lines[c] + lines);
                for (var r = 0u; r < ROWS; r++) { // unroll
                    let weight = subgroupShuffle(weights[r], l);
                    let first = weighed(weight.x, values[0]) + weighed(weight.y, values[1]);
                    sums[r * COLS + c] += first + weighed(weight.z, values[2]) + weighed(weight.w, values[3]);
                }
            }
        }
    }
    var undropped = 1.0;
    if HAS_DROPOUT {
        undropped = kept_scale();
    }
    for (var g = 0u; g < LOADS; g++) { // unroll
        for (var j = 0u; j < LANES; j++) { // unroll
            let r = g * LANES + j;
            let query_row = subgroupShuffle(rows[g].query, j);
            let head = subgroupShuffle(rows[g].head, j);
            let total = sum_of_lanes(sum[r]);
            let any_seen = subgroupAny(seen[r]);
            let line = (entry * params.all_rows + query_row) * params.out_stride + head * params.value_dim;
            for (var c = 0u; c < COLS; c++) { // unroll
                let four = first_four + c * LANES;
                let value = select(vec4<f32>(), sums[r * COLS + c] / total * undropped, any_seen);
                if first_row + r < group_rows && four * 4u < params.value_dim {
                    store(line + four * 4u, value);
                }
            }
        }
    }
}
