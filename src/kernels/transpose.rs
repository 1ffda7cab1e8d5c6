//! `transpose_qkv` and `transpose_output` on the GPU: copies, an element to an invocation, or a texel.
//!
//! Both work on the (B·H, L, d) side, so one `Params` and one grid serve both.

use super::params::params;
use super::shader::shader;
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

pub(super) static KERNELS: [Kernel; 4] = [
    from_buffers(QKV, shader!("transpose_qkv")),
    from_texels(QKV_TEXELS, QKV, shader!("transpose_qkv_texels")),
    from_buffers(OUTPUT, shader!("transpose_output")),
    from_texels(OUTPUT_TEXELS, OUTPUT, shader!("transpose_output_texels")),
];

const QKV: &str = "transpose_qkv";
const OUTPUT: &str = "transpose_output";
pub(super) const QKV_TEXELS: &str = "transpose_qkv_texels";
pub(super) const OUTPUT_TEXELS: &str = "transpose_output_texels";

const fn from_buffers(name: &'static str, wgsl: &'static str) -> Kernel {
    Kernel { name, op: name, wgsl, slots: &[Slot::Read(0), Slot::Write], params: Params::LAYOUT, overrides: &[] }
}

const fn from_texels(name: &'static str, op: &'static str, wgsl: &'static str) -> Kernel {
    let slots = &[Slot::ReadTexels(0), Slot::Write, Slot::WriteTexels];
    Kernel { name, op, wgsl, slots, params: Params::LAYOUT, overrides: &["OUT_TEXELS"] }
}

/// Elements to a workgroup.
const WORKGROUP: usize = 256;

/// Texels to a workgroup.
const TEXEL_WORKGROUP: usize = 64;

pub(super) fn launch(op: &TransposeHeads, request: &Request<'_>) -> Launch {
    let Request { graph, node, block, .. } = request;
    let [_, length, head_dim] = graph.space(node);
    let &[input_base, out_base] = request.bases else {
        unreachable!("a transposition should have one operand and an output");
    };
    let [batches, rows] = [block.batches.len(), block.rows.len()];
    let (kernel, elements) = match (request.reads_texels, node.op.name()) {
        (false, QKV) => (QKV, WORKGROUP),
        (false, _) => (OUTPUT, WORKGROUP),
        (true, QKV) => (QKV_TEXELS, 4 * TEXEL_WORKGROUP),
        (true, _) => (OUTPUT_TEXELS, 4 * TEXEL_WORKGROUP),
    };
    let workgroups = fold((batches * rows * head_dim).div_ceil(elements) as u64, request.profile);
    let constants = match kernel {
        QKV | OUTPUT => Vec::new(),
        _ => vec![("OUT_TEXELS", request.texels.contains(&node.output))],
    };
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
        constants,
        text_constants: Vec::new(),
        rounds: 0,
        params: bytemuck::bytes_of(&params).to_vec(),
        workgroups,
    }
}
