// attention, streaming, a tile of keys in workgroup memory:
//
//   joined[b][i][h] = dropout(softmax(scale · q[b][i][h] · k[b][·][g]ᵀ + bias)) · v[b][·][g], g = h / (H / G)
//
//   query (B, Lq, …), key (B, Lk, …), value (B, Lk, …): heads side by side from a first column on → out (B, Lq, H·dv)
//
// The scores are never stored: a tile of 32 keys is met, weighed by the largest score so far, and forgotten (the online
// softmax: Milakov and Gimelshein 2018; FlashAttention, Dao et al. 2022).
// One workgroup = 16 rows (queries of the heads that share a key/value head) × 16 lanes. One invocation = two scores of
// its row in each tile, and every 16th column of its row's sums.
// Chosen on GPUs. Assumes nothing of the device; loads of a tile are of neighbouring words.
// Arithmetic intensity: a word of a key meets 16 rows. 9 KiB of workgroup memory; rows of tiles are 33 words apart, so
// that the lanes that read one column of a tile use different banks.

// Constants
override HAS_MASK: bool = true;
override HAS_BIAS: bool = true;
override HAS_DROPOUT: bool = true;
const ROWS: u32 = 16u;
const LANES: u32 = 16u;
const KEYS: u32 = 32u;
// Words of a query or a key that are met at a time, and how far apart rows of a tile lie.
const CHUNK: u32 = 32u;
const PITCH: u32 = 33u;
const QUERY_TILE: u32 = 528u;
const KEY_TILE: u32 = 1056u;
// Sums of one invocation: ⌈dv / 16⌉.
const SUMS: u32 = 32u;
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

var<workgroup> query_tile: array<f32, QUERY_TILE>;
var<workgroup> key_tile: array<f32, KEY_TILE>;
// Scores of a tile, then weights; and of its keys which each row sees (1) and, of these, which are kept (2).
var<workgroup> score_tile: array<f32, QUERY_TILE>;
var<workgroup> visible_tile: array<u32, QUERY_TILE>;

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

// 1 where the weight of a key is kept.
fn kept_bit(entry: u32, row: Row, key_row: u32) -> u32 {
    if HAS_DROPOUT {
        return (kept_of(entry, row.head, row.query, key_row / 4u) >> (key_row & 3u)) & 1u;
    }
    return 1u;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let lane = index % LANES;
    let line = index / LANES;
    let group_rows = params.rows * params.group;
    let blocks = (group_rows + ROWS - 1u) / ROWS;
    let kv_heads = params.num_heads / params.group;
    // The grid is folded into two dimensions and may have workgroups to spare: they do the last block again and store
    // nothing.
    let num_blocks = blocks * params.entries * kv_heads;
    let spare = workgroup.y * params.grid_width + workgroup.x >= num_blocks;
    let block = min(workgroup.y * params.grid_width + workgroup.x, num_blocks - 1u);
    let entry = params.entry_start + block / blocks / kv_heads;
    let kv_head = block / blocks % kv_heads;
    let first_row = block % blocks * ROWS;
    // Rows past the end repeat the last one and are not stored.
    let row = row_of(entry, kv_head, min(first_row + line, group_rows - 1u));
    // Keys that any row of the block may see: the same for the whole workgroup.
    let lowest = row_of(entry, kv_head, first_row);
    let highest_query = params.row_start + min(first_row + ROWS - 1u, group_rows - 1u) / params.group;
    var first_tile = u32(min(lowest.first_key, i32(params.num_keys)));
    var end_tile = u32(clamp(i32(highest_query) + params.band_end, 0, i32(params.num_keys)));
    if params.has_valid_lens != 0u && params.valid_lens_row_stride == 0u {
        end_tile = min(end_tile, valid_lens[params.valid_lens_base + entry * params.valid_lens_entry_stride]);
    }
    if params.columns > params.num_keys {
        end_tile = params.columns;
    }
    let query_line = params.query_base + params.query_first;
    let key_line = params.key_base + params.key_first + kv_head * params.head_dim;
    let value_line = params.value_base + params.value_first + kv_head * params.value_dim;
    var largest = LOWEST;
    var sum = 0.0;
    var seen = false;
    // sums[s] = Σ weight · value[·][lane + 16s]
    var sums: array<f32, SUMS>;
    for (var tile = first_tile; tile < end_tile; tile += KEYS) {
        var product = vec2<f32>();
        for (var chunk = 0u; chunk < params.head_dim; chunk += CHUNK) {
            workgroupBarrier();
            for (var i = index; i < ROWS * CHUNK; i += ROWS * LANES) {
                let other = row_of(entry, kv_head, min(first_row + i / CHUNK, group_rows - 1u));
                let column = chunk + i % CHUNK;
                let other_line = (entry * params.all_rows + other.query) * params.query_stride;
                let place = other_line + other.head * params.head_dim;
                var word = 0.0;
                if column < params.head_dim {
                    word = query[query_line + place + column];
                }
                query_tile[i / CHUNK * PITCH + i % CHUNK] = word;
            }
            for (var i = index; i < KEYS * CHUNK; i += ROWS * LANES) {
                let column = chunk + i % CHUNK;
                let key_row = min(tile + i / CHUNK, params.columns - 1u);
                var word = 0.0;
                if column < params.head_dim {
                    word = key[key_line + (entry * params.columns + key_row) * params.key_stride + column];
                }
                key_tile[i / CHUNK * PITCH + i % CHUNK] = word;
            }
            workgroupBarrier();
            for (var d = 0u; d < CHUNK; d++) {
                let x = query_tile[line * PITCH + d];
                product += x * vec2<f32>(key_tile[lane * PITCH + d], key_tile[(lane + LANES) * PITCH + d]);
            }
        }
        let low = score_of(row, tile + lane, product.x);
        let high = score_of(row, tile + lane + LANES, product.y);
        workgroupBarrier();
        score_tile[line * PITCH + lane] = low.value;
        score_tile[line * PITCH + lane + LANES] = high.value;
        visible_tile[line * PITCH + lane] = u32(low.visible) | (kept_bit(entry, row, tile + lane) << 1u);
        visible_tile[line * PITCH + lane + LANES] =
            u32(high.visible) | (kept_bit(entry, row, tile + lane + LANES) << 1u);
        workgroupBarrier();
        // Every lane of a row finds the same largest score.
        let before = largest;
        for (var j = 0u; j < KEYS; j++) {
            let counts = (visible_tile[line * PITCH + j] & 1u) != 0u;
            largest = select(largest, max(largest, score_tile[line * PITCH + j]), counts);
            seen = seen || counts;
        }
        workgroupBarrier();
        score_tile[line * PITCH + lane] = select(0.0, power(low.value, largest), low.visible);
        score_tile[line * PITCH + lane + LANES] = select(0.0, power(high.value, largest), high.visible);
        workgroupBarrier();
        let factor = power(before, largest);
        sum *= factor;
        for (var s = 0u; s < SUMS; s++) { // unroll
            sums[s] *= factor;
        }
        for (var j = 0u; j < KEYS; j++) {
            // A hidden key's value takes no part, whatever it holds.
            let flags = visible_tile[line * PITCH + j];
            if (flags & 1u) != 0u {
                let weight = score_tile[line * PITCH + j];
                let counted = weight * f32(flags >> 1u);
                let place = value_line + (entry * params.columns + tile + j) * params.value_stride + lane;
                sum += weight;
                for (var s = 0u; s < SUMS; s++) { // unroll
                    if lane + s * LANES < params.value_dim {
                        sums[s] += counted * value[place + s * LANES];
                    }
                }
            }
        }
    }
    if first_row + line < group_rows && !spare {
        var scale = 1.0;
        if HAS_DROPOUT {
            scale = kept_scale();
        }
        let start = params.out_base + (entry * params.all_rows + row.query) * params.out_stride;
        for (var s = 0u; s < SUMS; s++) { // unroll
            if lane + s * LANES < params.value_dim {
                out[start + row.head * params.value_dim + lane + s * LANES] = select(0.0, sums[s] / sum * scale, seen);
            }
        }
        if params.statistics != 0u && lane == 0u {
            let place = start + params.num_heads * params.value_dim + row.head * 2u;
            out[place] = select(0.0, largest, seen);
            out[place + 1u] = select(0.0, sum, seen);
        }
    }
}
