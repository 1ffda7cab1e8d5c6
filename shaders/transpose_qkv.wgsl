// transpose_qkv:  out[b·H + h][t][c] = input[b][t][h·d + c]
//
//   input (B, L, H·d) → out (B·H, L, d)
//
// One invocation = one element, in the order of (B·H, L, d): neighbours read and write neighbouring words.
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
    head_dim: u32,
    num_heads: u32,
    input_base: u32,
    out_base: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> input: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

// --- Places of one element: the same text in every transposition ---

// Where an element lies, from the tensor's start: in (B·H, L, d), and in (B, L, H·d).
struct Places {
    split: u32,
    side_by_side: u32,
    // Whether the block has the element: the grid may have invocations to spare.
    inside: bool,
}

// Element `index` of the block, in the order of (B·H, L, d).
fn places_of(index: u32) -> Places {
    let col = index % params.head_dim;
    let row = params.row_start + index / params.head_dim % params.rows;
    let block_batch = index / params.head_dim / params.rows;
    let batch_head = params.batch_start + block_batch;
    let batch = batch_head / params.num_heads;
    let head = batch_head % params.num_heads;
    let split = (batch_head * params.length + row) * params.head_dim + col;
    let side_by_side = ((batch * params.length + row) * params.num_heads + head) * params.head_dim + col;
    return Places(split, side_by_side, block_batch < params.batches);
}

// --- End of the places ---

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let places = places_of((workgroup.y * params.grid_width + workgroup.x) * WORKGROUP + lane);
    if !places.inside {
        return;
    }
    out[params.out_base + places.split] = input[params.input_base + places.side_by_side];
}
