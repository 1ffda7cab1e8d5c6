//! `merge_partials` on the GPU: a word to an invocation.

use super::params::params;
use super::shader::shader;
use super::{Chosen, Kernel, Launch, Request, Slot, fold, looped, size};
use crate::graph::MergePartials;

params! {
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
}

pub(super) static KERNELS: [Kernel; 1] = [Kernel {
    name: "merge_partials",
    op: "merge_partials",
    wgsl: shader!("merge_partials"),
    slots: &[Slot::Read(0), Slot::Write],
    params: Params::LAYOUT,
    overrides: &[],
}];

/// Words to a workgroup.
const WORKGROUP: usize = 64;

pub(super) fn launch(op: &MergePartials, request: &Request<'_>) -> Launch {
    let Request { graph, node, block, .. } = request;
    let [_, all_rows, width] = graph.space(node);
    let &[partials_base, out_base] = request.bases else {
        unreachable!("merge_partials should have one operand and an output");
    };
    let [entries, rows] = [block.batches.len(), block.rows.len()];
    let workgroups = fold((entries * rows * width).div_ceil(WORKGROUP) as u64, request.profile);
    let params = Params {
        entry_start: size(block.batches.start),
        row_start: size(block.rows.start),
        entries: size(entries),
        rows: size(rows),
        all_rows: size(all_rows),
        num_heads: size(op.num_heads),
        value_dim: size(width / op.num_heads),
        parts: size(op.parts),
        partials_base,
        out_base,
        grid_width: workgroups[0],
    };
    Launch {
        kernel: Chosen::Ours("merge_partials"),
        constants: Vec::new(),
        text_constants: Vec::new(),
        rounds: 2 * looped(op.parts, 0),
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}
