//! `softmax` on the GPU: a row to a workgroup for GPUs, a row to an invocation for CPU adapters.
//!
//! Scale, bias and everything that hides keys happen in the one pass over a row; absent operands are told by `has_…`
//! parameters.

use super::masks::MaskPlaces;
use super::params::params;
use super::shader::shader;
use super::{Chosen, Kernel, Launch, Request, Slot, fold, looped, most_rounds, size};
use crate::gpu::AdapterKind;
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

pub(super) static KERNELS: [Kernel; 2] =
    [kernel("softmax_row", shader!("softmax_row")), kernel("softmax_workgroup", shader!("softmax_workgroup"))];

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

/// Rows to a workgroup of `softmax_row`; `softmax_workgroup` takes one.
const ROWS: usize = 64;

/// Invocations to a workgroup of `softmax_workgroup`.
const WORKGROUP: usize = 256;

/// Rounds of all loops of one invocation: a row is read twice.
fn rounds(kernel: &str, columns: usize) -> u64 {
    match kernel {
        "softmax_row" => 2 * looped(columns, 0),
        _ => 2 * looped(columns.div_ceil(WORKGROUP), 0) + looped(WORKGROUP.ilog2() as usize, 0),
    }
}

fn choose(request: &Request<'_>, columns: usize) -> &'static str {
    let own = request.preferred.iter().find(|&&name| KERNELS.iter().any(|kernel| kernel.name == name));
    match (own, request.profile.kind) {
        (Some(preferred), _) => preferred,
        (None, AdapterKind::Cpu) if rounds("softmax_row", columns) <= most_rounds(request.profile) => "softmax_row",
        _ => "softmax_workgroup",
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
    let workgroups = fold(if kernel == "softmax_row" { all.div_ceil(ROWS) } else { all } as u64, request.profile);
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
    Launch {
        kernel: Chosen::Ours(kernel),
        constants: Vec::new(),
        text_constants: Vec::new(),
        rounds: rounds(kernel, columns),
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}
