// matmul, from texels, a subgroup to a tile:  out = lhs · rhs + bias
//
//   lhs (M, K) · rhs (K, N) → out (M, N)
//
// One workgroup = one subgroup = ROWS rows × LANES·COLS·4 columns of `out`, four steps along K at a time.
// One invocation = COLS groups of four columns of every row; it loads four words of its own rows of `lhs` and hands
// them round.
// Chosen on llvmpipe, Mesa's CPU adapter. There a load from a buffer is a loop over the lanes that puts words into a
// vector one by one through memory, and a load from a texture is not: it is five times as fast. No barrier, no
// workgroup memory. Assumes that K, N and every start are multiples of four, and a subgroup of exactly LANES lanes.
// Arithmetic intensity: 8·ROWS·LANES·COLS·4 operations per ROWS / LANES + 4·COLS loads of four words in every lane.

// Constants
override LHS_TEXELS: bool = true;
const LANES: u32 = 8u;
const ROWS: u32 = 32u;
const COLS: u32 = 2u;
// Rows in groups of four; loads of `lhs`; matrices of sums.
const FOURS: u32 = ROWS / 4u;
const LOADS: u32 = ROWS / LANES;
const SUMS: u32 = FOURS * COLS;
// Texels in a row of a texture that holds a tensor, four words each, in the tensor's order: 2¹⁰.
const TEXEL_ROW_LOG2: u32 = 10u;
const TEXEL_ROW_MASK: u32 = 1023u;

// Places in a tensor are computed modulo 2³²: `…_base` brings them into the bound window, which is smaller than that.
struct Params {
    row_start: u32,
    col_start: u32,
    rows: u32,
    cols: u32,
    inner: u32,
    all_cols: u32,
    lhs_base: u32,
    bias_base: u32,
    out_base: u32,
    has_bias: u32,
    out_in_texels: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> lhs: array<vec4<f32>>;
@group(0) @binding(2) var lhs_texels: texture_2d<f32>;
@group(0) @binding(3) var rhs_texels: texture_2d<f32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(6) var out_texels: texture_storage_2d<rgba32float, write>;

fn texel(word: u32) -> vec2<u32> {
    return vec2<u32>((word / 4u) & TEXEL_ROW_MASK, (word / 4u) >> TEXEL_ROW_LOG2);
}

// lhs[row][k .. k + 4]
fn load_lhs(row: u32, k: u32) -> vec4<f32> {
    // Rows past the block's end repeat its last one; their sums are not stored.
    let word = (params.row_start + min(row, params.rows - 1u)) * params.inner + k;
    if LHS_TEXELS {
        return textureLoad(lhs_texels, texel(word), 0);
    }
    return lhs[(params.lhs_base + word) / 4u];
}

// rhs[k][col .. col + 4]
fn load_rhs(k: u32, col: u32) -> vec4<f32> {
    return textureLoad(rhs_texels, texel(k * params.all_cols + params.col_start + min(col, params.cols - 4u)), 0);
}

fn load_bias(col: u32) -> vec4<f32> {
    if params.has_bias == 0u {
        return vec4<f32>();
    }
    let first = params.bias_base + params.col_start + min(col, params.cols - 4u);
    return vec4<f32>(bias[first], bias[first + 1u], bias[first + 2u], bias[first + 3u]);
}

fn store(row: u32, col: u32, sum: vec4<f32>) {
    if row >= params.rows || col >= params.cols {
        return;
    }
    let word = (params.row_start + row) * params.all_cols + params.col_start + col;
    // A parameter, not an override: a second pipeline would take longer to compile than all stores.
    if params.out_in_texels != 0u {
        textureStore(out_texels, texel(word), sum);
    } else {
        out[(params.out_base + word) / 4u] = sum;
    }
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(subgroup_invocation_id) lane: u32) {
    let tiles_across = (params.cols + LANES * COLS * 4u - 1u) / (LANES * COLS * 4u);
    let tile = workgroup.y * params.grid_width + workgroup.x;
    let row = tile / tiles_across * ROWS;
    let first_col = tile % tiles_across * LANES * COLS * 4u + lane * 4u;
    // The grid is folded into two dimensions and may have workgroups to spare.
    if row >= params.rows {
        return;
    }
    // sums[f · COLS + c][i] = out[row + 4f + i][column group c]
    var sums: array<mat4x4<f32>, SUMS>;
    for (var k = 0u; k < params.inner; k += 4u) {
        var right: array<mat4x4<f32>, COLS>;
        for (var c = 0u; c < COLS; c++) { // unroll
            let col = first_col + c * LANES * 4u;
            right[c] = mat4x4<f32>(
                load_rhs(k, col),
                load_rhs(k + 1u, col),
                load_rhs(k + 2u, col),
                load_rhs(k + 3u, col),
            );
        }
        var left: array<vec4<f32>, LOADS>;
        for (var g = 0u; g < LOADS; g++) { // unroll
            left[g] = load_lhs(row + g * LANES + lane, k);
        }
        for (var f = 0u; f < FOURS; f++) { // unroll
            let x = mat4x4<f32>(
                subgroupShuffle(left[f * 4u / LANES], (f * 4u) % LANES),
                subgroupShuffle(left[f * 4u / LANES], (f * 4u) % LANES + 1u),
                subgroupShuffle(left[f * 4u / LANES], (f * 4u) % LANES + 2u),
                subgroupShuffle(left[f * 4u / LANES], (f * 4u) % LANES + 3u),
            );
            for (var c = 0u; c < COLS; c++) { // unroll
                sums[f * COLS + c] += right[c] * x;
            }
        }
    }
    for (var c = 0u; c < COLS; c++) { // unroll
        let col = first_col + c * LANES * 4u;
        let added = load_bias(col);
        for (var f = 0u; f < FOURS; f++) { // unroll
            for (var i = 0u; i < 4u; i++) { // unroll
                store(row + f * 4u + i, col, sums[f * COLS + c][i] + added);
            }
        }
    }
}
