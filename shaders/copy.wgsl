// copy:  out[Σ index[a]·to[a]] = input[Σ index[a]·from[a]]  over four axes a
//
//   input (a row of elements) → out (a row of elements); what the output's strides leave out is not written
//
// One invocation = one element, in the order of the indices: neighbours differ in the last axis.
// Chosen everywhere. Arithmetic intensity: none, a copy.

// Constants
const WORKGROUP: u32 = 256u;

// Places in a tensor are computed modulo 2³²: `…_base` brings them into the bound window, which is smaller than that.
struct Params {
    batch_start: u32,
    row_start: u32,
    batches: u32,
    rows: u32,
    inner: u32,
    cols: u32,
    from_batch: u32,
    from_row: u32,
    from_inner: u32,
    from_col: u32,
    to_batch: u32,
    to_row: u32,
    to_inner: u32,
    to_col: u32,
    input_base: u32,
    out_base: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> input: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = (workgroup.y * params.grid_width + workgroup.x) * WORKGROUP + lane;
    let col = index % params.cols;
    let inner = index / params.cols % params.inner;
    let block_row = index / params.cols / params.inner;
    if block_row / params.rows >= params.batches {
        return;
    }
    let row = params.row_start + block_row % params.rows;
    let batch = params.batch_start + block_row / params.rows;
    let source = batch * params.from_batch + row * params.from_row + inner * params.from_inner + col * params.from_col;
    let place = batch * params.to_batch + row * params.to_row + inner * params.to_inner + col * params.to_col;
    out[params.out_base + place] = input[params.input_base + source];
}
