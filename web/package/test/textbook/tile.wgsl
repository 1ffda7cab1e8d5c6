// out = lhs · rhs, each side × side: the tile that textbooks have. One workgroup = one 16×16 tile of `out`; one
// invocation = one number of it; both operands go through workgroup memory. `side` is a multiple of 16.

const TILE = 16u;

@group(0) @binding(0) var<uniform> side: u32;
@group(0) @binding(1) var<storage, read> lhs: array<f32>;
@group(0) @binding(2) var<storage, read> rhs: array<f32>;
@group(0) @binding(3) var<storage, read_write> out: array<f32>;

var<workgroup> tile_lhs: array<array<f32, TILE>, TILE>;
var<workgroup> tile_rhs: array<array<f32, TILE>, TILE>;

@compute @workgroup_size(16, 16)
fn main(@builtin(global_invocation_id) place: vec3<u32>, @builtin(local_invocation_id) lane: vec3<u32>) {
    let row = place.y;
    let col = place.x;
    var sum = 0.0;
    for (var start = 0u; start < side; start += TILE) {
        tile_lhs[lane.y][lane.x] = lhs[row * side + start + lane.x];
        tile_rhs[lane.y][lane.x] = rhs[(start + lane.y) * side + col];
        // Both tiles are visible to the whole workgroup.
        workgroupBarrier();
        for (var k = 0u; k < TILE; k++) {
            sum += tile_lhs[lane.y][k] * tile_rhs[k][lane.x];
        }
        // Nobody reads the tiles any more.
        workgroupBarrier();
    }
    out[row * side + col] = sum;
}
