// matmul, from texels, a panel at a time:  out[b] = lhs[b] · rhs[b / group] + bias
//
//   lhs (batch, M, K) · rhs (batch / group, K, N), or (batch / group, N, K) → out (batch, M, N)
//
// One workgroup = one subgroup = up to ROWS rows × COLS columns of one `out[b]`. It loads a panel of `rhs`, its
// columns and DEEP·LANES·4 steps along K, once for all of its rows, then the next panel.
// One invocation = four steps along K of every LANES·4, of all these rows and columns: lanes are steps, so that nothing
// is handed round until a row is done. Then lanes are added up and columns dealt out to them, both at once.
// Chosen on llvmpipe (matmul_texels.wgsl says why texels) where a product has many rows, both operands lie in textures
// and nothing is hidden. There a panel lies on the stack, where a multiplication reads it as fast as from a register:
// two instructions to a product and its sum. Sums that live through a loop take a third, since llvmpipe asks in every
// round who takes part; only `kept` does here, once a row. No barrier, no workgroup memory. Assumes that K, N and every
// start are multiples of four, and a subgroup of exactly LANES lanes.
// Arithmetic intensity: 8·ROWS·COLS·DEEP operations per DEEP·(ROWS + COLS) loads of four words in every lane.

// Constants
override TRANSPOSE_RHS: bool = false;
const LANES: u32 = 8u;
const ROWS: u32 = 64u;
// Columns in groups of four.
const FOURS: u32 = 4u;
const COLS: u32 = FOURS * 4u;
// Groups of columns that are summed in one go: their sums fit the registers.
const PAIRS: u32 = FOURS / 2u;
// Groups of LANES·4 steps in a panel, and those of them that never reach beyond K.
const DEEP: u32 = 8u;
const WHOLE: u32 = 8u;
const STEPS: u32 = LANES * 4u;
const BLOCKS: u32 = DEEP * FOURS;
// Sums of a row in each lane, once lanes are added up, and of all rows.
const KEPT: u32 = COLS / LANES;
const ALL_KEPT: u32 = ROWS * KEPT;
// Texels in a row of a texture that holds a tensor, four words each, in the tensor's order: 2¹⁰.
const TEXEL_ROW_LOG2: u32 = 10u;
const TEXEL_ROW_MASK: u32 = 1023u;

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
    lhs_first: u32,
    lhs_heads: u32,
    lhs_entry_stride: u32,
    lhs_head_stride: u32,
    lhs_row_stride: u32,
    rhs_first: u32,
    rhs_heads: u32,
    rhs_entry_stride: u32,
    rhs_head_stride: u32,
    rhs_row_stride: u32,
    out_heads: u32,
    out_entry_stride: u32,
    out_head_stride: u32,
    out_row_stride: u32,
    lhs_base: u32,
    bias_base: u32,
    out_base: u32,
    has_bias: u32,
    out_in_texels: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var lhs_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(2) var rhs_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(5) var out_texels: texture_storage_2d<rgba32float, write>;

fn texel(word: u32) -> vec2<u32> {
    return vec2<u32>((word / 4u) & TEXEL_ROW_MASK, (word / 4u) >> TEXEL_ROW_LOG2);
}

// --- Where a matrix starts: the same text in every product ---

// From the first one on. Entries lie one after the other, heads side by side in them.
fn start_of(matrix: u32, heads: u32, entry_stride: u32, head_stride: u32) -> u32 {
    return matrix / heads * entry_stride + matrix % heads * head_stride;
}

// --- End of the start ---

// Where column `col` of rhs[batch / group] starts.
fn rhs_column(rhs_start: u32, col: u32) -> u32 {
    // Columns past the block's end repeat its last ones; their sums are not stored.
    let inside = params.col_start + min(col, params.cols - 4u);
    return rhs_start + select(inside, inside * params.rhs_row_stride, TRANSPOSE_RHS);
}

// lhs[batch][row][k .. k + 4], which lies at `word`; 0 where k is past K, whatever lies there.
fn load_lhs(word: u32, is_inside: bool) -> vec4<f32> {
    return select(vec4<f32>(), textureLoad(lhs_texels, texel(word)), is_inside);
}

// Column i of the block is rhs[batch / group][k + i][col .. col + 4], of the column that starts at `column`.
fn load_rhs(column: u32, stride: u32, k: u32) -> mat4x4<f32> {
    // Four rows of `rhs` are along K, or along N.
    let first = column + select(k * stride, k, TRANSPOSE_RHS);
    let block = mat4x4<f32>(
        textureLoad(rhs_texels, texel(first)),
        textureLoad(rhs_texels, texel(first + stride)),
        textureLoad(rhs_texels, texel(first + 2u * stride)),
        textureLoad(rhs_texels, texel(first + 3u * stride)),
    );
    if TRANSPOSE_RHS {
        return transpose(block);
    }
    return block;
}

fn load_bias(col: u32) -> vec4<f32> {
    if params.has_bias == 0u {
        return vec4<f32>();
    }
    let first = params.bias_base + params.col_start + min(col, params.cols - 4u);
    return vec4<f32>(bias[first], bias[first + 1u], bias[first + 2u], bias[first + 3u]);
}

fn store(word: u32, out_base: u32, in_texels: bool, sum: vec4<f32>) {
    // A parameter, not an override: a second pipeline would take longer to compile than all stores.
    if in_texels {
        textureStore(out_texels, texel(word), sum);
    } else {
        out[(out_base + word) / 4u] = sum;
    }
}

// a + b, added up over pairs of lanes that differ in `bit`: that of a in the lane without it, of b in the lane with it.
fn added_up(a: f32, b: f32, lane: u32, bit: u32) -> f32 {
    let has_bit = (lane & bit) != 0u;
    return select(a, b, has_bit) + subgroupShuffle(select(b, a, has_bit), lane ^ bit);
}

// Four words, added up over four lanes: lane i has word i.
fn added_up_4(words: vec4<f32>, lane: u32) -> f32 {
    let even = added_up(words.x, words.y, lane, 1u);
    return added_up(even, added_up(words.z, words.w, lane, 1u), lane, 2u);
}

// Word i of lane j for word j of lane i, of every four lanes.
fn turned(words: vec4<f32>, lane: u32) -> vec4<f32> {
    let is_odd = (lane & 1u) != 0u;
    let beside = subgroupShuffle(select(words.yw, words.xz, is_odd), lane ^ 1u);
    let pairs = select(
        vec4<f32>(words.x, beside.x, words.z, beside.y), vec4<f32>(beside.x, words.y, beside.y, words.w), is_odd);
    let is_upper = (lane & 2u) != 0u;
    let across = subgroupShuffle(select(pairs.zw, pairs.xy, is_upper), lane ^ 2u);
    return select(vec4<f32>(pairs.xy, across), vec4<f32>(across, pairs.zw), is_upper);
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(subgroup_invocation_id) lane: u32) {
    // Read here, where nothing asks yet who takes part: anywhere else the compiler reads a parameter lane by lane.
    let inner = params.inner;
    let lhs_stride = params.lhs_row_stride;
    let rhs_stride = params.rhs_row_stride;
    let out_stride = params.out_row_stride;
    let out_base = params.out_base;
    let in_texels = params.out_in_texels != 0u;
    let all_cols = params.cols;
    let tiles_down = (params.rows + ROWS - 1u) / ROWS;
    // Rows are dealt out evenly, in fours, which are stored together.
    let tile_rows = (params.rows + tiles_down * 4u - 1u) / (tiles_down * 4u) * 4u;
    let tiles_across = (params.cols + COLS - 1u) / COLS;
    let tiles = tiles_down * tiles_across;
    let index = workgroup.y * params.grid_width + workgroup.x;
    // One row of tiles after the other: what they read of `lhs` stays in a cache, `rhs` passes by strip by strip.
    let tile = index % tiles;
    let row = tile / tiles_across * tile_rows;
    let col = tile % tiles_across * COLS;
    // The grid is folded into two dimensions and may have workgroups to spare.
    if index / tiles >= params.batches {
        return;
    }
    let batch = params.batch_start + index / tiles;
    let rows = min(tile_rows, params.rows - row);
    let lhs_start = params.lhs_first
        + start_of(batch, params.lhs_heads, params.lhs_entry_stride, params.lhs_head_stride)
        + (params.row_start + row) * lhs_stride;
    let rhs_start = params.rhs_first
        + start_of(batch / params.group, params.rhs_heads, params.rhs_entry_stride, params.rhs_head_stride);
    let out_start = start_of(batch, params.out_heads, params.out_entry_stride, params.out_head_stride)
        + (params.row_start + row) * out_stride + params.col_start;
    var columns: array<u32, FOURS>;
    for (var c = 0u; c < FOURS; c++) { // unroll
        columns[c] = rhs_column(rhs_start, col + c * 4u);
    }
    // kept[r · KEPT + c] = out[batch][row + r][col + c · LANES + lane]
    var kept: array<f32, ALL_KEPT>;
    for (var first = 0u; first < inner; first += DEEP * STEPS) {
        let k = first + lane * 4u;
        // panel[t · FOURS + c] = rhs[batch / group][k + t · STEPS ..][column group c], four by four
        var panel: array<mat4x4<f32>, BLOCKS>;
        for (var t = 0u; t < DEEP; t++) { // unroll
            for (var c = 0u; c < FOURS; c++) { // unroll
                panel[t * FOURS + c] = load_rhs(columns[c], rhs_stride, k + t * STEPS);
                // What is no number past K would make the sum none, though `lhs` counts as 0 there.
                if t >= WHOLE && k + t * STEPS >= inner {
                    panel[t * FOURS + c] = mat4x4<f32>();
                }
            }
        }
        for (var r = 0u; r < rows; r++) {
            let line = lhs_start + r * lhs_stride + k;
            var left: array<vec4<f32>, DEEP>;
            for (var t = 0u; t < DEEP; t++) { // unroll
                left[t] = load_lhs(line + t * STEPS, t < WHOLE || k + t * STEPS < inner);
            }
            // sums[c] is of column group c, by lane one column of it; then of as many columns as there are lanes.
            var sums: array<f32, FOURS>;
            for (var p = 0u; p < PAIRS; p++) { // unroll
                var low = panel[p * 2u][0] * left[0].x;
                var high = panel[p * 2u + 1u][0] * left[0].x;
                for (var t = 0u; t < DEEP; t++) { // unroll
                    if t > 0u {
                        low += panel[t * FOURS + p * 2u][0] * left[t].x;
                        high += panel[t * FOURS + p * 2u + 1u][0] * left[t].x;
                    }
                    low += panel[t * FOURS + p * 2u][1] * left[t].y;
                    high += panel[t * FOURS + p * 2u + 1u][1] * left[t].y;
                    low += panel[t * FOURS + p * 2u][2] * left[t].z;
                    high += panel[t * FOURS + p * 2u + 1u][2] * left[t].z;
                    low += panel[t * FOURS + p * 2u][3] * left[t].w;
                    high += panel[t * FOURS + p * 2u + 1u][3] * left[t].w;
                }
                sums[p * 2u] = added_up_4(low, lane);
                sums[p * 2u + 1u] = added_up_4(high, lane);
            }
            if LANES > 4u {
                for (var p = 0u; p < PAIRS; p++) { // unroll
                    sums[p] = added_up(sums[p * 2u], sums[p * 2u + 1u], lane, 4u);
                }
            }
            if LANES > 8u {
                sums[0] = added_up(sums[0], sums[1], lane, 8u);
            }
            for (var c = 0u; c < KEPT; c++) { // unroll
                kept[r * KEPT + c] += sums[c];
            }
        }
    }
    for (var c = 0u; c < KEPT; c++) { // unroll
        let own_col = col + c * LANES + lane / 4u * 4u;
        let added = load_bias(own_col);
        for (var r = 0u; r < rows; r += 4u) {
            let words = vec4<f32>(
                kept[r * KEPT + c],
                kept[(r + 1u) * KEPT + c],
                kept[(r + 2u) * KEPT + c],
                kept[(r + 3u) * KEPT + c],
            );
            let sum = turned(words, lane) + added;
            let own_row = r + lane % 4u;
            if own_row < rows && own_col < all_cols {
                store(out_start + own_row * out_stride + own_col, out_base, in_texels, sum);
            }
        }
    }
}
