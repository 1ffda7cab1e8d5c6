//! `matmul` on the CPU: sums in the order of k.
//!
//! Hidden elements of the left operand are left out, whatever they would be multiplied with.

use super::view::{Real, View, is_hidden};
use crate::graph::Matmul;
use crate::graph::footprint::Block;

/// Columns whose sums run side by side: independent chains of additions keep the processor busy.
const TILE: usize = 8;

/// Sizes and operands of one product.
pub(super) struct Operands<'a, T> {
    /// (batch, M, K).
    pub(super) lhs: View<'a, T>,
    /// (batch / group, K, N), or (batch / group, N, K) when transposed.
    pub(super) rhs: View<'a, T>,
    /// (N,).
    pub(super) bias: Option<View<'a, T>>,
    /// M.
    pub(super) rows: usize,
    /// N.
    pub(super) cols: usize,
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
    let Operands { lhs, rows, cols, inner, .. } = *operands;
    let mut out_row = vec![T::zero(); block.cols.len()];
    for batch in block.batches.clone() {
        let matrix = batch / op.group * inner * cols;
        for row in block.rows.clone() {
            let first = (batch * rows + row) * inner;
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
            write((batch * rows + row) * cols + block.cols.start, &out_row);
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
    let inner = operands.inner;
    for (tile, sums) in out_row.chunks_mut(TILE).enumerate() {
        let col = block.cols.start + tile * TILE;
        let rhs_rows = operands.rhs.slice(matrix + col * inner..matrix + (col + sums.len()) * inner);
        for (k, &x) in lhs_row.iter().enumerate() {
            if op.skip_hidden && is_hidden(x) {
                continue;
            }
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum += x * rhs_rows[j * inner + k];
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
    for (k, &x) in lhs_row.iter().enumerate() {
        if op.skip_hidden && is_hidden(x) {
            continue;
        }
        let first = matrix + k * operands.cols;
        let rhs_row = operands.rhs.slice(first + block.cols.start..first + block.cols.end);
        for (out, &y) in out_row.iter_mut().zip(rhs_row) {
            *out += x * y;
        }
    }
}
