// softmax, from texels, a row to an invocation:
//
//   out[bh][i] = softmax(scale · scores[bh][i] + bias[i]) over the keys query i may see
//
//   scores (B·H, Lq, Lk + extra) → out (B·H, Lq, Lk + extra)
//
// One invocation = one row, four keys at a time, read twice: once for the largest score and the sum, once to write.
// Chosen on llvmpipe (matmul_texels.wgsl says why texels) between products that keep their scores in textures. Masks
// and biases that are not there are not asked for, for llvmpipe would load them all the same. No barrier, no workgroup
// memory. Assumes that keys are a multiple of four.
// Arithmetic intensity: ten exponentials for two loads of four words.

// Constants
override HAS_MASK: bool = true;
override HAS_BIAS: bool = true;
override OUT_TEXELS: bool = true;
const WORKGROUP: u32 = 64u;
// A hidden key's weight: −0, a zero that the product with the values knows by its bits.
const HIDDEN: u32 = 0x80000000u;
// −∞ in a bias hides the key. No finite bias does, however low.
const MINUS_INFINITY: u32 = 0xff800000u;
const LOWEST: f32 = -0x1.fffffep+127f;
const LOG2_E: f32 = 1.44269504088896;
// Texels in a row of a texture that holds a tensor, four words each, in the tensor's order: 2¹⁰.
const TEXEL_ROW_LOG2: u32 = 10u;
const TEXEL_ROW_MASK: u32 = 1023u;

// Places in a tensor are computed modulo 2³²: `…_base` brings them into the bound window, which is smaller than that.
struct Params {
    batch_start: u32,
    row_start: u32,
    batches: u32,
    rows: u32,
    all_rows: u32,
    columns: u32,
    num_keys: u32,
    num_heads: u32,
    scale: f32,
    band_start: i32,
    band_end: i32,
    has_valid_lens: u32,
    has_attend_mask: u32,
    has_bias: u32,
    valid_lens_entry_stride: u32,
    valid_lens_row_stride: u32,
    mask_entry_stride: u32,
    mask_head_stride: u32,
    bias_entry_stride: u32,
    bias_head_stride: u32,
    scores_base: u32,
    valid_lens_base: u32,
    mask_base: u32,
    bias_base: u32,
    out_base: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var scores_texels: texture_storage_2d<rgba32float, read>;
@group(0) @binding(2) var<storage, read> valid_lens: array<u32>;
@group(0) @binding(3) var<storage, read> attend_mask: array<u32>;
@group(0) @binding(4) var<storage, read> bias: array<f32>;
// Bits of f32: the sign of a zero must reach memory.
@group(0) @binding(5) var<storage, read_write> out: array<u32>;
@group(0) @binding(6) var out_texels: texture_storage_2d<rgba32float, write>;

fn texel(word: u32) -> vec2<u32> {
    return vec2<u32>((word / 4u) & TEXEL_ROW_MASK, (word / 4u) >> TEXEL_ROW_LOG2);
}

// What a row's four keys need of the parameters, read once.
struct Line {
    scores: u32,
    mask: u32,
    bias: u32,
    first_key: i32,
    end_key: i32,
    num_keys: u32,
    scale: f32,
}

// Four keys' scaled and biased scores, and which of them the query sees.
struct Scores {
    values: vec4<f32>,
    visible: vec4<bool>,
}

fn scores_of(line: Line, key: u32) -> Scores {
    let keys = vec4<u32>(key) + vec4<u32>(0u, 1u, 2u, 3u);
    var scores: Scores;
    scores.values = line.scale * textureLoad(scores_texels, texel(line.scores + key));
    scores.visible = (vec4<i32>(keys) >= vec4<i32>(line.first_key)) & (vec4<i32>(keys) < vec4<i32>(line.end_key));
    if HAS_MASK {
        let bits = vec4<u32>(line.mask) + min(keys, vec4<u32>(line.num_keys - 1u));
        let places = bits >> vec4<u32>(5u);
        let words = vec4<u32>(
            attend_mask[places.x], attend_mask[places.y], attend_mask[places.z], attend_mask[places.w]);
        scores.visible &= ((words >> (bits & vec4<u32>(31u))) & vec4<u32>(1u)) != vec4<u32>(0u);
    }
    if HAS_BIAS {
        let places = vec4<u32>(line.bias) + min(keys, vec4<u32>(line.num_keys - 1u));
        let added = vec4<f32>(bias[places.x], bias[places.y], bias[places.z], bias[places.w]);
        scores.visible &= bitcast<vec4<u32>>(added) != vec4<u32>(MINUS_INFINITY);
        scores.values += select(vec4<f32>(), added, keys < vec4<u32>(line.num_keys));
    }
    // Learned keys after the real ones are beyond masks and lengths.
    scores.visible |= keys >= vec4<u32>(line.num_keys);
    return scores;
}

fn four_powers(scores: vec4<f32>, largest: f32) -> vec4<f32> {
    return exp2((scores - largest) * LOG2_E);
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    // Read here, where nothing asks yet who takes part: anywhere else the compiler reads a parameter lane by lane.
    let columns = params.columns;
    let num_keys = params.num_keys;
    let scale = params.scale;
    let out_base = params.out_base;
    let index = (workgroup.y * params.grid_width + workgroup.x) * WORKGROUP + lane;
    if index / params.rows >= params.batches {
        return;
    }
    let batch = params.batch_start + index / params.rows;
    let query = params.row_start + index % params.rows;
    let entry = batch / params.num_heads;
    let head = batch % params.num_heads;
    var end_key = min(i32(query) + params.band_end, i32(num_keys));
    if params.has_valid_lens != 0u {
        let place = entry * params.valid_lens_entry_stride + query * params.valid_lens_row_stride;
        // In a user's buffer it may be any number: beyond the keys it hides none, and i32 would make it negative.
        end_key = min(end_key, i32(min(valid_lens[params.valid_lens_base + place], num_keys)));
    }
    let mask_row = entry * params.mask_entry_stride + head * params.mask_head_stride + query * num_keys;
    let bias_row = entry * params.bias_entry_stride + head * params.bias_head_stride + query * num_keys;
    let line = Line(
        (batch * params.all_rows + query) * columns,
        params.mask_base + mask_row,
        params.bias_base + bias_row,
        i32(query) + params.band_start,
        end_key,
        num_keys,
        scale,
    );
    // The largest score so far, and the sum of exp(score − largest): one pass (Milakov and Gimelshein 2018).
    var largest = LOWEST;
    var sum = 0.0;
    for (var key = 0u; key < columns; key += 4u) {
        let scores = scores_of(line, key);
        let seen = select(vec4<f32>(LOWEST), scores.values, scores.visible);
        let before = largest;
        largest = max(max(before, max(seen.x, seen.y)), max(seen.z, seen.w));
        let added = select(vec4<f32>(), four_powers(scores.values, largest), scores.visible);
        sum = sum * four_powers(vec4<f32>(before), largest).x + ((added.x + added.y) + (added.z + added.w));
    }
    for (var key = 0u; key < columns; key += 4u) {
        let scores = scores_of(line, key);
        let weights = four_powers(scores.values, largest) / sum;
        let bits = select(vec4<u32>(HIDDEN), bitcast<vec4<u32>>(weights), scores.visible);
        if OUT_TEXELS {
            textureStore(out_texels, texel(line.scores + key), bitcast<vec4<f32>>(bits));
        } else {
            let place = out_base + line.scores + key;
            out[place] = bits.x;
            out[place + 1u] = bits.y;
            out[place + 2u] = bits.z;
            out[place + 3u] = bits.w;
        }
    }
}
