//! `matmul` on the CPU: sums in the order of k.
//!
//! Hidden elements of the left operand are left out, whatever they would be multiplied with.

use super::view::{Real, View, is_hidden};
use crate::graph::Matmul;
use crate::graph::footprint::Block;
use crate::graph::matrices::Matrices;

/// Columns whose sums run side by side: independent chains of additions keep the processor busy.
const TILE: usize = 8;

/// Operands of one product, and where their matrices lie.
pub(super) struct Operands<'a, T> {
    /// (batch, M, K).
    pub(super) lhs: (View<'a, T>, Matrices),
    /// (batch / group, K, N), or (batch / group, N, K) when transposed.
    pub(super) rhs: (View<'a, T>, Matrices),
    /// (N,).
    pub(super) bias: Option<View<'a, T>>,
    /// (batch, M, N).
    pub(super) out: Matrices,
    /// K.
    pub(super) inner: usize,
}

/// `out[b][i][j] = Σₖ lhs[b][i][k] · rhs[b / group][k][j] + bias[j]` over one block; `write(index, row)` takes each row.
pub(super) fn matmul<T: Real>(
    op: &Matmul,
    operands: &Operands<'_, T>,
    block: &Block,
    mut write: impl FnMut(usize, &[T]),
) {
    let Operands { lhs: (lhs, lhs_matrices), rhs: (_, rhs_matrices), out, inner, .. } = *operands;
    let mut out_row = vec![T::zero(); block.cols.len()];
    for batch in block.batches.clone() {
        let matrix = rhs_matrices.start(batch / op.group);
        for row in block.rows.clone() {
            let first = lhs_matrices.start(batch) + row * lhs_matrices.row_stride;
            let lhs_row = lhs.slice(first..first + inner);
            out_row.fill(T::zero());
            if op.transpose_rhs {
                dot_products(op, operands, matrix, lhs_row, block, &mut out_row);
            } else {
                weighted_sum(op, operands, matrix, lhs_row, block, &mut out_row);
            }
            if let Some(bias) = operands.bias {
                for (out, &bias) in out_row.iter_mut().zip(bias.slice(block.cols.clone())) {
                    *out += bias;
                }
            }
            write(out.start(batch) + row * out.row_stride + block.cols.start, &out_row);
        }
    }
}

/// Each column's row of `rhs` against the row of `lhs`.
fn dot_products<T: Real>(
    op: &Matmul,
    operands: &Operands<'_, T>,
    matrix: usize,
    lhs_row: &[T],
    block: &Block,
    out_row: &mut [T],
) {
    let (rhs, Matrices { row_stride, .. }) = operands.rhs;
    for (tile, sums) in out_row.chunks_mut(TILE).enumerate() {
        let first = matrix + (block.cols.start + tile * TILE) * row_stride;
        let rhs_rows = rhs.slice(first..first + (sums.len() - 1) * row_stride + operands.inner);
        for (k, &x) in lhs_row.iter().enumerate() {
            if op.skip_hidden && is_hidden(x) {
                continue;
            }
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum += x * rhs_rows[j * row_stride + k];
            }
        }
    }
}

/// The rows of `rhs`, each times one element of the row of `lhs`.
fn weighted_sum<T: Real>(
    op: &Matmul,
    operands: &Operands<'_, T>,
    matrix: usize,
    lhs_row: &[T],
    block: &Block,
    out_row: &mut [T],
) {
    let (rhs, Matrices { row_stride, .. }) = operands.rhs;
    for (k, &x) in lhs_row.iter().enumerate() {
        if op.skip_hidden && is_hidden(x) {
            continue;
        }
        let first = matrix + k * row_stride;
        let rhs_row = rhs.slice(first + block.cols.start..first + block.cols.end);
        for (out, &y) in out_row.iter_mut().zip(rhs_row) {
            *out += x * y;
        }
    }
}
