// transpose_output, from texels:  out[b][t][h·d + c] = input[b·H + h][t][c]
//
//   input (B·H, L, d) → out (B, L, H·d)
//
// One invocation = four elements of a head, in the order of (B·H, L, d).
// Chosen on llvmpipe where the operand lies in a texture (matmul_texels.wgsl says why). Assumes that d is a multiple of
// four.
// Arithmetic intensity: none, a copy.

// Constants
override OUT_TEXELS: bool = true;
const WORKGROUP: u32 = 64u;
// Texels in a row of a texture that holds a tensor, four words each, in the tensor's order: 2¹⁰.
const TEXEL_ROW_LOG2: u32 = 10u;
const TEXEL_ROW_MASK: u32 = 1023u;

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
@group(0) @binding(1) var input_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(2) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(3) var out_texels: texture_storage_2d<rgba32float, write>;

fn texel(word: u32) -> vec2<u32> {
    return vec2<u32>((word / 4u) & TEXEL_ROW_MASK, (word / 4u) >> TEXEL_ROW_LOG2);
}

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

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let places = places_of(((workgroup.y * params.grid_width + workgroup.x) * WORKGROUP + lane) * 4u);
    if !places.inside {
        return;
    }
    let words = textureLoad(input_texels, texel(places.split));
    if OUT_TEXELS {
        textureStore(out_texels, texel(places.side_by_side), words);
    } else {
        out[(params.out_base + places.side_by_side) / 4u] = words;
    }
}
