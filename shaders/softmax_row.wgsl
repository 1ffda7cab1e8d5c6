// softmax, a row to an invocation:  out[bh][i] = softmax(scale · scores[bh][i] + bias[i]) over the keys query i may see
//
//   scores (B·H, Lq, Lk + extra) → out (B·H, Lq, Lk + extra)
//
// One invocation = one row, read twice: once for the largest score and the sum, once to write.
// Chosen on CPU adapters, where a barrier is a change of coroutine: there is none. Assumes nothing of the device.
// Arithmetic intensity: one exponential per loaded word.

// Constants
const WORKGROUP: u32 = 64u;
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

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = (workgroup.y * params.grid_width + workgroup.x) * WORKGROUP + lane;
    if index / params.rows >= params.batches {
        return;
    }
    let row = row_of(params.batch_start + index / params.rows, params.row_start + index % params.rows);
    var running = Running(LOWEST, 0.0);
    for (var key = 0u; key < params.columns; key++) {
        running = include(running, score_of(row, key));
    }
    for (var key = 0u; key < params.columns; key++) {
        out[row.out + key] = weight_of(running, score_of(row, key));
    }
}
