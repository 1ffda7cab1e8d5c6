// matmul, in registers, four words a load:  out[b] = lhs[b] · rhs[b / group] + bias
//
//   lhs (batch, M, K) · rhs (batch / group, K, N), or (batch / group, N, K) read transposed → out (batch, M, N)
//
// One invocation = 8 rows × 4 columns of `out` in one batch, four steps along K at a time, in two 4×4 matrices of sums.
// One workgroup = 32 invocations, `lanes_across` of them side by side, the rest below each other.
// Chosen on CPU adapters, where a barrier is a change of coroutine and workgroup memory is slower than memory: there is
// neither here. Assumes that rows of `lhs`, rows of `rhs` and their windows start at multiples of four words.
// Arithmetic intensity: 2·8·4·4 operations per 12 loads of four words, 5 operations a word.

// Constants
override TRANSPOSE_RHS: bool = false;
override SKIP_HIDDEN: bool = false;
const WORKGROUP: u32 = 32u;
const ROWS: u32 = 8u;
const COLS: u32 = 4u;
// A hidden key's weight: −0, told from 0 by its bits.
const HIDDEN: u32 = 0x80000000u;
// All ones here: infinity or NaN.
const EXPONENT: u32 = 0x7f800000u;

// Places in a tensor are computed modulo 2³²: `…_base` brings them into the bound window, which is smaller than that.
struct Params {
    batch_start: u32,
    row_start: u32,
    col_start: u32,
    group: u32,
    batches: u32,
    rows: u32,
    cols: u32,
    inner: u32,
    lhs_heads: u32,
    lhs_entry_stride: u32,
    lhs_head_stride: u32,
    lhs_row_stride: u32,
    rhs_heads: u32,
    rhs_entry_stride: u32,
    rhs_head_stride: u32,
    rhs_row_stride: u32,
    out_heads: u32,
    out_entry_stride: u32,
    out_head_stride: u32,
    out_row_stride: u32,
    lhs_base: u32,
    rhs_base: u32,
    bias_base: u32,
    out_base: u32,
    has_bias: u32,
    lanes_across: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> lhs: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> rhs: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

// --- Where a matrix starts: the same text in every product ---

// From the first one on. Entries lie one after the other, heads side by side in them.
fn start_of(matrix: u32, heads: u32, entry_stride: u32, head_stride: u32) -> u32 {
    return matrix / heads * entry_stride + matrix % heads * head_stride;
}

// --- End of the start ---

// lhs[b][row][k .. k + 4]
fn load_lhs(lhs_start: u32, row: u32, k: u32) -> vec4<f32> {
    // Rows past the block's end repeat its last one; their sums are not stored.
    let line = params.row_start + min(row, params.rows - 1u);
    return lhs[(lhs_start + line * params.lhs_row_stride + k) / 4u];
}

// rhs read transposed: rhs[b / group][col][k .. k + 4]
fn load_rhs_along_inner(rhs_start: u32, col: u32, k: u32) -> vec4<f32> {
    let line = params.col_start + min(col, params.cols - 1u);
    return rhs[(rhs_start + line * params.rhs_row_stride + k) / 4u];
}

// rhs[b / group][k][col .. col + 4]
fn load_rhs_along_cols(rhs_start: u32, k: u32, col: u32) -> vec4<f32> {
    return rhs[(rhs_start + k * params.rhs_row_stride + params.col_start + col) / 4u];
}

// Four rows of `rhs` from k on, four columns of it from `col` on: column i of the matrix is row k + i.
fn load_rhs(rhs_start: u32, k: u32, col: u32) -> mat4x4<f32> {
    if TRANSPOSE_RHS {
        return transpose(mat4x4<f32>(
            load_rhs_along_inner(rhs_start, col, k),
            load_rhs_along_inner(rhs_start, col + 1u, k),
            load_rhs_along_inner(rhs_start, col + 2u, k),
            load_rhs_along_inner(rhs_start, col + 3u, k),
        ));
    }
    return mat4x4<f32>(
        load_rhs_along_cols(rhs_start, k, col),
        load_rhs_along_cols(rhs_start, k + 1u, col),
        load_rhs_along_cols(rhs_start, k + 2u, col),
        load_rhs_along_cols(rhs_start, k + 3u, col),
    );
}

// Four rows of `lhs`, four steps along K: column i is row `row + i`.
fn load_lhs4(lhs_start: u32, row: u32, k: u32) -> mat4x4<f32> {
    return mat4x4<f32>(
        load_lhs(lhs_start, row, k),
        load_lhs(lhs_start, row + 1u, k),
        load_lhs(lhs_start, row + 2u, k),
        load_lhs(lhs_start, row + 3u, k),
    );
}

fn is_special(words: vec4<f32>) -> bool {
    return any((bitcast<vec4<u32>>(words) & vec4<u32>(EXPONENT)) == vec4<u32>(EXPONENT));
}

// x · y; nothing when x is the weight of a hidden key, whatever y is.
fn product(x: f32, y: vec4<f32>) -> vec4<f32> {
    return select(x * y, vec4<f32>(), bitcast<u32>(x) == HIDDEN);
}

// Σₖ x[k] · y[k], in the order of k.
fn kept_products(y: mat4x4<f32>, x: vec4<f32>) -> vec4<f32> {
    return product(x.x, y[0]) + product(x.y, y[1]) + product(x.z, y[2]) + product(x.w, y[3]);
}

// For each of four rows: Σₖ x[row][k] · y[k]. A zero times a finite number is zero anyway, so the hidden are looked at
// one by one only where the right side holds an infinity or a NaN.
fn products(y: mat4x4<f32>, x: mat4x4<f32>) -> mat4x4<f32> {
    if SKIP_HIDDEN {
        if is_special(y[0]) || is_special(y[1]) || is_special(y[2]) || is_special(y[3]) {
            return mat4x4<f32>(
                kept_products(y, x[0]),
                kept_products(y, x[1]),
                kept_products(y, x[2]),
                kept_products(y, x[3]),
            );
        }
    }
    return y * x;
}

fn store(out_start: u32, row: u32, col: u32, value: f32) {
    if row >= params.rows || col >= params.cols {
        return;
    }
    var sum = value;
    if params.has_bias != 0u {
        sum += bias[params.bias_base + params.col_start + col];
    }
    out[out_start + (params.row_start + row) * params.out_row_stride + params.col_start + col] = sum;
}

fn store4(out_start: u32, row: u32, col: u32, values: vec4<f32>) {
    store(out_start, row, col, values.x);
    store(out_start, row, col + 1u, values.y);
    store(out_start, row, col + 2u, values.z);
    store(out_start, row, col + 3u, values.w);
}

fn store4x4(out_start: u32, row: u32, col: u32, values: mat4x4<f32>) {
    store4(out_start, row, col, values[0]);
    store4(out_start, row + 1u, col, values[1]);
    store4(out_start, row + 2u, col, values[2]);
    store4(out_start, row + 3u, col, values[3]);
}

@compute @workgroup_size(32)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let tile_cols = params.lanes_across * COLS;
    let tile_rows = WORKGROUP / params.lanes_across * ROWS;
    let tiles_across = (params.cols + tile_cols - 1u) / tile_cols;
    let tiles_down = (params.rows + tile_rows - 1u) / tile_rows;
    let tile = workgroup.y * params.grid_width + workgroup.x;
    let col = tile % tiles_across * tile_cols + lane % params.lanes_across * COLS;
    let row = tile / tiles_across % tiles_down * tile_rows + lane / params.lanes_across * ROWS;
    // The grid is folded into two dimensions and may have workgroups to spare. No barrier follows.
    if tile / tiles_across / tiles_down >= params.batches || row >= params.rows || col >= params.cols {
        return;
    }
    let batch = params.batch_start + tile / tiles_across / tiles_down;
    let lhs_start = params.lhs_base
        + start_of(batch, params.lhs_heads, params.lhs_entry_stride, params.lhs_head_stride);
    let right_matrix = batch / params.group;
    let rhs_start = params.rhs_base
        + start_of(right_matrix, params.rhs_heads, params.rhs_entry_stride, params.rhs_head_stride);
    let out_start = params.out_base
        + start_of(batch, params.out_heads, params.out_entry_stride, params.out_head_stride);
    // sums[i][j] = out[row + i][col + j], rows 0 to 3 and 4 to 7
    var sums_low = mat4x4<f32>();
    var sums_high = mat4x4<f32>();
    for (var k = 0u; k < params.inner; k += 4u) {
        let y = load_rhs(rhs_start, k, col);
        sums_low += products(y, load_lhs4(lhs_start, row, k));
        sums_high += products(y, load_lhs4(lhs_start, row + 4u, k));
    }
    store4x4(out_start, row, col, sums_low);
    store4x4(out_start, row + 4u, col, sums_high);
}
