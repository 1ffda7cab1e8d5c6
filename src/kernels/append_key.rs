//! `append_key` on the GPU: a copy with one more row, an element to an invocation.

use super::params::params;
use super::shader::shader;
use super::{Chosen, Kernel, Launch, Request, Slot, fold, size};

params! {
    struct Params {
        batch_start: u32,
        row_start: u32,
        batches: u32,
        rows: u32,
        length: u32,
        width: u32,
        input_base: u32,
        key_base: u32,
        out_base: u32,
        grid_width: u32,
    }
}

pub(super) static KERNELS: [Kernel; 1] = [Kernel {
    name: "append_key",
    op: "append_key",
    wgsl: shader!("append_key"),
    slots: &[Slot::Read(0), Slot::Read(1), Slot::Write],
    params: Params::LAYOUT,
    overrides: &[],
}];

/// Elements to a workgroup.
const WORKGROUP: usize = 256;

pub(super) fn launch(request: &Request<'_>) -> Launch {
    let Request { graph, node, block, .. } = request;
    let [_, rows_out, width] = graph.space(node);
    let &[input_base, key_base, out_base] = request.bases else {
        unreachable!("append_key should have two operands and an output");
    };
    let [batches, rows] = [block.batches.len(), block.rows.len()];
    let workgroups = fold((batches * rows * width).div_ceil(WORKGROUP) as u64, request.profile);
    let params = Params {
        batch_start: size(block.batches.start),
        row_start: size(block.rows.start),
        batches: size(batches),
        rows: size(rows),
        length: size(rows_out - 1),
        width: size(width),
        input_base,
        key_base,
        out_base,
        grid_width: workgroups[0],
    };
    Launch {
        kernel: Chosen::Ours("append_key"),
        constants: Vec::new(),
        text_constants: Vec::new(),
        rounds: 0,
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}
