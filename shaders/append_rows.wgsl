// append_rows: new rows of a cache, in place:  out[b][cached[b] + t] = rows[b][t] for t < added[b]
//
//   rows (B, Lq, …), lengths (B, 2): cached rows, new rows → out (B, capacity, heads · width of a head with zeros)
//
// One invocation = four elements of one row of `out`. What is no new row stays what it is; a row that would lie behind
// the capacity is not written. Halves are rounded to the nearest, ties to even, by whole numbers: the same on every
// device.
// Chosen everywhere. Arithmetic intensity: none, a copy.

// Constants
override HALVES: bool = true;
const WORKGROUP: u32 = 64u;

// Places in a tensor are computed modulo 2³²: `…_base` brings them into the bound window, which is smaller than that.
struct Params {
    entry_start: u32,
    row_start: u32,
    entries: u32,
    rows: u32,
    all_rows: u32,
    capacity: u32,
    width: u32,
    head_width: u32,
    head_dim: u32,
    rows_first: u32,
    rows_stride: u32,
    rows_base: u32,
    lengths_base: u32,
    out_base: u32,
    grid_width: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> rows: array<f32>;
@group(0) @binding(2) var<storage, read> lengths: array<u32>;
// Bits of f32, or two halves to a word.
@group(0) @binding(3) var<storage, read_write> out: array<u32>;

// An element of a head of a row; zeros follow the head.
fn element(line: u32, column: u32) -> f32 {
    let head = column / params.head_width;
    let word = column % params.head_width;
    let loaded = rows[line + head * params.head_dim + min(word, params.head_dim - 1u)];
    return select(0.0, loaded, word < params.head_dim);
}

// The bits of the nearest half.
fn half_of(number: f32) -> u32 {
    let bits = bitcast<u32>(number);
    let sign = (bits >> 16u) & 0x8000u;
    let magnitude = bits & 0x7fffffffu;
    if magnitude > 0x7f800000u {
        return sign | 0x7e00u;
    }
    // From 65,520 on it is infinity.
    if magnitude >= 0x477ff000u {
        return sign | 0x7c00u;
    }
    // Below 2⁻²⁵ it is zero.
    if magnitude < 0x33000000u {
        return sign;
    }
    // From 2⁻¹⁴ on halves are normal.
    if magnitude >= 0x38800000u {
        return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13u) & 1u)) >> 13u);
    }
    let mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    let dropped = 126u - (magnitude >> 23u);
    let kept = mantissa >> dropped;
    let rest = mantissa & ((1u << dropped) - 1u);
    let middle = 1u << (dropped - 1u);
    return sign | (kept + u32(rest > middle || (rest == middle && (kept & 1u) != 0u)));
}

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let index = (workgroup.y * params.grid_width + workgroup.x) * WORKGROUP + lane;
    let fours = params.width / 4u;
    if index / fours / params.rows >= params.entries {
        return;
    }
    let entry = params.entry_start + index / fours / params.rows;
    let row = params.row_start + index / fours % params.rows;
    let cached = min(lengths[params.lengths_base + entry * 2u], params.capacity);
    let added = min(lengths[params.lengths_base + entry * 2u + 1u], params.capacity - cached);
    if row >= added {
        return;
    }
    let column = index % fours * 4u;
    let line = params.rows_base + params.rows_first + (entry * params.all_rows + row) * params.rows_stride;
    let words = vec4<f32>(
        element(line, column),
        element(line, column + 1u),
        element(line, column + 2u),
        element(line, column + 3u),
    );
    let place = params.out_base + (entry * params.capacity + cached + row) * params.width + column;
    if HALVES {
        out[place / 2u] = half_of(words.x) | (half_of(words.y) << 16u);
        out[place / 2u + 1u] = half_of(words.z) | (half_of(words.w) << 16u);
    } else {
        let bits = bitcast<vec4<u32>>(words);
        out[place] = bits.x;
        out[place + 1u] = bits.y;
        out[place + 2u] = bits.z;
        out[place + 3u] = bits.w;
    }
}
