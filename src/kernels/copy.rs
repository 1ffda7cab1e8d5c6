//! `copy` on the GPU: a strided copy has one kernel for every device.

use super::params::params;
use super::shader::shader;
use super::{Chosen, Kernel, Launch, Request, Slot, fold, size, wrapped};
use crate::graph::CopyStrided;

params! {
    struct Params {
        batch_start: u32,
        row_start: u32,
        batches: u32,
        rows: u32,
        inner: u32,
        cols: u32,
        from_batch: u32,
        from_row: u32,
        from_inner: u32,
        from_col: u32,
        to_batch: u32,
        to_row: u32,
        to_inner: u32,
        to_col: u32,
        input_base: u32,
        out_base: u32,
        grid_width: u32,
    }
}

pub(super) static KERNELS: [Kernel; 1] = [Kernel {
    name: "copy",
    op: "copy",
    wgsl: shader!("copy"),
    slots: &[Slot::Read(0), Slot::Write],
    params: Params::LAYOUT,
    overrides: &[],
}];

/// Elements to a workgroup.
const WORKGROUP: usize = 256;

pub(super) fn launch(op: &CopyStrided, request: &Request<'_>) -> Launch {
    let Request { block, .. } = request;
    let [_, _, inner, cols] = op.axes;
    let &[input_base, out_base] = request.bases else {
        unreachable!("a copy should have one operand and an output");
    };
    let [batches, rows] = [block.batches.len(), block.rows.len()];
    let workgroups = fold((batches * rows * inner * cols).div_ceil(WORKGROUP) as u64, request.profile);
    let [from_batch, from_row, from_inner, from_col] = op.from.map(|stride| wrapped(stride as u64));
    let [to_batch, to_row, to_inner, to_col] = op.to.map(|stride| wrapped(stride as u64));
    let params = Params {
        batch_start: size(block.batches.start),
        row_start: size(block.rows.start),
        batches: size(batches),
        rows: size(rows),
        inner: size(inner),
        cols: size(cols),
        from_batch,
        from_row,
        from_inner,
        from_col,
        to_batch,
        to_row,
        to_inner,
        to_col,
        input_base,
        out_base,
        grid_width: workgroups[0],
    };
    Launch {
        kernel: Chosen::Ours("copy"),
        constants: Vec::new(),
        text_constants: Vec::new(),
        rounds: 0,
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}
