// merge_partials: an attention of the parts of its keys, always in the same order
//
//   joined[b][i][h] = Σ exp(largest[p] − largest) · sums[p] / Σ exp(largest[p] − largest) · sum[p]
//
//   partials (B, Lq, H · parts · (dv + 2)) → out (B, Lq, H·dv)
//
// One invocation = one word of `out`: neighbours read neighbouring words.
// Chosen everywhere. Arithmetic intensity: an exponential and two operations for three loaded words.

// Constants
const WORKGROUP: u32 = 64u;
// The sum of a part that shows the query no key, −1.
const NO_KEY: u32 = 0xbf800000u;
const LOWEST: f32 = -0x1.fffffep+127f;
const LOG2_E: f32 = 1.44269504088896;

// Places in a tensor are computed modulo 2³²: `…_base` brings them into the bound window, which is smaller than that.
struct Params {
    entry_start: u32,
    row_start: u32,
    entries: u32,
    rows: u32,
    all_rows: u32,
    num_heads: u32,
    value_dim: u32,
    parts: u32,
    partials_base: u32,
    out_base: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> partials: array<f32>;
@group(0) @binding(2) var<storage, read_write> out: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = (workgroup.y * params.grid_width + workgroup.x) * WORKGROUP + lane;
    let width = params.num_heads * params.value_dim;
    if index / width / params.rows >= params.entries {
        return;
    }
    let entry = params.entry_start + index / width / params.rows;
    let row = params.row_start + index / width % params.rows;
    let head = index % width / params.value_dim;
    let word = index % params.value_dim;
    let pitch = params.value_dim + 2u;
    let line = (entry * params.all_rows + row) * params.num_heads + head;
    let start = params.partials_base + line * params.parts * pitch;
    var largest = LOWEST;
    var seen = false;
    for (var part = 0u; part < params.parts; part++) {
        let place = start + part * pitch + params.value_dim;
        let counts = bitcast<u32>(partials[place + 1u]) != NO_KEY;
        largest = select(largest, max(largest, partials[place]), counts);
        seen = seen || counts;
    }
    var sum = 0.0;
    var total = 0.0;
    for (var part = 0u; part < params.parts; part++) {
        let place = start + part * pitch;
        let of_part = partials[place + params.value_dim + 1u];
        if bitcast<u32>(of_part) != NO_KEY {
            let factor = exp2((partials[place + params.value_dim] - largest) * LOG2_E);
            sum += of_part * factor;
            total += partials[place + word] * factor;
        }
    }
    let place = params.out_base + (entry * params.all_rows + row) * width + head * params.value_dim + word;
    out[place] = select(0.0, total / sum, seen);
}
