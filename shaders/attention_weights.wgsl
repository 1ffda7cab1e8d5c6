// attention_weights, from the statistics of the rows:
//
//   weights[bh][i][j] = exp(scale · q[b][i][h] · k[b][j][g] + bias − largest[b][i][h]) / sum[b][i][h], g = h / (H / G)
//
//   query (B, Lq, …), key (B, Lk, …), statistics (B, Lq, …) → out (B·H, Lq, Lk + extra)
//
// One workgroup = a tile of 16 queries × 16 keys of one head. One invocation = one weight.
// Chosen where attention streams and its weights are asked for. Assumes nothing of the device.
// Arithmetic intensity: a loaded word meets 16 others. 2 KiB of workgroup memory.

// Constants
override HAS_MASK: bool = true;
override HAS_BIAS: bool = true;
const TILE: u32 = 16u;
const PITCH: u32 = 17u;
const TILE_WORDS: u32 = 272u;
// A hidden key's weight: −0, a zero that the product with the values knows by its bits.
const HIDDEN: u32 = 0x80000000u;
// −∞ in a bias hides the key. No finite bias does, however low.
const MINUS_INFINITY: u32 = 0xff800000u;
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
@group(0) @binding(3) var<storage, read> statistics: array<f32>;
@group(0) @binding(4) var<storage, read> valid_lens: array<u32>;
@group(0) @binding(5) var<storage, read> attend_mask: array<u32>;
@group(0) @binding(6) var<storage, read> bias: array<f32>;
@group(0) @binding(7) var<storage, read_write> out: array<u32>;

var<workgroup> query_tile: array<f32, TILE_WORDS>;
var<workgroup> key_tile: array<f32, TILE_WORDS>;

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

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let lane = index % TILE;
    let line = index / TILE;
    let tiles_across = (params.columns + TILE - 1u) / TILE;
    let tiles_down = (params.rows + TILE - 1u) / TILE;
    // The grid is folded into two dimensions and may have workgroups to spare: they do the last tile again and store
    // nothing. Here `entries` counts heads.
    let num_tiles = tiles_across * tiles_down * params.entries;
    let spare = workgroup.y * params.grid_width + workgroup.x >= num_tiles;
    let block = min(workgroup.y * params.grid_width + workgroup.x, num_tiles - 1u);
    let batch = params.entry_start + block / tiles_across / tiles_down;
    let entry = batch / params.num_heads;
    let head = batch % params.num_heads;
    let first_query = params.row_start + block / tiles_across % tiles_down * TILE;
    let first_key = block % tiles_across * TILE;
    let query_line = params.query_base + params.query_first + head * params.head_dim;
    let key_line = params.key_base + params.key_first + head / params.group * params.head_dim;
    let query_row = min(first_query + line, params.row_start + params.rows - 1u);
    let key_row = min(first_key + line, params.columns - 1u);
    var product = 0.0;
    for (var chunk = 0u; chunk < params.head_dim; chunk += TILE) {
        var words = vec2<f32>();
        if chunk + lane < params.head_dim {
            words = vec2<f32>(
                query[query_line + (entry * params.all_rows + query_row) * params.query_stride + chunk + lane],
                key[key_line + (entry * params.columns + key_row) * params.key_stride + chunk + lane],
            );
        }
        workgroupBarrier();
        query_tile[line * PITCH + lane] = words.x;
        key_tile[line * PITCH + lane] = words.y;
        workgroupBarrier();
        for (var d = 0u; d < TILE; d++) {
            product += query_tile[line * PITCH + d] * key_tile[lane * PITCH + d];
        }
    }
    if !spare && first_query + line < params.row_start + params.rows && first_key + lane < params.columns {
        let index_in_group = (query_row - params.row_start) * params.group + head % params.group;
        let row = row_of(entry, head / params.group, index_in_group);
        let score = score_of(row, first_key + lane, product);
        let statistics_line = (entry * params.all_rows + query_row) * params.value_stride;
        let place = params.value_base + params.value_first + statistics_line;
        let largest = statistics[place + head * 2u];
        let sum = statistics[place + head * 2u + 1u];
        let weight = power(score.value, largest) / sum;
        let word = (batch * params.all_rows + query_row) * params.columns + first_key + lane;
        out[params.out_base + word] = select(HIDDEN, bitcast<u32>(weight), score.visible);
    }
}
