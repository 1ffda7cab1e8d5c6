// attention, streaming, tiles in workgroup memory:
//
//   joined[b][i][h] = dropout(softmax(scale · q[b][i][h] · k[b][·][g]ᵀ + bias)) · v[b][·][g], g = h / (H / G)
//
//   query (B, Lq, …), key (B, Lk, …), value (B, Lk, …): heads side by side from a first column on → out (B, Lq, H·dv)
//
// The scores are never stored: a tile of 64 keys is met, weighed by the largest score so far, and forgotten (the online
// softmax: Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022).
// One workgroup = 64 rows (queries of the heads that share a key/value head; 32 where LANES_DOWN is 8) and one part of
// up to 128 columns of their values. Two products, each as in matmul_tiled, take turns with its two tiles: queries ·
// keysᵀ, 16 words of a head at a time, then weights · values, 16 keys at a time.
// One invocation = 4×4 scores of a tile, rows LANES_DOWN and keys LANES_ACROSS apart, and its four rows' sums of every
// 16th column: at most 48 numbers that stay in registers.
// Chosen on GPUs, and where attention_row would go round too often: no features, at most 256 invocations. Neighbouring
// invocations load neighbouring words.
// Workgroup memory: 4,160 bytes of rows, 4,160 to 8,192 of keys or values. Where invocations side by side write a
// column, rows of the tile are padded by one word, so that they fall into different banks.
// Arithmetic intensity: a loaded word of a key or a value meets 64 rows. 16 products for 8 words of a tile; for the
// widest values 32 for 12.

// Constants
override HAS_MASK: bool = true;
override HAS_BIAS: bool = true;
override HAS_DROPOUT: bool = true;
const LANES_DOWN: u32 = 16u;
const LANES_ACROSS: u32 = 16u;
const LANES: u32 = LANES_DOWN * LANES_ACROSS;
const ROWS: u32 = LANES_DOWN * 4u;
const KEYS: u32 = LANES_ACROSS * 4u;
const PADDED_ROWS: u32 = ROWS + 1u;
const PADDED_KEYS: u32 = KEYS + 1u;
// Words of a head, and keys of a tile, that are met at a time: as many as there are lanes across.
const CHUNK: u32 = 16u;
// Keys of a tile, and values of a chunk, that one invocation loads words of.
const KEY_LOADS: u32 = KEYS / LANES_DOWN;
const VALUE_LOADS: u32 = CHUNK / LANES_DOWN;
// Columns of one invocation: ⌈columns of the part / 16⌉.
const SUMS: u32 = 8u;
const PART: u32 = LANES_ACROSS * SUMS;
const ROW_TILE: u32 = CHUNK * PADDED_ROWS;
const COLUMN_TILE: u32 = CHUNK * max(PADDED_KEYS, PART);
// A hidden key's weight: −0, told from 0 by its bits.
const HIDDEN: u32 = 0x80000000u;
// −∞ in a bias hides the key. No finite bias does, however low.
const MINUS_INFINITY: u32 = 0xff800000u;
const LOWEST: f32 = -0x1.fffffep+127f;
const LOG2_E: f32 = 1.44269504088896;

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
@group(0) @binding(1) var<storage, read> query: array<f32>;
@group(0) @binding(2) var<storage, read> key: array<f32>;
@group(0) @binding(3) var<storage, read> value: array<f32>;
@group(0) @binding(4) var<storage, read> valid_lens: array<u32>;
@group(0) @binding(5) var<storage, read> attend_mask: array<u32>;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
@group(0) @binding(7) var<storage, read> pattern: array<u32>;
@group(0) @binding(8) var<storage, read_write> out: array<f32>;

// row_tile[word][row]: bits of queries; then [key][row]: bits of weights; [lane][row] where lanes tell each other.
// column_tile[word][key]: keys; then [key][column]: values.
var<workgroup> row_tile: array<u32, ROW_TILE>;
var<workgroup> column_tile: array<f32, COLUMN_TILE>;

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

// --- One score: the same text wherever it is found key by key ---

// A key's scaled and biased score, and whether the query sees it: two facts, no magic number for the second.
struct Score {
    value: f32,
    visible: bool,
}

fn score_of(row: Row, key_row: u32, product: f32) -> Score {
    var score = Score(params.scale * product, key_row < params.columns);
    // Learned keys after the real ones are beyond masks and lengths.
    if key_row >= params.num_keys {
        return score;
    }
    score.visible = i32(key_row) >= row.first_key && i32(key_row) < row.end_key;
    if HAS_MASK {
        let place = row.mask + key_row;
        score.visible = score.visible && ((attend_mask[place >> 5u] >> (place & 31u)) & 1u) != 0u;
    }
    if HAS_BIAS {
        let added = bias[row.bias + key_row];
        score.visible = score.visible && bitcast<u32>(added) != MINUS_INFINITY;
        score.value += added;
    }
    return score;
}

// --- End of the score ---

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

// 0 where the weight of a key is dropped, otherwise 1.
fn kept_factor(entry: u32, row: Row, key_row: u32) -> f32 {
    if HAS_DROPOUT {
        return f32((kept_of(entry, row.head, row.query, key_row / 4u) >> (key_row & 3u)) & 1u);
    }
    return 1.0;
}

// What a line of the rows' tile holds of an invocation's four rows.
fn four_rows(place: u32, line: u32) -> vec4<u32> {
    let first = place * PADDED_ROWS + line;
    return vec4<u32>(
        row_tile[first],
        row_tile[first + LANES_DOWN],
        row_tile[first + 2u * LANES_DOWN],
        row_tile[first + 3u * LANES_DOWN],
    );
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let lane = index % LANES_ACROSS;
    let line = index / LANES_ACROSS;
    let group_rows = params.rows * params.group;
    let blocks = (group_rows + ROWS - 1u) / ROWS;
    let kv_heads = params.num_heads / params.group;
    // The grid is folded into two dimensions and may have workgroups to spare: they do the last block again and store
    // nothing.
    let num_blocks = blocks * params.value_parts * params.entries * kv_heads;
    let spare = workgroup.y * params.grid_width + workgroup.x >= num_blocks;
    let block = min(workgroup.y * params.grid_width + workgroup.x, num_blocks - 1u);
    let entry = params.entry_start + block / blocks / params.value_parts / kv_heads;
    let kv_head = block / blocks / params.value_parts % kv_heads;
    let first_column = block / blocks % params.value_parts * PART;
    let first_row = block % blocks * ROWS;
    // Keys that any row of the block may see, and those that all of them see: the same for the whole workgroup.
    let first_query = params.row_start + first_row / params.group;
    let last_query = params.row_start + min(first_row + ROWS - 1u, group_rows - 1u) / params.group;
    let num_keys = i32(params.num_keys);
    var any_keys = vec2<i32>(i32(first_query) + params.band_start, i32(last_query) + params.band_end);
    var all_keys = vec2<i32>(i32(last_query) + params.band_start, i32(first_query) + params.band_end);
    any_keys = clamp(any_keys, vec2<i32>(), vec2<i32>(num_keys));
    all_keys = clamp(all_keys, vec2<i32>(), vec2<i32>(num_keys));
    if params.has_valid_lens != 0u {
        if params.valid_lens_row_stride == 0u {
            let length = valid_lens[params.valid_lens_base + entry * params.valid_lens_entry_stride];
            let end = i32(min(length, params.num_keys));
            any_keys.y = min(any_keys.y, end);
            all_keys.y = min(all_keys.y, end);
        } else {
            all_keys.y = 0;
        }
    }
    if HAS_MASK || HAS_BIAS {
        all_keys.y = 0;
    }
    // The learned key stands behind all others.
    let end_key = select(u32(any_keys.y), params.columns, params.columns > params.num_keys);
    // rows[i] is row line + i · LANES_DOWN of the block; those past the end repeat the last one and are not stored.
    var rows: array<Row, 4>;
    var query_lines: array<u32, 4>;
    for (var i = 0u; i < 4u; i++) { // unroll
        rows[i] = row_of(entry, kv_head, min(first_row + line + i * LANES_DOWN, group_rows - 1u));
        let query_row = entry * params.all_rows + rows[i].query;
        let query_line = params.query_base + params.query_first + query_row * params.query_stride;
        query_lines[i] = query_line + rows[i].head * params.head_dim;
    }
    let key_line = params.key_base + params.key_first + kv_head * params.head_dim;
    let value_line = params.value_base + params.value_first + kv_head * params.value_dim + first_column;
    // Of the four rows: the largest score so far; of the lane's own keys, the sum of weights, and whether any was seen.
    var largest = vec4<f32>(LOWEST);
    var sum = vec4<f32>();
    var seen = vec4<bool>();
    // sums[s] = Σ weight · value[·][first_column + lane + 16s] of the four rows
    var sums: array<vec4<f32>, SUMS>;
    for (var tile = u32(any_keys.x) / KEYS * KEYS; tile < end_key; tile += KEYS) {
        // products[c] = q · k of the four rows with key tile + lane + c · LANES_ACROSS
        var products: array<vec4<f32>, 4>;
        for (var chunk = 0u; chunk < params.head_dim; chunk += CHUNK) {
            // Both tiles have been read and may be overwritten.
            workgroupBarrier();
            let column = min(chunk + lane, params.head_dim - 1u);
            let inside = chunk + lane < params.head_dim;
            for (var i = 0u; i < 4u; i++) { // unroll
                let word = select(0.0, query[query_lines[i] + column], inside);
                row_tile[lane * PADDED_ROWS + line + i * LANES_DOWN] = bitcast<u32>(word);
            }
            for (var i = 0u; i < KEY_LOADS; i++) { // unroll
                let key_row = min(tile + line + i * LANES_DOWN, params.columns - 1u);
                let word = key[key_line + (entry * params.columns + key_row) * params.key_stride + column];
                column_tile[lane * PADDED_KEYS + line + i * LANES_DOWN] = select(0.0, word, inside);
            }
            // Both tiles are whole.
            workgroupBarrier();
            for (var d = 0u; d < CHUNK; d++) {
                let queries = bitcast<vec4<f32>>(four_rows(d, line));
                for (var c = 0u; c < 4u; c++) { // unroll
                    products[c] += queries * column_tile[d * PADDED_KEYS + lane + c * LANES_ACROSS];
                }
            }
        }
        var visible: array<vec4<bool>, 4>;
        var own_largest = vec4<f32>(LOWEST);
        for (var c = 0u; c < 4u; c++) { // unroll
            let key_row = tile + lane + c * LANES_ACROSS;
            let first = score_of(rows[0], key_row, products[c].x);
            let second = score_of(rows[1], key_row, products[c].y);
            let third = score_of(rows[2], key_row, products[c].z);
            let fourth = score_of(rows[3], key_row, products[c].w);
            products[c] = vec4<f32>(first.value, second.value, third.value, fourth.value);
            visible[c] = vec4<bool>(first.visible, second.visible, third.visible, fourth.visible);
            own_largest = select(own_largest, max(own_largest, products[c]), visible[c]);
            seen = seen | visible[c];
        }
        // The queries have been read; in their place, the largest scores of all lanes.
        workgroupBarrier();
        for (var i = 0u; i < 4u; i++) { // unroll
            row_tile[lane * PADDED_ROWS + line + i * LANES_DOWN] = bitcast<u32>(own_largest[i]);
        }
        workgroupBarrier();
        // Every lane of a row finds the same largest score.
        let before = largest;
        for (var l = 0u; l < LANES_ACROSS; l++) {
            largest = max(largest, bitcast<vec4<f32>>(four_rows(l, line)));
        }
        let factor = exp2((before - largest) * LOG2_E);
        sum *= factor;
        for (var s = 0u; s < SUMS; s++) { // unroll
            sums[s] *= factor;
        }
        let is_whole = i32(tile) >= all_keys.x && i32(tile + KEYS) <= all_keys.y;
        for (var c = 0u; c < 4u; c++) { // unroll
            let first_key = tile + c * LANES_ACROSS;
            let weights = select(vec4<f32>(), exp2((products[c] - largest) * LOG2_E), visible[c]);
            sum += weights;
            // Both tiles have been read and may be overwritten.
            workgroupBarrier();
            for (var i = 0u; i < 4u; i++) { // unroll
                let counted = bitcast<u32>(weights[i] * kept_factor(entry, rows[i], first_key + lane));
                row_tile[lane * PADDED_ROWS + line + i * LANES_DOWN] = select(HIDDEN, counted, visible[c][i]);
            }
            for (var i = 0u; i < VALUE_LOADS; i++) { // unroll
                let key_row = min(first_key + line + i * LANES_DOWN, params.columns - 1u);
                let place = value_line + (entry * params.columns + key_row) * params.value_stride;
                for (var s = 0u; s < SUMS; s++) { // unroll
                    // The last part may end behind the head; its sums are not stored.
                    let column = min(lane + s * LANES_ACROSS, params.value_dim - 1u - first_column);
                    column_tile[(line + i * LANES_DOWN) * PART + lane + s * LANES_ACROSS] = value[place + column];
                }
            }
            // Both tiles are whole.
            workgroupBarrier();
            for (var k = 0u; k < CHUNK; k++) {
                let bits = four_rows(k, line);
                let hidden = bits == vec4<u32>(HIDDEN);
                for (var s = 0u; s < SUMS; s++) { // unroll
                    let added = bitcast<vec4<f32>>(bits) * column_tile[k * PART + lane + s * LANES_ACROSS];
                    if is_whole {
                        sums[s] += added;
                    } else {
                        // 0 · ∞ would be NaN: what a hidden key's value holds must not count.
                        sums[s] += select(added, vec4<f32>(), hidden);
                    }
                }
            }
        }
    }
    // The tiles have been read; in the place of rows, the sums of weights of all lanes.
    workgroupBarrier();
    for (var i = 0u; i < 4u; i++) { // unroll
        row_tile[lane * PADDED_ROWS + line + i * LANES_DOWN] = select(HIDDEN, bitcast<u32>(sum[i]), seen[i]);
    }
    workgroupBarrier();
    var total = vec4<f32>();
    var any_seen = vec4<bool>();
    for (var l = 0u; l < LANES_ACROSS; l++) {
        let bits = four_rows(l, line);
        let counts = bits != vec4<u32>(HIDDEN);
        total += select(vec4<f32>(), bitcast<vec4<f32>>(bits), counts);
        any_seen = any_seen | counts;
    }
    var undropped = 1.0;
    if HAS_DROPOUT {
        undropped = kept_scale();
    }
    for (var i = 0u; i < 4u; i++) { // unroll
        if first_row + line + i * LANES_DOWN < group_rows && !spare {
            let start = params.out_base + (entry * params.all_rows + rows[i].query) * params.out_stride;
            for (var s = 0u; s < SUMS; s++) { // unroll
                let column = first_column + lane + s * LANES_ACROSS;
                if column < params.value_dim {
                    let mean = sums[s][i] / total[i] * undropped;
                    out[start + rows[i].head * params.value_dim + column] = select(0.0, mean, any_seen[i]);
                }
            }
            if params.statistics != 0u && lane == 0u && first_column == 0u {
                let place = start + params.num_heads * params.value_dim + rows[i].head * 2u;
                out[place] = select(0.0, largest[i], any_seen[i]);
                out[place + 1u] = select(0.0, total[i], any_seen[i]);
            }
        }
    }
}
