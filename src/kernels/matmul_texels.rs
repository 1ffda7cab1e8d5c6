//! The launch of `matmul_texels`: a subgroup to a tile, operands in textures.

use super::params::params;
use super::{Chosen, Launch, Request, fold, looped, matmul, size, texels, wrapped};
use crate::graph::{Graph, Matmul};

params! {
    pub(super) struct Params {
        batch_start: u32,
        row_start: u32,
        col_start: u32,
        group: u32,
        batches: u32,
        rows: u32,
        cols: u32,
        inner: u32,
        lhs_first: u32,
        lhs_heads: u32,
        lhs_entry_stride: u32,
        lhs_head_stride: u32,
        lhs_row_stride: u32,
        rhs_first: u32,
        rhs_heads: u32,
        rhs_entry_stride: u32,
        rhs_head_stride: u32,
        rhs_row_stride: u32,
        out_heads: u32,
        out_entry_stride: u32,
        out_head_stride: u32,
        out_row_stride: u32,
        lhs_base: u32,
        bias_base: u32,
        out_base: u32,
        has_bias: u32,
        out_in_texels: u32,
        grid_width: u32,
    }
}

/// Rows of a tile, and groups of four columns in each lane.
const ROWS: usize = 16;
const COLS: usize = 2;

pub(super) fn launch(op: &Matmul, request: &Request<'_>) -> Launch {
    let Request { graph, block, .. } = request;
    let lanes = texels::lanes(request.profile);
    let tiles = block.rows.len().div_ceil(ROWS) as u64 * block.cols.len().div_ceil(lanes * COLS * 4) as u64;
    let workgroups = fold(tiles * block.batches.len() as u64, request.profile);
    Launch {
        kernel: Chosen::Ours(matmul::TEXELS),
        constants: vec![
            ("LHS_TEXELS", request.texels.contains(&op.lhs)),
            ("TRANSPOSE_RHS", op.transpose_rhs),
            ("SKIP_HIDDEN", op.skip_hidden),
        ],
        text_constants: vec![("LANES", size(lanes)), ("ROWS", size(ROWS)), ("COLS", size(COLS))],
        rounds: rounds(graph, op),
        params: bytemuck::bytes_of(&params(op, request, workgroups)).to_vec(),
        workgroups,
    }
}

/// What both kernels share that read products' operands from textures.
pub(super) fn params(op: &Matmul, request: &Request<'_>, workgroups: [u32; 3]) -> Params {
    let Request { graph, node, block, .. } = request;
    let &[lhs_base, _, bias_base, out_base] = request.bases else {
        unreachable!("a product should have three operands and an output");
    };
    let [lhs, rhs, out] = [graph.lhs_matrices(op), graph.rhs_matrices(op), graph.out_matrices(op, node.output)];
    let [lhs_heads, lhs_entry_stride, lhs_head_stride, lhs_row_stride] = matmul::places(&lhs);
    let [rhs_heads, rhs_entry_stride, rhs_head_stride, rhs_row_stride] = matmul::places(&rhs);
    let [out_heads, out_entry_stride, out_head_stride, out_row_stride] = matmul::places(&out);
    Params {
        batch_start: size(block.batches.start),
        row_start: wrapped(block.rows.start as u64),
        col_start: size(block.cols.start),
        group: size(op.group),
        batches: size(block.batches.len()),
        rows: size(block.rows.len()),
        cols: size(block.cols.len()),
        inner: size(graph.inner(op)),
        lhs_first: size(lhs.first),
        lhs_heads,
        lhs_entry_stride,
        lhs_head_stride,
        lhs_row_stride,
        rhs_first: size(rhs.first),
        rhs_heads,
        rhs_entry_stride,
        rhs_head_stride,
        rhs_row_stride,
        out_heads,
        out_entry_stride,
        out_head_stride,
        out_row_stride,
        lhs_base,
        bias_base,
        out_base,
        has_bias: op.bias.is_some().into(),
        out_in_texels: request.texels.contains(&node.output).into(),
        grid_width: workgroups[0],
    }
}

/// Rounds of all loops of one invocation: along K, and, where something is hidden, once more for every four rows of a
/// column group.
pub(super) fn rounds(graph: &Graph, op: &Matmul) -> u64 {
    let along = looped(graph.inner(op) / 4, 0);
    along + if op.skip_hidden { looped(ROWS / 4 * COLS, along) } else { 0 }
}
