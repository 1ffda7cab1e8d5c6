//! Where the matrices of a product lie in its tensors: one after the other, or side by side as heads.

use std::ops::Range;

use super::{Graph, HeadColumns, Matmul, ValueId};

/// The matrices of one tensor of a product, as distances in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrices {
    /// Of the first element of the first matrix.
    pub(crate) first: usize,
    /// Matrices side by side, H; 1 where none are.
    pub(crate) num_heads: usize,
    /// From an entry (of H matrices) to the next.
    pub(crate) entry_stride: usize,
    /// From a matrix to the one beside it.
    pub(crate) head_stride: usize,
    /// From a row to the next.
    pub(crate) row_stride: usize,
}

impl Matrices {
    /// Matrices of (rows, cols) one after the other.
    fn in_turn(rows: usize, cols: usize) -> Self {
        Self { first: 0, num_heads: 1, entry_stride: rows * cols, head_stride: 0, row_stride: cols }
    }

    /// Heads side by side in entries of (rows, width).
    fn side_by_side(rows: usize, width: usize, heads: HeadColumns) -> Self {
        let HeadColumns { first, num_heads, head_dim } = heads;
        Self { first, num_heads, entry_stride: rows * width, head_stride: head_dim, row_stride: width }
    }

    /// Where a matrix starts.
    pub(crate) fn start(&self, matrix: usize) -> usize {
        let Self { first, num_heads, entry_stride, head_stride, .. } = *self;
        first + matrix / num_heads * entry_stride + matrix % num_heads * head_stride
    }

    /// The smallest range around these rows and columns of these matrices, none of them empty.
    pub(crate) fn footprint(&self, matrices: Range<usize>, rows: Range<usize>, cols: Range<usize>) -> Range<usize> {
        let (first, last) = (matrices.start, matrices.end - 1);
        // Of several entries the first head of the first one is before all, the last head of the last one behind.
        let [first, last] = if first / self.num_heads == last / self.num_heads {
            [first, last]
        } else {
            [first / self.num_heads * self.num_heads, (last / self.num_heads + 1) * self.num_heads - 1]
        };
        self.start(first) + rows.start * self.row_stride + cols.start
            ..self.start(last) + (rows.end - 1) * self.row_stride + cols.end
    }

    /// Whether every row of every matrix starts at a multiple of four elements.
    pub(crate) fn in_fours(&self) -> bool {
        let Self { first, entry_stride, head_stride, row_stride, .. } = *self;
        [first, entry_stride, head_stride, row_stride].iter().all(|elements| elements.is_multiple_of(4))
    }
}

impl Graph {
    /// The (M, K) matrices of a product's left operand. With a right operand of one matrix all rows are one matrix.
    pub(crate) fn lhs_matrices(&self, op: &Matmul) -> Matrices {
        let axes = self.value(op.lhs).shape.axes();
        let (&width, leading) = axes.split_last().expect("a product should have two axes");
        let rows = if self.value(op.rhs).shape.rank() == 2 { leading.iter().product() } else { leading[1] };
        match op.heads.lhs {
            Some(heads) => Matrices::side_by_side(rows, width, heads),
            None => Matrices::in_turn(rows, width),
        }
    }

    /// The (K, N) matrices of a product's right operand, or (N, K) when it is read transposed.
    pub(crate) fn rhs_matrices(&self, op: &Matmul) -> Matrices {
        let axes = self.value(op.rhs).shape.axes();
        let [rows, width] = [axes[axes.len() - 2], axes[axes.len() - 1]];
        match op.heads.rhs {
            Some(heads) => Matrices::side_by_side(rows, width, heads),
            None => Matrices::in_turn(rows, width),
        }
    }

    /// The (M, N) matrices of a product's output.
    pub(crate) fn out_matrices(&self, op: &Matmul, output: ValueId) -> Matrices {
        let [_, rows, cols] = self.product_space(op, output);
        match op.heads.output {
            Some(num_heads) => {
                let heads = HeadColumns { first: 0, num_heads, head_dim: cols };
                Matrices::side_by_side(rows, num_heads * cols, heads)
            }
            None => Matrices::in_turn(rows, cols),
        }
    }

    /// How many matrices a product makes, M and N.
    pub(crate) fn product_space(&self, op: &Matmul, output: ValueId) -> [usize; 3] {
        let axes = self.value(output).shape.axes();
        let (&width, leading) = axes.split_last().expect("a product should have two axes");
        match (leading, op.heads.output) {
            (&[batch, rows], Some(num_heads)) => [batch * num_heads, rows, width / num_heads],
            _ if self.value(op.rhs).shape.rank() == 2 => [1, leading.iter().product(), width],
            (&[batch, rows], None) => [batch, rows, width],
            (rows, _) => [1, rows.iter().product(), width],
        }
    }

    /// K.
    pub(crate) fn inner(&self, op: &Matmul) -> usize {
        let width = || self.value(op.lhs).shape.axes().last().copied().unwrap_or(0);
        op.heads.lhs.map_or_else(width, |heads| heads.head_dim)
    }
}
