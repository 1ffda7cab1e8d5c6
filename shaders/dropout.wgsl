// dropout:  out[bh][i][j] = weights[bh][i][j] · (kept(b, h, i, j) ? 1 / (1 − p) : 0)
//
//   weights (B·H, Lq, columns), pattern (4,): threshold, bits of 1 / (1 − p), generator's key → out (B·H, Lq, columns)
//
// What is kept is a function of place, seed and step alone, so that every kernel that drops weights drops the same.
// One invocation = four weights of one row, for which one turn of the generator gives the words.
// Chosen everywhere. Arithmetic intensity: about 250 integer operations for four words.

// Constants
const WORKGROUP: u32 = 64u;
// A hidden key's weight: −0, a zero that the product with the values knows by its bits.
const HIDDEN: u32 = 0x80000000u;

// Places in a tensor are computed modulo 2³²: `…_base` brings them into the bound window, which is smaller than that.
struct Params {
    batch_start: u32,
    row_start: u32,
    batches: u32,
    rows: u32,
    all_rows: u32,
    columns: u32,
    num_heads: u32,
    weights_base: u32,
    pattern_base: u32,
    out_base: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// Bits of f32: the sign of a zero must come through.
@group(0) @binding(1) var<storage, read> weights: array<u32>;
@group(0) @binding(2) var<storage, read> pattern: array<u32>;
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

// --- Dropped weights: the same text in every shader that drops some ---

// The high word of a · b, put together of products of 16-bit halves: WGSL multiplies modulo 2³².
fn high_product(a: u32, b: u32) -> u32 {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let cross = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let middle = (a & 0xffffu) * (b >> 16u) + (cross & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (cross >> 16u) + (middle >> 16u);
}

// Philox4x32-10 (Salmon, Moraes, Dror and Shaw 2011): four random words from a counter of four, under a key of two.
fn philox(counter: vec4<u32>, key: vec2<u32>) -> vec4<u32> {
    var words = counter;
    var bumped = key;
    for (var round = 0u; round < 10u; round++) { // unroll
        let first = vec2<u32>(high_product(0xd2511f53u, words.x), 0xd2511f53u * words.x);
        let second = vec2<u32>(high_product(0xcd9e8d57u, words.z), 0xcd9e8d57u * words.z);
        words = vec4<u32>(second.x ^ words.y ^ bumped.x, second.y, first.x ^ words.w ^ bumped.y, first.y);
        bumped += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return words;
}

// Which of four weights from key 4 · group on are kept: a bit for each, the first lowest.
fn kept_of(entry: u32, head: u32, query_row: u32, group: u32) -> u32 {
    let key = vec2<u32>(pattern[params.pattern_base + 2u], pattern[params.pattern_base + 3u]);
    let words = philox(vec4<u32>(group, query_row, head, entry), key);
    let kept = (words >> vec4<u32>(1u)) >= vec4<u32>(pattern[params.pattern_base]);
    return dot(select(vec4<u32>(), vec4<u32>(1u, 2u, 4u, 8u), kept), vec4<u32>(1u));
}

// What a kept weight is multiplied with.
fn kept_scale() -> f32 {
    return bitcast<f32>(pattern[params.pattern_base + 1u]);
}

// --- End of dropped weights ---

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = (workgroup.y * params.grid_width + workgroup.x) * WORKGROUP + lane;
    let groups = (params.columns + 3u) / 4u;
    if index / groups / params.rows >= params.batches {
        return;
    }
    let batch = params.batch_start + index / groups / params.rows;
    let query_row = params.row_start + index / groups % params.rows;
    let group = index % groups;
    let kept = kept_of(batch / params.num_heads, batch % params.num_heads, query_row, group);
    let line = (batch * params.all_rows + query_row) * params.columns;
    for (var key = group * 4u; key < min(group * 4u + 4u, params.columns); key++) {
        let weight = weights[params.weights_base + line + key];
        let factor = select(0.0, kept_scale(), ((kept >> (key & 3u)) & 1u) != 0u);
        let counted = bitcast<u32>(bitcast<f32>(weight) * factor);
        out[params.out_base + line + key] = select(counted, HIDDEN, weight == HIDDEN);
    }
}
