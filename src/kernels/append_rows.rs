//! `append_rows` on the GPU: four elements to an invocation.

use super::params::params;
use super::shader::shader;
use super::{Chosen, Kernel, Launch, Request, Slot, fold, size, wrapped};
use crate::graph::{AppendRows, DType};

params! {
    struct Params {
        entry_start: u32,
        row_start: u32,
        entries: u32,
        rows: u32,
        all_rows: u32,
        capacity: u32,
        width: u32,
        head_width: u32,
        head_dim: u32,
        rows_first: u32,
        rows_stride: u32,
        rows_base: u32,
        lengths_base: u32,
        out_base: u32,
        grid_width: u32,
    }
}

/// The cache itself is not read: it is the output.
pub(super) static KERNELS: [Kernel; 1] = [Kernel {
    name: "append_rows",
    op: "append_rows",
    wgsl: shader!("append_rows"),
    slots: &[Slot::Read(1), Slot::Read(2), Slot::Write],
    params: Params::LAYOUT,
    overrides: &["HALVES"],
}];

/// Groups of four elements to a workgroup.
const WORKGROUP: usize = 64;

pub(super) fn launch(op: &AppendRows, request: &Request<'_>) -> Launch {
    let Request { graph, node, block, .. } = request;
    let [_, all_rows, width] = graph.space(node);
    let &[_, rows_base, lengths_base, out_base] = request.bases else {
        unreachable!("append_rows should have three operands and an output");
    };
    let [entries, rows] = [block.batches.len(), block.rows.len()];
    let workgroups = fold((entries * rows * width / 4).div_ceil(WORKGROUP) as u64, request.profile);
    let cache = graph.value(op.cache);
    let params = Params {
        entry_start: size(block.batches.start),
        row_start: size(block.rows.start),
        entries: size(entries),
        rows: size(rows),
        all_rows: size(all_rows),
        capacity: size(cache.shape.axes()[1]),
        width: size(width),
        head_width: size(width / op.num_heads),
        head_dim: size(op.rows.count / op.num_heads),
        rows_first: size(op.rows.first),
        rows_stride: wrapped(graph.value(op.rows.tensor).shape.axes()[2] as u64),
        rows_base,
        lengths_base,
        out_base,
        grid_width: workgroups[0],
    };
    Launch {
        kernel: Chosen::Ours("append_rows"),
        constants: vec![("HALVES", cache.dtype == DType::F16)],
        text_constants: Vec::new(),
        rounds: 0,
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}
