// append_key:  out[b][t] = t < L ? input[b][t] : key
//
//   input (B, L, W), key (1, 1, W) → out (B, L + 1, W)
//
// One invocation = one element of `out`: neighbours read and write neighbouring words.
// Chosen everywhere. Arithmetic intensity: none, a copy.

// Constants
const WORKGROUP: u32 = 256u;

// Places in a tensor are computed modulo 2³²: `…_base` brings them into the bound window, which is smaller than that.
struct Params {
    batch_start: u32,
    row_start: u32,
    batches: u32,
    rows: u32,
    length: u32,
    width: u32,
    input_base: u32,
    key_base: u32,
    out_base: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> input: array<f32>;
@group(0) @binding(2) var<storage, read> key: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = (workgroup.y * params.grid_width + workgroup.x) * WORKGROUP + lane;
    let col = index % params.width;
    let row = params.row_start + index / params.width % params.rows;
    let block_batch = index / params.width / params.rows;
    if block_batch >= params.batches {
        return;
    }
    let batch = params.batch_start + block_batch;
    let place = params.out_base + (batch * (params.length + 1u) + row) * params.width + col;
    if row < params.length {
        out[place] = input[params.input_base + (batch * params.length + row) * params.width + col];
    } else {
        out[place] = key[params.key_base + col];
    }
}
