// matmul, few rows:  out[b] = lhs[b] · rhs[b / group] + bias
//
//   lhs (batch, M, K) · rhs (batch / group, K, N), or (batch / group, N, K) read transposed → out (batch, M, N), M ≤ 8
//
// Every word of `rhs` is wanted once for all rows, and loading it is what takes time. One workgroup = all rows of 32
// columns of one batch, whose steps along K are shared out among 8 slices of invocations; read transposed, of 8 columns
// among 32 slices. Either way neighbours load neighbouring words.
// One invocation = one slice of one column, four steps in flight, ROWS sums. At the end each element's slices are added
// up, always in the same order.
// Chosen on GPUs for products of up to 8 rows, which a step of decoding has; on CPU adapters a barrier costs too much.
// Workgroup memory: 256 words for each row, 8 KiB at most.
// Arithmetic intensity: 2·M operations a loaded word of `rhs`, 4·M where it is stored as halves; `lhs` stays in caches.

// Constants
override TRANSPOSE_RHS: bool = false;
override SKIP_HIDDEN: bool = false;
override HALVES: bool = true;
const LANES: u32 = 256u;
// Of one workgroup; and columns of one that reads `rhs` transposed, whose slices are as many as the other's columns.
const COLUMNS: u32 = 32u;
const COLUMNS_TRANSPOSED: u32 = 8u;
// Rows, 1 to 8, and steps along K that are in flight.
const ROWS: u32 = 8u;
const STEPS: u32 = 4u;
const SUM_TILE: u32 = ROWS * LANES;
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
// Bits of f32, or two halves to a word.
@group(0) @binding(2) var<storage, read> rhs: array<u32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<f32>;

// Each invocation's sums, [row][slice][column].
var<workgroup> sum_tile: array<f32, SUM_TILE>;

// x · y; nothing when x is the weight of a hidden key, whatever y is.
fn product(x: f32, y: f32) -> f32 {
    if SKIP_HIDDEN {
        return select(x * y, 0.0, bitcast<u32>(x) == HIDDEN);
    }
    return x * y;
}

// --- Where a matrix starts: the same text in every product ---

// From the first one on. Entries lie one after the other, heads side by side in them.
fn start_of(matrix: u32, heads: u32, entry_stride: u32, head_stride: u32) -> u32 {
    return matrix / heads * entry_stride + matrix % heads * head_stride;
}

// --- End of the start ---

// Where rhs[b / group][k][col] lies.
fn rhs_place(rhs_start: u32, k: u32, col: u32) -> u32 {
    if TRANSPOSE_RHS {
        return rhs_start + col * params.rhs_row_stride + k;
    }
    return rhs_start + k * params.rhs_row_stride + col;
}

fn load_rhs(place: u32) -> f32 {
    if HALVES {
        let pair = unpack2x16float(rhs[place >> 1u]);
        return select(pair.x, pair.y, (place & 1u) != 0u);
    }
    return bitcast<f32>(rhs[place]);
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let columns = select(COLUMNS, COLUMNS_TRANSPOSED, TRANSPOSE_RHS);
    let slices = LANES / columns;
    let groups = (params.cols + columns - 1u) / columns;
    let index = workgroup.y * params.grid_width + workgroup.x;
    // The grid is folded into two dimensions and may have workgroups to spare: they do the last columns again and store
    // nothing.
    let spare = index / groups >= params.batches;
    let batch = params.batch_start + min(index / groups, params.batches - 1u);
    let lhs_start = params.lhs_base
        + start_of(batch, params.lhs_heads, params.lhs_entry_stride, params.lhs_head_stride);
    let right_matrix = batch / params.group;
    let rhs_start = params.rhs_base
        + start_of(right_matrix, params.rhs_heads, params.rhs_entry_stride, params.rhs_head_stride);
    let out_start = params.out_base
        + start_of(batch, params.out_heads, params.out_entry_stride, params.out_head_stride);
    let first_col = index % groups * columns;
    let column = select(lane % columns, lane / slices, TRANSPOSE_RHS);
    let slice = select(lane / columns, lane % slices, TRANSPOSE_RHS);
    // Columns and rows past the end repeat the last one and are not stored.
    let col = params.col_start + min(first_col + column, params.cols - 1u);
    var lhs_lines: array<u32, ROWS>;
    for (var r = 0u; r < ROWS; r++) { // unroll
        lhs_lines[r] = lhs_start + (params.row_start + min(r, params.rows - 1u)) * params.lhs_row_stride;
    }
    var sums: array<f32, ROWS>;
    for (var first = slice; first < params.inner; first += slices * STEPS) {
        var words: array<f32, STEPS>;
        for (var s = 0u; s < STEPS; s++) { // unroll
            let k = first + s * slices;
            words[s] = load_rhs(rhs_place(rhs_start, min(k, params.inner - 1u), col));
        }
        for (var s = 0u; s < STEPS; s++) { // unroll
            let k = first + s * slices;
            if k < params.inner {
                for (var r = 0u; r < ROWS; r++) { // unroll
                    sums[r] += product(lhs[lhs_lines[r] + k], words[s]);
                }
            }
        }
    }
    for (var r = 0u; r < ROWS; r++) { // unroll
        sum_tile[r * LANES + slice * columns + column] = sums[r];
    }
    // All sums are there.
    workgroupBarrier();
    let row = lane / columns;
    let own = first_col + lane % columns;
    if row < params.rows && own < params.cols && !spare {
        var sum = 0.0;
        for (var s = 0u; s < slices; s++) {
            sum += sum_tile[row * LANES + s * columns + lane % columns];
        }
        if params.has_bias != 0u {
            sum += bias[params.bias_base + params.col_start + own];
        }
        out[out_start + (params.row_start + row) * params.out_row_stride + params.col_start + own] = sum;
    }
}
