// matmul, from texels, a subgroup to a tile:  out[b] = lhs[b] · rhs[b / group] + bias
//
//   lhs (batch, M, K) · rhs (batch / group, K, N), or (batch / group, N, K) → out (batch, M, N)
//
// One workgroup = one subgroup = ROWS rows × LANES·COLS·4 columns of one `out[b]`, four steps along K at a time. Lanes
// are lanes of vectors there, so that the transposition of a 4 × 4 block, a lane's own, costs nothing.
// One invocation = COLS groups of four columns of every row; it loads four words of its own rows of `lhs` and hands
// them round.
// Chosen on llvmpipe, Mesa's CPU adapter, where matmul_panels.wgsl is not. There a load from a buffer is a loop over
// the lanes that puts words into a vector one by one through memory, and a load from a texture is not: it is five times
// as fast. The textures are bound as storage: a load from a sampled one works out a level of detail in every lane, for
// more than half of its time. The tile is small, so that what a round does fits what a processor keeps of decoded
// instructions. No barrier, no workgroup memory. Assumes that K, N and every start are multiples of four, and a
// subgroup of exactly LANES lanes.
// A hidden weight (−0, of SKIP_HIDDEN) takes no part: what is no number in `rhs` counts as 0 first, and a tile that met
// any is summed once more, product by product.
// Arithmetic intensity: 8·ROWS·LANES·COLS·4 operations per ROWS / LANES + 4·COLS loads of four words in every lane.

// Constants
override LHS_TEXELS: bool = true;
override TRANSPOSE_RHS: bool = false;
override SKIP_HIDDEN: bool = false;
const LANES: u32 = 8u;
const ROWS: u32 = 16u;
const COLS: u32 = 2u;
// Rows in groups of four; loads of `lhs`; groups of four sums.
const FOURS: u32 = ROWS / 4u;
const LOADS: u32 = ROWS / LANES;
const SUMS: u32 = ROWS * COLS;
// A hidden key's weight: −0.
const HIDDEN: u32 = 0x80000000u;
// The bits that infinities and NaN have all set.
const EXPONENT: u32 = 0x7f800000u;
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
@group(0) @binding(1) var<storage, read> lhs: array<vec4<f32>>;
@group(0) @binding(2) var lhs_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(3) var rhs_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;
@group(0) @binding(6) var out_texels: texture_storage_2d<rgba32float, write>;

fn texel(word: u32) -> vec2<u32> {
    return vec2<u32>((word / 4u) & TEXEL_ROW_MASK, (word / 4u) >> TEXEL_ROW_LOG2);
}

// --- Where a matrix starts: the same text in every product ---

// From the first one on. Entries lie one after the other, heads side by side in them.
fn start_of(matrix: u32, heads: u32, entry_stride: u32, head_stride: u32) -> u32 {
    return matrix / heads * entry_stride + matrix % heads * head_stride;
}

// --- End of the start ---

// Where lhs[batch][row] starts.
fn lhs_line(lhs_start: u32, row: u32) -> u32 {
    // Rows past the block's end repeat its last one; their sums are not stored.
    return lhs_start + (params.row_start + min(row, params.rows - 1u)) * params.lhs_row_stride;
}

// Where column `col` of rhs[batch / group] starts.
fn rhs_column(rhs_start: u32, col: u32) -> u32 {
    // Columns past the block's end repeat its last ones; their sums are not stored.
    let inside = params.col_start + min(col, params.cols - 4u);
    return rhs_start + select(inside, inside * params.rhs_row_stride, TRANSPOSE_RHS);
}

// lhs[batch][row][k .. k + 4], of the row that starts at `line`
fn load_lhs(line: u32, base: u32, k: u32) -> vec4<f32> {
    if LHS_TEXELS {
        return textureLoad(lhs_texels, texel(line + k));
    }
    return lhs[(base + line + k) / 4u];
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

fn is_no_number(words: vec4<f32>) -> vec4<bool> {
    return (bitcast<vec4<u32>>(words) & vec4<u32>(EXPONENT)) == vec4<u32>(EXPONENT);
}

fn all_numbers(block: mat4x4<f32>) -> bool {
    let odd = is_no_number(block[0]) | is_no_number(block[1]) | is_no_number(block[2]) | is_no_number(block[3]);
    return !any(odd);
}

fn number_or_zero(words: vec4<f32>) -> vec4<f32> {
    return select(words, vec4<f32>(), is_no_number(words));
}

// weight · words, or 0 where the weight is hidden.
fn weighed(weight: f32, words: vec4<f32>) -> vec4<f32> {
    return select(weight * words, vec4<f32>(), bitcast<u32>(weight) == HIDDEN);
}

fn load_bias(col: u32) -> vec4<f32> {
    if params.has_bias == 0u {
        return vec4<f32>();
    }
    let first = params.bias_base + params.col_start + min(col, params.cols - 4u);
    return vec4<f32>(bias[first], bias[first + 1u], bias[first + 2u], bias[first + 3u]);
}

fn store(out_start: u32, row: u32, col: u32, sum: vec4<f32>) {
    if row >= params.rows || col >= params.cols {
        return;
    }
    let word = out_start + (params.row_start + row) * params.out_row_stride + params.col_start + col;
    // A parameter, not an override: a second pipeline would take longer to compile than all stores.
    if params.out_in_texels != 0u {
        textureStore(out_texels, texel(word), sum);
    } else {
        out[(params.out_base + word) / 4u] = sum;
    }
}

// Where a product's matrices start.
struct Starts {
    lhs: u32,
    rhs: u32,
    out: u32,
}

// Four rows of a column group again, without what is hidden. Rounds are few, for llvmpipe counts them.
fn store_visible(starts: Starts, row: u32, col: u32, added: vec4<f32>) {
    var sums: array<vec4<f32>, 4>;
    for (var k = 0u; k < params.inner; k += 4u) {
        let right = load_rhs(rhs_column(starts.rhs, col), params.rhs_row_stride, k);
        for (var i = 0u; i < 4u; i++) { // unroll
            let weights = load_lhs(lhs_line(starts.lhs, row + i), params.lhs_base, k);
            sums[i] += weighed(weights.x, right[0]) + weighed(weights.y, right[1]);
            sums[i] += weighed(weights.z, right[2]) + weighed(weights.w, right[3]);
        }
    }
    for (var i = 0u; i < 4u; i++) { // unroll
        store(starts.out, row + i, col, sums[i] + added);
    }
}

@compute @workgroup_size(LANES)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(subgroup_invocation_id) lane: u32) {
    // Read here, where nothing asks yet who takes part: anywhere else the compiler reads a parameter lane by lane.
    let inner = params.inner;
    let rhs_stride = params.rhs_row_stride;
    let lhs_base = params.lhs_base;
    let tiles_down = (params.rows + ROWS - 1u) / ROWS;
    let tiles = tiles_down * ((params.cols + LANES * COLS * 4u - 1u) / (LANES * COLS * 4u));
    let index = workgroup.y * params.grid_width + workgroup.x;
    // One column of tiles after the other: what they read of `rhs` stays in a cache, `lhs` passes by row by row.
    let tile = index % tiles;
    let row = tile % tiles_down * ROWS;
    let first_col = tile / tiles_down * LANES * COLS * 4u + lane * 4u;
    // The grid is folded into two dimensions and may have workgroups to spare.
    if index / tiles >= params.batches {
        return;
    }
    let batch = params.batch_start + index / tiles;
    let lhs_start = params.lhs_first
        + start_of(batch, params.lhs_heads, params.lhs_entry_stride, params.lhs_head_stride);
    let right_matrix = batch / params.group;
    let rhs_start = params.rhs_first
        + start_of(right_matrix, params.rhs_heads, params.rhs_entry_stride, params.rhs_head_stride);
    let out_start = start_of(batch, params.out_heads, params.out_entry_stride, params.out_head_stride);
    var lines: array<u32, LOADS>;
    for (var g = 0u; g < LOADS; g++) { // unroll
        lines[g] = lhs_line(lhs_start, row + g * LANES + lane);
    }
    var columns: array<u32, COLS>;
    for (var c = 0u; c < COLS; c++) { // unroll
        columns[c] = rhs_column(rhs_start, first_col + c * LANES * 4u);
    }
    // sums[r · COLS + c] = out[batch][row + r][column group c]
    var sums: array<vec4<f32>, SUMS>;
    var met_no_number = false;
    for (var k = 0u; k < inner; k += 4u) {
        var right: array<mat4x4<f32>, COLS>;
        for (var c = 0u; c < COLS; c++) { // unroll
            let block = load_rhs(columns[c], rhs_stride, k);
            right[c] = block;
            if SKIP_HIDDEN {
                met_no_number = met_no_number || !all_numbers(block);
                right[c] = mat4x4<f32>(
                    number_or_zero(block[0]),
                    number_or_zero(block[1]),
                    number_or_zero(block[2]),
                    number_or_zero(block[3]),
                );
            }
        }
        for (var g = 0u; g < LOADS; g++) { // unroll
            let own = load_lhs(lines[g], lhs_base, k);
            for (var j = 0u; j < LANES; j++) { // unroll
                let left = subgroupShuffle(own, j);
                for (var c = 0u; c < COLS; c++) { // unroll
                    // One sum after the other: a product of matrices would have sixteen under way, more than registers.
                    let first = right[c][0] * left.x + right[c][1] * left.y;
                    sums[(g * LANES + j) * COLS + c] += first + right[c][2] * left.z + right[c][3] * left.w;
                }
            }
        }
    }
    for (var c = 0u; c < COLS; c++) { // unroll
        let col = first_col + c * LANES * 4u;
        let added = load_bias(col);
        for (var r = 0u; r < ROWS; r++) { // unroll
            store(out_start, row + r, col, sums[r * COLS + c] + added);
        }
    }
    if SKIP_HIDDEN {
        // A loop is left where nobody goes round; both ways of a question are gone there.
        for (var again = 0u; again < select(0u, FOURS * COLS, met_no_number); again++) {
            let col = first_col + again % COLS * LANES * 4u;
            store_visible(Starts(lhs_start, rhs_start, out_start), row + again / COLS * 4u, col, load_bias(col));
        }
    }
}
