// The most multiplications and additions that a shader can do: four vectors in registers, nothing loaded.

@group(0) @binding(0) var<storage, read> rounds: u32;
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let m = 0.5 + f32(id.x & 7u) * 0.01;
    let t = f32(id.x & 3u) * 0.1;
    var x0 = vec4<f32>(t, m, t + m, t - m);
    var x1 = x0 * 0.5;
    var x2 = x0 * 0.25;
    var x3 = x0 * 0.125;
    for (var i = 0u; i < rounds; i++) {
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
        x0 = x0 * m + t; x1 = x1 * m + t; x2 = x2 * m + t; x3 = x3 * m + t;
    }
    out[id.x] = x0 + x1 + x2 + x3;
}
