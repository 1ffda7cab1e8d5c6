//! `matmul` on the GPU: a tile in workgroup memory for GPUs, registers alone for CPU adapters.
//!
//! A grid of tiles over (rows, cols) for each batch, folded into two dimensions. A right operand of one matrix makes all
//! rows one batch.

use super::params::params;
use super::shader::shader;
use super::{
    Chosen, Kernel, Launch, ProductClass, Request, Slot, Tile, fold, looped, matmul_panels, matmul_texels, size,
    wrapped,
};
use crate::gpu::{AdapterKind, DeviceProfile};
use crate::graph::matrices::Matrices;
use crate::graph::{DType, Matmul};

params! {
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
}

pub(super) static KERNELS: [Kernel; 6] = [
    kernel(TILED, shader!("matmul_tiled")),
    Kernel { overrides: &["TRANSPOSE_RHS", "SKIP_HIDDEN", "HALVES"], ..kernel(ROWS, shader!("matmul_rows")) },
    kernel("matmul_register", shader!("matmul_register")),
    kernel("matmul_register_vec4", shader!("matmul_register_vec4")),
    Kernel {
        name: TEXELS,
        op: "matmul",
        wgsl: shader!("matmul_texels"),
        slots: &[
            Slot::Read(0),
            Slot::ReadTexels(0),
            Slot::ReadTexels(1),
            Slot::Read(2),
            Slot::Write,
            Slot::WriteTexels,
        ],
        params: matmul_texels::Params::LAYOUT,
        overrides: &["LHS_TEXELS", "TRANSPOSE_RHS", "SKIP_HIDDEN"],
    },
    Kernel {
        name: PANELS,
        op: "matmul",
        wgsl: shader!("matmul_panels"),
        slots: &[Slot::ReadTexels(0), Slot::ReadTexels(1), Slot::Read(2), Slot::Write, Slot::WriteTexels],
        params: matmul_texels::Params::LAYOUT,
        overrides: &["TRANSPOSE_RHS"],
    },
];

pub(super) const TEXELS: &str = "matmul_texels";
pub(super) const PANELS: &str = "matmul_panels";
const TILED: &str = "matmul_tiled";
const ROWS: &str = "matmul_rows";

const fn kernel(name: &'static str, wgsl: &'static str) -> Kernel {
    let overrides = &["TRANSPOSE_RHS", "SKIP_HIDDEN"];
    let slots = &[Slot::Read(0), Slot::Read(1), Slot::Read(2), Slot::Write];
    Kernel { name, op: "matmul", wgsl, slots, params: Params::LAYOUT, overrides }
}

/// Rows and columns of one invocation of the register kernels.
const REGISTER_SIDES: [usize; 2] = [8, 4];
/// Invocations to a workgroup of the register kernels.
const WORKGROUP: usize = 32;

/// The most rows of `matmul_rows`.
const FEW_ROWS: usize = 8;
/// Invocations to one of its workgroups.
const LANES: usize = 256;
/// Columns of one, and of one that reads its right operand transposed; as many slices share each as lanes allow.
const COLUMNS: [usize; 2] = [32, 8];
/// Steps along K of one slice that are in flight.
const STEPS: usize = 4;

/// What the choice depends on beside the device.
struct Sizes {
    /// M of the whole product, of which a block may have less: all its blocks sum in one order.
    rows: usize,
    /// K.
    inner: usize,
    /// Of both operands.
    matrices: [Matrices; 2],
    /// Starts of the windows and of the block's columns.
    starts: [u32; 3],
}

impl Sizes {
    /// Whether every row that is read along memory starts at a multiple of four words.
    fn in_fours(&self) -> bool {
        self.inner.is_multiple_of(4)
            && self.matrices.iter().all(Matrices::in_fours)
            && self.starts.iter().all(|start| start.is_multiple_of(4))
    }
}

/// Heads, and the distances between entries, heads and rows, as the shaders take them.
pub(super) fn places(matrices: &Matrices) -> [u32; 4] {
    let Matrices { num_heads, entry_stride, head_stride, row_stride, .. } = *matrices;
    [size(num_heads), wrapped(entry_stride as u64), size(head_stride), size(row_stride)]
}

/// Whether a product's right operand may be stored as 16-bit floats: it has few rows, and loads are what takes its time.
pub(crate) fn reads_halves(rows: usize, profile: &DeviceProfile, preferred: &[&'static str]) -> bool {
    let own = preferred.iter().find(|&&name| KERNELS.iter().any(|kernel| kernel.name == name));
    let is_wanted = own.map_or(profile.kind != AdapterKind::Cpu, |&name| name == ROWS);
    (1..=FEW_ROWS).contains(&rows) && is_wanted
}

fn choose(sizes: &Sizes, request: &Request<'_>) -> &'static str {
    let applies = |name: &str| match name {
        "matmul_register_vec4" => sizes.in_fours(),
        ROWS => sizes.rows <= FEW_ROWS,
        // Taken before anything else is chosen, where the operands lie in textures.
        TEXELS | PANELS => false,
        _ => true,
    };
    let own = request.preferred.iter().find(|&&name| applies(name) && KERNELS.iter().any(|kernel| kernel.name == name));
    match (own, request.profile.kind) {
        (Some(preferred), _) => preferred,
        (None, AdapterKind::Cpu) if applies("matmul_register_vec4") => "matmul_register_vec4",
        (None, AdapterKind::Cpu) => "matmul_register",
        _ if applies(ROWS) => ROWS,
        _ => TILED,
    }
}

/// What a kernel's text and grid are made for.
struct Form {
    text_constants: Vec<(&'static str, u32)>,
    /// Rows and columns of a workgroup.
    sides: [usize; 2],
    /// Of all loops of one invocation.
    rounds: u64,
    /// Invocations of the register kernels side by side.
    lanes_across: usize,
}

fn form(kernel: &str, op: &Matmul, sizes: &Sizes, request: &Request<'_>) -> Form {
    let [batches, rows, cols] = request.block.sizes();
    let inner = sizes.inner;
    match kernel {
        TILED => {
            let chosen = request.tiles.of(&ProductClass::of(op, [batches, rows, cols], inner));
            let tile = chosen.unwrap_or_else(|| Tile::usual([batches, rows, cols], request.profile.kind));
            let (text_constants, sides, rounds) = (tile.text_constants(), tile.sides(), tile.rounds(inner));
            Form { text_constants, sides, rounds, lanes_across: 0 }
        }
        ROWS => {
            let columns = COLUMNS[usize::from(op.transpose_rhs)];
            let slices = LANES / columns;
            // Steps along K, then the slices are added up.
            let rounds = looped(inner.div_ceil(slices * STEPS), 0) + looped(slices, 0);
            let text_constants = vec![("ROWS", size(sizes.rows.next_power_of_two()))];
            Form { text_constants, sides: [FEW_ROWS, columns], rounds, lanes_across: 0 }
        }
        _ => {
            let [down, across] = REGISTER_SIDES;
            // As many invocations side by side as the columns need, so that narrow products leave few of them idle.
            let lanes_across = cols.div_ceil(across).next_power_of_two().min(WORKGROUP);
            let sides = [WORKGROUP / lanes_across * down, lanes_across * across];
            Form { text_constants: Vec::new(), sides, rounds: looped(inner.div_ceil(4), 0), lanes_across }
        }
    }
}

pub(super) fn launch(op: &Matmul, request: &Request<'_>) -> Launch {
    if request.reads_texels && matmul_panels::is_taken(op, request) {
        return matmul_panels::launch(op, request);
    }
    if request.reads_texels {
        return matmul_texels::launch(op, request);
    }
    let Request { graph, node, block, .. } = request;
    let &[lhs_base, rhs_base, ..] = request.bases else {
        unreachable!("a product should have three operands and an output");
    };
    let sizes = Sizes {
        rows: graph.space(node)[1],
        inner: graph.inner(op),
        matrices: [graph.lhs_matrices(op), graph.rhs_matrices(op)],
        starts: [lhs_base, rhs_base, size(block.cols.start)],
    };
    let halves = graph.value(op.rhs).dtype == DType::F16;
    // No other kernel reads them.
    let kernel = if halves { ROWS } else { choose(&sizes, request) };
    let Form { text_constants, sides, rounds, lanes_across } = form(kernel, op, &sizes, request);
    let [batches, rows, cols] = block.sizes();
    let tiles = rows.div_ceil(sides[0]) as u64 * cols.div_ceil(sides[1]) as u64;
    let workgroups = fold(tiles * batches as u64, request.profile);
    let params = Params { lanes_across: size(lanes_across), grid_width: workgroups[0], ..params(op, &sizes, request) };
    let mut constants = vec![("TRANSPOSE_RHS", op.transpose_rhs), ("SKIP_HIDDEN", op.skip_hidden)];
    if kernel == ROWS {
        constants.push(("HALVES", halves));
    }
    Launch {
        kernel: Chosen::Ours(kernel),
        constants,
        text_constants,
        rounds,
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}

/// What all kernels share that read buffers.
fn params(op: &Matmul, sizes: &Sizes, request: &Request<'_>) -> Params {
    let Request { graph, node, block, .. } = request;
    let &[lhs_base, rhs_base, bias_base, out_base] = request.bases else {
        unreachable!("a product should have three operands and an output");
    };
    let [lhs, rhs] = sizes.matrices;
    let [lhs_heads, lhs_entry_stride, lhs_head_stride, lhs_row_stride] = places(&lhs);
    let [rhs_heads, rhs_entry_stride, rhs_head_stride, rhs_row_stride] = places(&rhs);
    let out = places(&graph.out_matrices(op, node.output));
    let [out_heads, out_entry_stride, out_head_stride, out_row_stride] = out;
    Params {
        batch_start: size(block.batches.start),
        row_start: wrapped(block.rows.start as u64),
        col_start: size(block.cols.start),
        group: size(op.group),
        batches: size(block.batches.len()),
        rows: size(block.rows.len()),
        cols: size(block.cols.len()),
        inner: size(sizes.inner),
        lhs_heads,
        lhs_entry_stride,
        lhs_head_stride,
        lhs_row_stride,
        rhs_heads,
        rhs_entry_stride,
        rhs_head_stride,
        rhs_row_stride,
        out_heads,
        out_entry_stride,
        out_head_stride,
        out_row_stride,
        lhs_base: lhs_base.wrapping_add(wrapped(lhs.first as u64)),
        rhs_base: rhs_base.wrapping_add(wrapped(rhs.first as u64)),
        bias_base,
        out_base,
        has_bias: op.bias.is_some().into(),
        lanes_across: 0,
        grid_width: 0,
    }
}
