// The most multiplications and additions that a shader can do: sixteen sums that do not wait for each other, nothing
// loaded. llvmpipe keeps a body of this length in registers; with eight lines instead of four it does 0.85 of this, with
// 32 lines 0.4 (docs/performance.md).

@group(0) @binding(0) var<storage, read> rounds: u32;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let m = 0.5 + f32(id.x & 7u) * 0.01;
    let t = 0.1 + f32(id.x & 3u) * 0.1;
    var x0 = vec4<f32>(t, m, t + m, t - m);
    var x1 = x0 * 0.5;
    var x2 = x0 * 0.25;
    var x3 = x0 * 0.125;
    // Loaded once: in the loop's condition it would be loaded in every round, which takes longer than the body.
    let last = rounds;
    for (var i = 0u; i < last; i++) {
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
    }
    out[id.x] = x0 + x1 + x2 + x3;
}
