//! `transpose_qkv` and `transpose_output` on the GPU: copies, an element to an invocation.
//!
//! Both work on the (B·H, L, d) side, so one `Params` and one grid serve both.

use super::params::params;
use super::{Chosen, Kernel, Launch, Request, Slot, fold, size};
use crate::graph::TransposeHeads;

params! {
    struct Params {
        batch_start: u32,
        row_start: u32,
        batches: u32,
        rows: u32,
        length: u32,
        head_dim: u32,
        num_heads: u32,
        input_base: u32,
        out_base: u32,
        grid_width: u32,
    }
}

pub(super) static KERNELS: [Kernel; 2] = [
    kernel("transpose_qkv", include_str!("../../shaders/transpose_qkv.wgsl")),
    kernel("transpose_output", include_str!("../../shaders/transpose_output.wgsl")),
];

const fn kernel(name: &'static str, wgsl: &'static str) -> Kernel {
    Kernel { name, op: name, wgsl, slots: &[Slot::Read(0), Slot::Write], params: Params::LAYOUT, overrides: &[] }
}

/// Elements to a workgroup.
const WORKGROUP: usize = 256;

pub(super) fn launch(op: &TransposeHeads, kernel: &'static str, request: &Request<'_>) -> Launch {
    let Request { graph, node, block, .. } = request;
    let [_, length, head_dim] = graph.space(node);
    let &[input_base, out_base] = request.bases else {
        unreachable!("a transposition should have one operand and an output");
    };
    let [batches, rows] = [block.batches.len(), block.rows.len()];
    let workgroups = fold((batches * rows * head_dim).div_ceil(WORKGROUP) as u64, request.profile);
    let params = Params {
        batch_start: size(block.batches.start),
        row_start: size(block.rows.start),
        batches: size(batches),
        rows: size(rows),
        length: size(length),
        head_dim: size(head_dim),
        num_heads: size(op.num_heads),
        input_base,
        out_base,
        grid_width: workgroups[0],
    };
    Launch {
        kernel: Chosen::Ours(kernel),
        constants: Vec::new(),
        text_constants: Vec::new(),
        rounds: 0,
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}
