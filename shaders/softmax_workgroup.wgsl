// softmax, a row to a workgroup:  out[bh][i] = softmax(scale · scores[bh][i] + bias[i]) over the keys query i may see
//
//   scores (B·H, Lq, Lk + extra) → out (B·H, Lq, Lk + extra)
//
// One workgroup = one row.
// One invocation = every 128th key of it. The 128 running maxima and sums are merged by halving
// in workgroup memory, 1,024 bytes, with neighbouring invocations in different banks.
// Chosen on GPUs, and wherever nothing more is known: no features. Loads are coalesced.
// Arithmetic intensity: one exponential per loaded word.

// Constants
const WORKGROUP: u32 = 128u;
// A hidden key's weight: −0, a zero that the product with the values knows by its bits.
const HIDDEN: u32 = 0x80000000u;
// −∞ in a bias hides the key. No finite bias does, however low.
const MINUS_INFINITY: u32 = 0xff800000u;
const LOWEST: f32 = -0x1.fffffep+127f;
const LOG2_E: f32 = 1.44269504088896;

// Places in a tensor are computed modulo 2³²: `…_base` brings them into the bound window, which is smaller than that.
struct Params {
    batch_start: u32,
    row_start: u32,
    batches: u32,
    rows: u32,
    all_rows: u32,
    columns: u32,
    num_keys: u32,
    num_heads: u32,
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
    scores_base: u32,
    valid_lens_base: u32,
    mask_base: u32,
    bias_base: u32,
    out_base: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> scores: array<f32>;
@group(0) @binding(2) var<storage, read> valid_lens: array<u32>;
@group(0) @binding(3) var<storage, read> attend_mask: array<u32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
// Bits of f32: the sign of a zero must reach memory.
@group(0) @binding(5) var<storage, read_write> out: array<u32>;

// For each invocation what it has seen.
var<workgroup> tile_largest: array<f32, 128>;
var<workgroup> tile_sum: array<f32, 128>;

// --- One row of scores: the same text in every softmax variant ---

// One query of one head: where its elements start, and which keys it sees by position and length.
struct Row {
    scores: u32,
    out: u32,
    mask: u32,
    bias: u32,
    first_key: i32,
    end_key: i32,
}

// A key's scaled and biased score, and whether the query sees it: two facts, no magic number for the second.
struct Score {
    value: f32,
    visible: bool,
}

fn row_of(batch: u32, query: u32) -> Row {
    let entry = batch / params.num_heads;
    let head = batch % params.num_heads;
    let line = (batch * params.all_rows + query) * params.columns;
    var row: Row;
    row.scores = params.scores_base + line;
    row.out = params.out_base + line;
    row.mask = params.mask_base + entry * params.mask_entry_stride + head * params.mask_head_stride
        + query * params.num_keys;
    row.bias = params.bias_base + entry * params.bias_entry_stride + head * params.bias_head_stride
        + query * params.num_keys;
    row.first_key = i32(query) + params.band_start;
    row.end_key = i32(query) + params.band_end;
    if params.has_valid_lens != 0u {
        let place = entry * params.valid_lens_entry_stride + query * params.valid_lens_row_stride;
        // In a user's buffer it may be any number: beyond the keys it hides none, and i32 would make it negative.
        let valid_len = min(valid_lens[params.valid_lens_base + place], params.num_keys);
        row.end_key = min(row.end_key, i32(valid_len));
    }
    return row;
}

fn score_of(row: Row, key: u32) -> Score {
    var score = Score(params.scale * scores[row.scores + key], true);
    // Learned keys after the real ones are beyond masks and lengths.
    if key >= params.num_keys {
        return score;
    }
    score.visible = i32(key) >= row.first_key && i32(key) < row.end_key;
    if params.has_attend_mask != 0u {
        let place = row.mask + key;
        score.visible = score.visible && ((attend_mask[place >> 5u] >> (place & 31u)) & 1u) != 0u;
    }
    if params.has_bias != 0u {
        let value = bias[row.bias + key];
        score.visible = score.visible && bitcast<u32>(value) != MINUS_INFINITY;
        score.value += value;
    }
    return score;
}

// The largest score so far, and the sum of exp(score − largest): one pass over a row (Milakov and Gimelshein 2018).
struct Running {
    largest: f32,
    sum: f32,
}

fn power(score: f32, largest: f32) -> f32 {
    return exp2((score - largest) * LOG2_E);
}

fn include(running: Running, score: Score) -> Running {
    if !score.visible {
        return running;
    }
    let largest = max(running.largest, score.value);
    return Running(largest, running.sum * power(running.largest, largest) + power(score.value, largest));
}

// The bits of a key's weight.
fn weight_of(running: Running, score: Score) -> u32 {
    return select(HIDDEN, bitcast<u32>(power(score.value, running.largest) / running.sum), score.visible);
}

// --- End of the common text ---

// What two invocations have seen together. One that saw no key has a sum of 0, which no factor changes.
fn merge(a: Running, b: Running) -> Running {
    let largest = max(a.largest, b.largest);
    return Running(largest, a.sum * power(a.largest, largest) + b.sum * power(b.largest, largest));
}

@compute @workgroup_size(128)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = workgroup.y * params.grid_width + workgroup.x;
    // The grid is folded into two dimensions and may have workgroups to spare. They meet the barriers like all others,
    // on the block's last row without any of its keys.
    let block_batch = min(index / params.rows, params.batches - 1u);
    let columns = select(0u, params.columns, index / params.rows < params.batches);
    let row = row_of(params.batch_start + block_batch, params.row_start + index % params.rows);
    var running = Running(LOWEST, 0.0);
    for (var key = lane; key < columns; key += WORKGROUP) {
        running = include(running, score_of(row, key));
    }
    tile_largest[lane] = running.largest;
    tile_sum[lane] = running.sum;
    for (var width = WORKGROUP / 2u; width > 0u; width /= 2u) {
        // What every invocation has seen so far.
        workgroupBarrier();
        if lane < width {
            let other = Running(tile_largest[lane + width], tile_sum[lane + width]);
            running = merge(running, other);
            tile_largest[lane] = running.largest;
            tile_sum[lane] = running.sum;
        }
    }
    // The whole row's maximum and sum, in place 0.
    workgroupBarrier();
    running = Running(tile_largest[0], tile_sum[0]);
    for (var key = lane; key < columns; key += WORKGROUP) {
        out[row.out + key] = weight_of(running, score_of(row, key));
    }
}
