//! `dropout` on the GPU: four weights to an invocation, for which one turn of the generator gives the words.

use super::params::params;
use super::shader::shader;
use super::{Chosen, Kernel, Launch, Request, Slot, fold, looped, size};
use crate::graph::Dropout;

params! {
    struct Params {
        batch_start: u32,
        row_start: u32,
        batches: u32,
        rows: u32,
        all_rows: u32,
        columns: u32,
        num_heads: u32,
        weights_base: u32,
        pattern_base: u32,
        out_base: u32,
        grid_width: u32,
    }
}

pub(super) static KERNELS: [Kernel; 1] = [Kernel {
    name: "dropout",
    op: "dropout",
    wgsl: shader!("dropout"),
    slots: &[Slot::Read(0), Slot::Read(1), Slot::Write],
    params: Params::LAYOUT,
    overrides: &[],
}];

/// Groups of four weights to a workgroup.
const WORKGROUP: usize = 64;

pub(super) fn launch(op: &Dropout, request: &Request<'_>) -> Launch {
    let Request { graph, node, block, .. } = request;
    let [_, all_rows, columns] = graph.space(node);
    let &[weights_base, pattern_base, out_base] = request.bases else {
        unreachable!("dropout should have two operands and an output");
    };
    let [batches, rows] = [block.batches.len(), block.rows.len()];
    let groups = batches * rows * columns.div_ceil(4);
    let workgroups = fold(groups.div_ceil(WORKGROUP) as u64, request.profile);
    let params = Params {
        batch_start: size(block.batches.start),
        row_start: size(block.rows.start),
        batches: size(batches),
        rows: size(rows),
        all_rows: size(all_rows),
        columns: size(columns),
        num_heads: size(op.num_heads),
        weights_base,
        pattern_base,
        out_base,
        grid_width: workgroups[0],
    };
    Launch {
        kernel: Chosen::Ours("dropout"),
        constants: Vec::new(),
        text_constants: Vec::new(),
        rounds: looped(4, 0),
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}
