// attention, streaming, from texels, a lane to a few queries:
//
//   joined[b][i][h] = dropout(softmax(scale · q[b][i][h] · k[b][·][g]ᵀ + bias)) · v[b][·][g], g = h / (H / G)
//
//   query (B, Lq, …), key (B, Lk, …), value (B, Lk, …): heads side by side from a first column on → out (B, Lq, H·dv)
//
// The scores are never stored: a tile of KEYS keys is met, weighed by the largest score so far, and forgotten (the
// online softmax: Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022).
// One workgroup = one subgroup = ROWS · LANES queries of the heads that share a key/value head. One invocation = ROWS
// of them; it loads the keys and the values of its own number in the tile and hands them round; scores, running maxima
// and sums are the lane's own. Keys that all queries of a workgroup see are met first, without a question; then those
// that only some see. Tiles outside the band and the lengths are not met, unless a learned key stands behind them.
// Chosen on llvmpipe, Mesa's CPU adapter (matmul_texels.wgsl says why texels), where attention_texels_wide.wgsl is not:
// for masks, biases, values of up to 16 words, subgroups of another size than 8. No barrier, no workgroup memory.
// Assumes that widths and starts are multiples of four, and a subgroup of exactly LANES lanes. Sums must fit what a
// compiler keeps in registers or on the stack without an index: of wide values a workgroup takes a part, and meets the
// keys for it anew.
// Arithmetic intensity: 2·ROWS·LANES operations per loaded word in every lane.

// Constants
override HAS_MASK: bool = true;
override HAS_BIAS: bool = true;
override HAS_DROPOUT: bool = true;
override OUT_TEXELS: bool = true;
const LANES: u32 = 8u;
const ROWS: u32 = 2u;
// Groups of four in a head's queries and keys; and in the part of its values that a workgroup takes.
const HEAD: u32 = 16u;
const VALUE: u32 = 16u;
// Whether a lane holds its queries; those of a wide head are loaded again for every tile.
const HOLDS: u32 = 1u;
// Keys of a tile: loads of each lane, and all together.
const LOADS: u32 = 4u;
const KEYS: u32 = LOADS * LANES;
const QUERIES: u32 = ROWS * HEAD;
const SUMS: u32 = ROWS * VALUE;
const PARTS: u32 = 2u;
const SCORES: u32 = ROWS * KEYS;
// −∞ in a bias hides the key. No finite bias does, however low.
const MINUS_INFINITY: u32 = 0xff800000u;
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
@group(0) @binding(5) var<storage, read> attend_mask: array<u32>;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
@group(0) @binding(7) var<storage, read> pattern: array<u32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;
@group(0) @binding(9) var out_texels: texture_storage_2d<rgba32float, write>;

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

// Truth values of 32 keys from `key` on, lowest bit first.
fn mask_bits(row: Row, key: u32) -> u32 {
    let bit = row.mask + min(key, params.num_keys);
    let last = arrayLength(&attend_mask) - 1u;
    let low = attend_mask[min(bit >> 5u, last)] >> (bit & 31u);
    let high = attend_mask[min((bit >> 5u) + 1u, last)] << ((32u - (bit & 31u)) & 31u);
    return select(low | high, low, (bit & 31u) == 0u);
}

// A key's scaled and biased score, and whether the query sees it.
struct Score {
    value: f32,
    visible: bool,
}

fn score_of(row: Row, key: u32, product: f32, bits: u32) -> Score {
    var score = Score(params.scale * product, key < params.columns);
    // Learned keys after the real ones are beyond masks and lengths.
    let real = key < params.num_keys;
    score.visible = score.visible && (!real || (i32(key) >= row.first_key && i32(key) < row.end_key));
    if HAS_MASK {
        score.visible = score.visible && (!real || (bits & 1u) != 0u);
    }
    if HAS_BIAS {
        let value = bias[row.bias + min(key, params.num_keys - 1u)];
        score.visible = score.visible && (!real || bitcast<u32>(value) != MINUS_INFINITY);
        score.value += select(0.0, value, real);
    }
    return score;
}

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

// Which weights of a tile are kept: a bit for each key of it, the first lowest.
fn kept_bits(entry: u32, row: Row, key: u32) -> u32 {
    var bits = 0u;
    for (var group = key / 4u; group * 4u < key + KEYS; group++) {
        let four = kept_of(entry, row.head, row.query, group);
        // The first group may begin before the tile.
        let place = group * 4u - key;
        bits |= select(four << (place & 31u), four >> (key & 3u), group * 4u < key);
    }
    return bits;
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(subgroup_invocation_id) lane: u32) {
    // Read here, where nothing asks yet who takes part: anywhere else the compiler reads a parameter lane by lane.
    let scale = params.scale;
    let key_stride = params.key_stride;
    let value_stride = params.value_stride;
    let last_key = params.columns - 1u;
    let group_rows = params.rows * params.group;
    let blocks = (group_rows + ROWS * LANES - 1u) / (ROWS * LANES);
    let index = workgroup.y * params.grid_width + workgroup.x;
    let kv_heads = params.num_heads / params.group;
    // The grid is folded into two dimensions and may have workgroups to spare.
    if index / blocks / params.value_parts >= params.entries * kv_heads {
        return;
    }
    let entry = params.entry_start + index / blocks / params.value_parts / kv_heads;
    let kv_head = index / blocks / params.value_parts % kv_heads;
    let first_four = index / blocks % params.value_parts * VALUE;
    let first_row = index % blocks * ROWS * LANES + lane;
    // Rows of this lane, LANES apart; those past the end repeat the last one and are not stored.
    var rows: array<Row, ROWS>;
    // Keys that any of the rows sees, and those that all of them see.
    var any_keys = vec2<i32>(i32(params.num_keys), 0);
    var all_keys = vec2<i32>(0, i32(params.num_keys));
    for (var r = 0u; r < ROWS; r++) { // unroll
        rows[r] = row_of(entry, kv_head, min(first_row + r * LANES, group_rows - 1u));
        let keys = vec2<i32>(rows[r].first_key, rows[r].end_key);
        any_keys = vec2<i32>(min(any_keys.x, keys.x), max(any_keys.y, keys.y));
        all_keys = vec2<i32>(max(all_keys.x, keys.x), min(all_keys.y, keys.y));
    }
    let first_key = u32(subgroupMin(any_keys.x));
    // The learned key stands behind all others.
    let end_key = select(u32(subgroupMax(any_keys.y)), params.columns, params.columns > params.num_keys);
    var first_whole = subgroupMax(all_keys.x);
    var num_whole = max(subgroupMin(all_keys.y) - first_whole, 0) / i32(KEYS);
    if HAS_MASK || HAS_BIAS {
        num_whole = 0;
    }
    let whole = vec2<u32>(u32(first_whole), u32(first_whole + num_whole * i32(KEYS)));
    var query_lines: array<u32, ROWS>;
    for (var r = 0u; r < ROWS; r++) { // unroll
        query_lines[r] = query_line(entry, rows[r]);
    }
    let first_key_line = first_key_of(entry, kv_head);
    var first_value_lines: array<u32, VALUE>;
    for (var e = 0u; e < VALUE; e++) { // unroll
        first_value_lines[e] = first_value_of(entry, kv_head, first_four + e);
    }
    // queries[d · ROWS + r] = query r[4d .. 4d + 4]
    var queries: array<vec4<f32>, QUERIES>;
    if HOLDS == 1u {
        for (var d = 0u; d < HEAD; d++) { // unroll short
            for (var r = 0u; r < ROWS; r++) { // unroll
                queries[d * ROWS + r] = textureLoad(query_texels, texel(query_lines[r] + d * 4u));
            }
        }
    }
    var largest: array<f32, ROWS>;
    var sum: array<f32, ROWS>;
    var seen: array<bool, ROWS>;
    for (var r = 0u; r < ROWS; r++) { // unroll
        largest[r] = LOWEST;
        sum[r] = 0.0;
        seen[r] = num_whole > 0;
    }
    // sums[e · ROWS + r] = Σ weight · value[·][4e .. 4e + 4] of query r
    var sums: array<vec4<f32>, SUMS>;
    // First the whole tiles, without a question; then what is before and behind them.
    for (var part = 0u; part < PARTS; part++) { // unroll
        var key = select(first_key, whole.x, part == 0u);
        let end = select(end_key, whole.y, part == 0u);
        while key < end {
            if part == 1u && key >= whole.x && key < whole.y {
                key = whole.y;
            }
            // Keys of this tile, so that none of the whole tiles is met again.
            let limit = select(end, whole.x, part == 1u && key < whole.x && whole.x < whole.y);
            // products[j · ROWS + r]: of query r with key j of the tile; then its score; then its weight
            var products: array<f32, SCORES>;
            for (var d = 0u; d < HEAD; d++) { // unroll short
                var query: array<vec4<f32>, ROWS>;
                for (var r = 0u; r < ROWS; r++) { // unroll
                    if HOLDS == 1u {
                        query[r] = queries[d * ROWS + r];
                    } else {
                        query[r] = textureLoad(query_texels, texel(query_lines[r] + d * 4u));
                    }
                }
                for (var l = 0u; l < LOADS; l++) { // unroll
                    let line = first_key_line + min(key + l * LANES + lane, last_key) * key_stride;
                    let own = textureLoad(key_texels, texel(line + d * 4u));
                    for (var j = 0u; j < LANES; j++) { // unroll
                        let other = subgroupShuffle(own, j);
                        for (var r = 0u; r < ROWS; r++) { // unroll
                            products[(l * LANES + j) * ROWS + r] += dot(query[r], other);
                        }
                    }
                }
            }
            var factors: array<f32, ROWS>;
            // visible[r]: a bit for each key of the tile
            var visible: array<u32, ROWS>;
            for (var r = 0u; r < ROWS; r++) { // unroll
                let before = largest[r];
                var bits = 0u;
                if HAS_MASK {
                    bits = mask_bits(rows[r], key);
                }
                for (var l = 0u; l < LOADS; l++) { // unroll
                    for (var j = 0u; j < LANES; j++) { // unroll
                        let index = l * LANES + j;
                        if part == 0u {
                            products[index * ROWS + r] *= scale;
                            largest[r] = max(largest[r], products[index * ROWS + r]);
                        } else {
                            let product = products[index * ROWS + r];
                            let score = score_of(rows[r], key + index, product, bits >> (index & 31u));
                            let counts = score.visible && key + index < limit;
                            products[index * ROWS + r] = score.value;
                            largest[r] = select(largest[r], max(largest[r], score.value), counts);
                            visible[r] |= u32(counts) << (index & 31u);
                        }
                    }
                }
                factors[r] = power(before, largest[r]);
                sum[r] *= factors[r];
                seen[r] = seen[r] || visible[r] != 0u;
                var kept = 0u;
                if HAS_DROPOUT {
                    kept = kept_bits(entry, rows[r], key);
                }
                for (var l = 0u; l < LOADS; l++) { // unroll
                    for (var j = 0u; j < LANES; j++) { // unroll
                        let index = l * LANES + j;
                        var weight = power(products[index * ROWS + r], largest[r]);
                        if part == 1u {
                            weight = select(0.0, weight, ((visible[r] >> (index & 31u)) & 1u) != 0u);
                        }
                        sum[r] += weight;
                        if HAS_DROPOUT {
                            weight *= f32((kept >> (index & 31u)) & 1u);
                        }
                        products[index * ROWS + r] = weight;
                    }
                }
            }
            for (var e = 0u; e < VALUE; e++) { // unroll
                var next: array<vec4<f32>, ROWS>;
                for (var r = 0u; r < ROWS; r++) { // unroll
                    next[r] = sums[e * ROWS + r] * factors[r];
                }
                for (var l = 0u; l < LOADS; l++) { // unroll
                    let line = first_value_lines[e] + min(key + l * LANES + lane, last_key) * value_stride;
                    let own = textureLoad(value_texels, texel(line));
                    for (var j = 0u; j < LANES; j++) { // unroll
                        let index = l * LANES + j;
                        let other = subgroupShuffle(own, j);
                        for (var r = 0u; r < ROWS; r++) { // unroll
                            let added = products[index * ROWS + r] * other;
                            if part == 0u {
                                next[r] += added;
                            } else {
                                // 0 · ∞ would be NaN: what a hidden key's value holds must not count.
                                let counts = ((visible[r] >> (index & 31u)) & 1u) != 0u;
                                next[r] += select(vec4<f32>(), added, counts);
                            }
                        }
                    }
                }
                for (var r = 0u; r < ROWS; r++) { // unroll
                    sums[e * ROWS + r] = next[r];
                }
            }
            key = select(key + KEYS, whole.x, limit == whole.x && part == 1u && key + KEYS > whole.x);
        }
    }
    var undropped = 1.0;
    if HAS_DROPOUT {
        undropped = kept_scale();
    }
    for (var r = 0u; r < ROWS; r++) { // unroll
        if first_row + r * LANES < group_rows {
            let line = (entry * params.all_rows + rows[r].query) * params.out_stride;
            for (var e = 0u; e < VALUE; e++) { // unroll
                let value = select(vec4<f32>(), sums[e * ROWS + r] / sum[r] * undropped, seen[r]);
                let word = line + rows[r].head * params.value_dim + (first_four + e) * 4u;
                if (first_four + e) * 4u < params.value_dim {
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
            }
            if params.statistics != 0u && first_four == 0u {
                let place = params.out_base + line + params.num_heads * params.value_dim + rows[r].head * 2u;
                out[place] = select(0.0, largest[r], seen[r]);
                out[place + 1u] = select(0.0, sum[r], seen[r]);
            }
        }
    }
}
