//! `softmax` on the GPU: a row to a workgroup for GPUs, a row to an invocation for CPU adapters, from texels where the
//! scores lie in a texture.
//!
//! Scale, bias and everything that hides keys happen in the one pass over a row; absent operands are told by `has_…`
//! parameters.

use super::masks::MaskPlaces;
use super::params::params;
use super::shader::shader;
use super::{Chosen, Kernel, Launch, Request, Slot, fold, looped, most_rounds, size};
use crate::gpu::{AdapterKind, DeviceProfile};
use crate::graph::Softmax;
use crate::reference::Real;

params! {
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
}

pub(super) static KERNELS: [Kernel; 3] = [
    kernel(ROW, shader!("softmax_row")),
    kernel(WORKGROUP, shader!("softmax_workgroup")),
    Kernel {
        slots: &[Slot::ReadTexels(0), Slot::Read(1), Slot::Read(2), Slot::Read(3), Slot::Write, Slot::WriteTexels],
        overrides: &["HAS_MASK", "HAS_BIAS", "OUT_TEXELS"],
        ..kernel(TEXELS, shader!("softmax_texels"))
    },
];

pub(super) const TEXELS: &str = "softmax_texels";
const ROW: &str = "softmax_row";
const WORKGROUP: &str = "softmax_workgroup";

const fn kernel(name: &'static str, wgsl: &'static str) -> Kernel {
    Kernel {
        name,
        op: "softmax",
        wgsl,
        slots: &[Slot::Read(0), Slot::Read(1), Slot::Read(2), Slot::Read(3), Slot::Write],
        params: Params::LAYOUT,
        overrides: &[],
    }
}

/// Rows to a workgroup of `softmax_row` and of `softmax_texels`; `softmax_workgroup` takes one.
const ROWS: usize = 64;

/// Invocations to a workgroup of `softmax_workgroup`.
const INVOCATIONS: usize = 256;

/// Rounds of all loops of one invocation: a row is read twice.
fn rounds(kernel: &str, columns: usize) -> u64 {
    match kernel {
        ROW => 2 * looped(columns, 0),
        TEXELS => 2 * looped(columns.div_ceil(4), 0),
        _ => 2 * looped(columns.div_ceil(INVOCATIONS), 0) + looped(INVOCATIONS.ilog2() as usize, 0),
    }
}

/// Whether rows of scores could be read from texels: in fours, in no more rounds than the device makes.
pub(super) fn could_read_texels(columns: usize, profile: &DeviceProfile) -> bool {
    columns > 0 && columns.is_multiple_of(4) && rounds(TEXELS, columns) <= most_rounds(profile)
}

fn choose(request: &Request<'_>, columns: usize) -> &'static str {
    let own = request.preferred.iter().find(|&&name| name == ROW || name == WORKGROUP);
    match (own, request.profile.kind) {
        _ if request.reads_texels => TEXELS,
        (Some(preferred), _) => preferred,
        (None, AdapterKind::Cpu) if rounds(ROW, columns) <= most_rounds(request.profile) => ROW,
        _ => WORKGROUP,
    }
}

pub(super) fn launch(op: &Softmax, request: &Request<'_>) -> Launch {
    let Request { graph, node, block, .. } = request;
    let [_, all_rows, columns] = graph.space(node);
    let &[scores_base, valid_lens_base, mask_base, bias_base, out_base] = request.bases else {
        unreachable!("a softmax should have four operands and an output");
    };
    let kernel = choose(request, columns);
    let [batches, rows] = [block.batches.len(), block.rows.len()];
    let all = batches * rows;
    let workgroups = fold(if kernel == WORKGROUP { all } else { all.div_ceil(ROWS) } as u64, request.profile);
    let masks = MaskPlaces::new(graph, graph.softmax_sizes(op), [op.valid_lens, op.attend_mask, op.bias]);
    let params = Params {
        batch_start: size(block.batches.start),
        row_start: size(block.rows.start),
        batches: size(batches),
        rows: size(rows),
        all_rows: size(all_rows),
        columns: size(columns),
        num_keys: size(columns - op.extra_keys),
        num_heads: size(op.num_heads),
        scale: f32::of_f64(op.scale),
        band_start: op.band.start,
        band_end: op.band.end,
        has_valid_lens: masks.has_valid_lens,
        has_attend_mask: masks.has_attend_mask,
        has_bias: masks.has_bias,
        valid_lens_entry_stride: masks.valid_lens[0],
        valid_lens_row_stride: masks.valid_lens[1],
        mask_entry_stride: masks.attend_mask[0],
        mask_head_stride: masks.attend_mask[1],
        bias_entry_stride: masks.bias[0],
        bias_head_stride: masks.bias[1],
        scores_base,
        valid_lens_base,
        mask_base,
        bias_base,
        out_base,
        grid_width: workgroups[0],
    };
    let constants = if kernel == TEXELS {
        let out_texels = request.texels.contains(&node.output);
        vec![("HAS_MASK", op.attend_mask.is_some()), ("HAS_BIAS", op.bias.is_some()), ("OUT_TEXELS", out_texels)]
    } else {
        Vec::new()
    };
    Launch {
        kernel: Chosen::Ours(kernel),
        constants,
        text_constants: Vec::new(),
        rounds: rounds(kernel, columns),
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}
