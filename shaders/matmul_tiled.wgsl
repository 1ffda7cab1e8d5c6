// matmul, portable:  out[b] = lhs[b] · rhs[b / group] + bias
//
//   lhs (batch, M, K) · rhs (batch / group, K, N), or (batch / group, N, K) read transposed → out (batch, M, N)
//
// One workgroup = one 64×64 tile of `out` in one batch.
// One invocation = 4×4 of it, rows and columns 16 apart, so that neighbouring invocations touch neighbouring words of
// memory and of the tiles.
// Chosen on GPUs, and wherever nothing more is known: no features, 256 invocations.
// Workgroup memory: two tiles of 16×65 words, 8,320 bytes. A row of a tile is padded to 65 words so that the 16 words
// written by neighbouring invocations fall into different banks.
// Arithmetic intensity: 2·64·64·16 operations per 2·64·16 loaded words, 64 operations a word.

// Constants
override TRANSPOSE_RHS: bool = false;
override SKIP_HIDDEN: bool = false;
const TILE: u32 = 64u;
const TILE_INNER: u32 = 16u;
const PADDED: u32 = 65u;
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
var<workgroup> tile_lhs: array<f32, 1040>;
var<workgroup> tile_rhs: array<f32, 1040>;

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

// Four columns, 16 apart.
fn store4(out_start: u32, row: u32, col: u32, values: vec4<f32>) {
    store(out_start, row, col, values.x);
    store(out_start, row, col + 16u, values.y);
    store(out_start, row, col + 32u, values.z);
    store(out_start, row, col + 48u, values.w);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let tiles_across = (params.cols + TILE - 1u) / TILE;
    let tiles_down = (params.rows + TILE - 1u) / TILE;
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
    let first_col = select(params.cols, tile % tiles_across * TILE, has_work);
    let first_row = select(params.rows, tile / tiles_across % tiles_down * TILE, has_work);
    // This invocation's rows are 16 apart from `row`, its columns from `col`.
    let row = lane / 16u;
    let col = lane % 16u;
    var sums0 = vec4<f32>();
    var sums1 = vec4<f32>();
    var sums2 = vec4<f32>();
    var sums3 = vec4<f32>();
    for (var first_k = 0u; first_k < params.inner; first_k += TILE_INNER) {
        for (var step = 0u; step < 4u; step++) {
            // Neighbouring invocations read along the axis that is contiguous in memory.
            let along = lane % 16u;
            let across = lane / 16u + step * 16u;
            tile_lhs[along * PADDED + across] = load_lhs(lhs_start, first_row + across, first_k + along);
            if TRANSPOSE_RHS {
                tile_rhs[along * PADDED + across] = load_rhs(rhs_start, first_k + along, first_col + across);
            } else {
                let k = lane / 64u + step * 4u;
                tile_rhs[k * PADDED + lane % 64u] = load_rhs(rhs_start, first_k + k, first_col + lane % 64u);
            }
        }
        // Both tiles are whole.
        workgroupBarrier();
        for (var k = 0u; k < TILE_INNER; k++) {
            let line = k * PADDED;
            let y = vec4<f32>(
                tile_rhs[line + col],
                tile_rhs[line + col + 16u],
                tile_rhs[line + col + 32u],
                tile_rhs[line + col + 48u],
            );
            sums0 += product(tile_lhs[line + row], y);
            sums1 += product(tile_lhs[line + row + 16u], y);
            sums2 += product(tile_lhs[line + row + 32u], y);
            sums3 += product(tile_lhs[line + row + 48u], y);
        }
        // Both tiles have been read and may be overwritten.
        workgroupBarrier();
    }
    store4(out_start, first_row + row, first_col + col, sums0);
    store4(out_start, first_row + row + 16u, first_col + col, sums1);
    store4(out_start, first_row + row + 32u, first_col + col, sums2);
    store4(out_start, first_row + row + 48u, first_col + col, sums3);
}
