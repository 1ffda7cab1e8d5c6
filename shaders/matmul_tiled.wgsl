// matmul, portable:  out[b] = lhs[b] · rhs[b / group] + bias
//
//   lhs (batch, M, K) · rhs (batch / group, K, N), or (batch / group, N, K) read transposed → out (batch, M, N)
//
// One workgroup = one tile of `out` in one batch: 64×64, or as the host sets the first constants
// (kernels/matmul_tiles.rs). Whatever the tile, every sum has the same terms in the same order.
// One invocation = 4×4 of it, 8×8 of 128×128, rows LANES_DOWN and columns LANES_ACROSS apart, so that neighbouring
// invocations touch neighbouring words of memory and of the tiles.
// Chosen on GPUs, and wherever nothing more is known: no features, at most 256 invocations.
// Workgroup memory: two tiles of 16×65 words, 8,320 bytes; of 8×129 for 128×128. A row of a tile is padded by one word,
// so that the words written by neighbouring invocations fall into different banks.
// Arithmetic intensity: 2·64·64·16 operations per 2·64·16 loaded words, 64 operations a word; 128 for 128×128, 51 for
// 32×128, 32 for 32×32. From workgroup memory: 16 products for 8 words; 64 for 16.

// Constants
override TRANSPOSE_RHS: bool = false;
override SKIP_HIDDEN: bool = false;
const LANES_DOWN: u32 = 16u;
const LANES_ACROSS: u32 = 16u;
// Of one invocation: rows, and groups of four columns.
const ROWS: u32 = 4u;
const FOURS: u32 = 1u;
const TILE_INNER: u32 = 16u;
const SUMS: u32 = ROWS * FOURS;
const LANES: u32 = LANES_DOWN * LANES_ACROSS;
const TILE_ROWS: u32 = LANES_DOWN * ROWS;
const TILE_COLS: u32 = LANES_ACROSS * FOURS * 4u;
// Words of each tile that one invocation loads.
const LOADS_LHS: u32 = TILE_ROWS * TILE_INNER / LANES;
const LOADS_RHS: u32 = TILE_COLS * TILE_INNER / LANES;
const PADDED_ROWS: u32 = TILE_ROWS + 1u;
const PADDED_COLS: u32 = TILE_COLS + 1u;
// A hidden key's weight: −0, told from 0 by its bits.
const HIDDEN: u32 = 0x80000000u;

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
@group(0) @binding(1) var<storage, read> lhs: array<f32>;
@group(0) @binding(2) var<storage, read> rhs: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

// tile_lhs[k][row], tile_rhs[k][col]
var<workgroup> tile_lhs: array<f32, TILE_INNER * PADDED_ROWS>;
var<workgroup> tile_rhs: array<f32, TILE_INNER * PADDED_COLS>;

// x · y for four columns; nothing when x is the weight of a hidden key, whatever y is.
fn product(x: f32, y: vec4<f32>) -> vec4<f32> {
    if SKIP_HIDDEN {
        return select(x * y, vec4<f32>(), bitcast<u32>(x) == HIDDEN);
    }
    return x * y;
}

// --- Where a matrix starts: the same text in every product ---

// From the first one on. Entries lie one after the other, heads side by side in them.
fn start_of(matrix: u32, heads: u32, entry_stride: u32, head_stride: u32) -> u32 {
    return matrix / heads * entry_stride + matrix % heads * head_stride;
}

// --- End of the start ---

// lhs[b][row][k] of the block, 0 outside.
fn load_lhs(lhs_start: u32, row: u32, k: u32) -> f32 {
    if row >= params.rows || k >= params.inner {
        return 0.0;
    }
    return lhs[lhs_start + (params.row_start + row) * params.lhs_row_stride + k];
}

// rhs[b / group][k][col] of the block, 0 outside.
fn load_rhs(rhs_start: u32, k: u32, col: u32) -> f32 {
    if k >= params.inner || col >= params.cols {
        return 0.0;
    }
    if TRANSPOSE_RHS {
        return rhs[rhs_start + (params.col_start + col) * params.rhs_row_stride + k];
    }
    return rhs[rhs_start + k * params.rhs_row_stride + params.col_start + col];
}

// Four columns of the right tile, LANES_ACROSS apart.
fn four_cols(first: u32) -> vec4<f32> {
    return vec4<f32>(
        tile_rhs[first],
        tile_rhs[first + LANES_ACROSS],
        tile_rhs[first + 2u * LANES_ACROSS],
        tile_rhs[first + 3u * LANES_ACROSS],
    );
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

// Four columns, LANES_ACROSS apart.
fn store4(out_start: u32, row: u32, col: u32, values: vec4<f32>) {
    store(out_start, row, col, values.x);
    store(out_start, row, col + LANES_ACROSS, values.y);
    store(out_start, row, col + 2u * LANES_ACROSS, values.z);
    store(out_start, row, col + 3u * LANES_ACROSS, values.w);
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let tiles_across = (params.cols + TILE_COLS - 1u) / TILE_COLS;
    let tiles_down = (params.rows + TILE_ROWS - 1u) / TILE_ROWS;
    let tile = workgroup.y * params.grid_width + workgroup.x;
    let block_batch = tile / tiles_across / tiles_down;
    let batch = params.batch_start + block_batch;
    // The grid is folded into two dimensions and may have workgroups to spare. They meet the barriers like all others,
    // on a tile outside the block: there is nothing to load and nothing to store.
    let has_work = block_batch < params.batches;
    let lhs_start = params.lhs_base
        + start_of(batch, params.lhs_heads, params.lhs_entry_stride, params.lhs_head_stride);
    let right_matrix = batch / params.group;
    let rhs_start = params.rhs_base
        + start_of(right_matrix, params.rhs_heads, params.rhs_entry_stride, params.rhs_head_stride);
    let out_start = params.out_base
        + start_of(batch, params.out_heads, params.out_entry_stride, params.out_head_stride);
    let first_col = select(params.cols, tile % tiles_across * TILE_COLS, has_work);
    let first_row = select(params.rows, tile / tiles_across % tiles_down * TILE_ROWS, has_work);
    // This invocation's rows are LANES_DOWN apart from `row`, its columns LANES_ACROSS from `col`.
    let row = lane / LANES_ACROSS;
    let col = lane % LANES_ACROSS;
    // sums[r · FOURS + f] of the r-th row: columns 4f to 4f + 3
    var sums: array<vec4<f32>, SUMS>;
    for (var first_k = 0u; first_k < params.inner; first_k += TILE_INNER) {
        // Neighbouring invocations read along the axis that is contiguous in memory.
        let along = lane % TILE_INNER;
        for (var step = 0u; step < LOADS_LHS; step++) {
            let across = lane / TILE_INNER + step * (LANES / TILE_INNER);
            tile_lhs[along * PADDED_ROWS + across] = load_lhs(lhs_start, first_row + across, first_k + along);
        }
        for (var step = 0u; step < LOADS_RHS; step++) {
            if TRANSPOSE_RHS {
                let across = lane / TILE_INNER + step * (LANES / TILE_INNER);
                tile_rhs[along * PADDED_COLS + across] = load_rhs(rhs_start, first_k + along, first_col + across);
            } else {
                let k = lane / TILE_COLS + step * (LANES / TILE_COLS);
                let across = lane % TILE_COLS;
                tile_rhs[k * PADDED_COLS + across] = load_rhs(rhs_start, first_k + k, first_col + across);
            }
        }
        // Both tiles are whole.
        workgroupBarrier();
        for (var k = 0u; k < TILE_INNER; k++) {
            var right: array<vec4<f32>, FOURS>;
            for (var f = 0u; f < FOURS; f++) { // unroll
                right[f] = four_cols(k * PADDED_COLS + col + f * 4u * LANES_ACROSS);
            }
            for (var r = 0u; r < ROWS; r++) { // unroll
                let left = tile_lhs[k * PADDED_ROWS + row + r * LANES_DOWN];
                for (var f = 0u; f < FOURS; f++) { // unroll
                    sums[r * FOURS + f] += product(left, right[f]);
                }
            }
        }
        // Both tiles have been read and may be overwritten.
        workgroupBarrier();
    }
    for (var r = 0u; r < ROWS; r++) { // unroll
        for (var f = 0u; f < FOURS; f++) { // unroll
            let first = first_col + col + f * 4u * LANES_ACROSS;
            store4(out_start, first_row + row + r * LANES_DOWN, first, sums[r * FOURS + f]);
        }
    }
}
