// attention, streaming, a row to an invocation:
//
//   joined[b][i][h] = dropout(softmax(scale · q[b][i][h] · k[b][·][g]ᵀ + bias)) · v[b][·][g], g = h / (H / G)
//
//   query (B, Lq, …), key (B, Lk, …), value (B, Lk, …): heads side by side from a first column on → out (B, Lq, H·dv)
//
// The scores are never stored: a key is met, weighed by the largest score so far, and forgotten (the online softmax:
// Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022).
// One invocation = one query of one head. One workgroup = 32 of the heads that share a key/value head.
// Chosen on CPU adapters where attention must stream and there are no texels to stream from: no barrier. Assumes
// nothing of the device.
// Arithmetic intensity: two operations for every loaded word, and less where sums pass through memory.

// Constants
override HAS_MASK: bool = true;
override HAS_BIAS: bool = true;
override HAS_DROPOUT: bool = true;
const ROWS: u32 = 32u;
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

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let group_rows = params.rows * params.group;
    let blocks = (group_rows + ROWS - 1u) / ROWS;
    let block = workgroup.y * params.grid_width + workgroup.x;
    let kv_heads = params.num_heads / params.group;
    let index = block % blocks * ROWS + lane;
    // The grid is folded into two dimensions and may have workgroups to spare. No barrier follows.
    if block / blocks >= params.entries * kv_heads || index >= group_rows {
        return;
    }
    let entry = params.entry_start + block / blocks / kv_heads;
    let kv_head = block / blocks % kv_heads;
    let row = row_of(entry, kv_head, index);
    let query_line = params.query_base + params.query_first + row.head * params.head_dim
        + (entry * params.all_rows + row.query) * params.query_stride;
    let key_line = params.key_base + params.key_first + entry * params.columns * params.key_stride
        + kv_head * params.head_dim;
    let value_line = params.value_base + params.value_first + entry * params.columns * params.value_stride
        + kv_head * params.value_dim;
    var largest = LOWEST;
    var sum = 0.0;
    var seen = false;
    // Of the four keys that the last one was of, which are kept.
    var group = 0xffffffffu;
    var kept = 0u;
    // The sums are kept where the output goes: an array that a loop indexes takes such an adapter seconds to compile.
    let start = params.out_base + (entry * params.all_rows + row.query) * params.out_stride;
    let place = start + row.head * params.value_dim;
    for (var e = 0u; e < params.value_dim; e++) {
        out[place + e] = 0.0;
    }
    // Keys before the first and after the last that the query sees are never met; the learned ones come behind.
    let first_key = u32(min(row.first_key, i32(params.num_keys)));
    let num_keys = u32(max(row.end_key, i32(first_key))) - first_key;
    for (var index = 0u; index < num_keys + params.columns - params.num_keys; index++) {
        let key_row = select(first_key + index, params.num_keys + index - num_keys, index >= num_keys);
        var product = 0.0;
        for (var d = 0u; d < params.head_dim; d++) {
            product += query[query_line + d] * key[key_line + key_row * params.key_stride + d];
        }
        let score = score_of(row, key_row, product);
        let largest_before = largest;
        largest = select(largest, max(largest, score.value), score.visible);
        let factor = power(largest_before, largest);
        let weight = power(score.value, largest);
        sum = select(sum, sum * factor + weight, score.visible);
        var counted = weight;
        if HAS_DROPOUT {
            if key_row / 4u != group {
                group = key_row / 4u;
                kept = kept_of(entry, row.head, row.query, group);
            }
            counted *= f32((kept >> (key_row & 3u)) & 1u);
        }
        for (var e = 0u; e < params.value_dim; e++) {
            let before = out[place + e];
            let next = before * factor + counted * value[value_line + key_row * params.value_stride + e];
            // A hidden key's value takes no part, whatever it holds.
            out[place + e] = select(before, next, score.visible);
        }
        seen = seen || score.visible;
    }
    var scale = 1.0;
    if HAS_DROPOUT {
        scale = kept_scale();
    }
    for (var e = 0u; e < params.value_dim; e++) {
        out[place + e] = select(0.0, out[place + e] / sum * scale, seen);
    }
    if params.statistics != 0u {
        let behind = start + params.num_heads * params.value_dim + row.head * 2u;
        out[behind] = select(0.0, largest, seen);
        out[behind + 1u] = select(0.0, sum, seen);
    }
}
