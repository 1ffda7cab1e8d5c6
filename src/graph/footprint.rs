//! Which elements of its operands a block of a node touches.
//!
//! A node works on a space of (batch, rows, cols); a block is a box of that space. The footprint of a block in an
//! operand is the smallest contiguous range of elements around everything the block touches there. Bindings are made
//! of footprints, so a value may be larger than the largest binding.

use std::ops::Range;

use super::{
    AppendKey, AppendRows, CopyStrided, DropoutPattern, Graph, Matmul, Node, Op, ScoreSizes, Scores, TransposeHeads,
    ValueId,
};

/// A box of a node's space of (batch, rows, cols).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) batches: Range<usize>,
    pub(crate) rows: Range<usize>,
    pub(crate) cols: Range<usize>,
}

impl Block {
    /// The whole of a space.
    pub(crate) fn whole([batches, rows, cols]: [usize; 3]) -> Self {
        Self { batches: 0..batches, rows: 0..rows, cols: 0..cols }
    }

    /// Its lengths.
    pub(crate) fn sizes(&self) -> [usize; 3] {
        [self.batches.len(), self.rows.len(), self.cols.len()]
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty() || self.rows.is_empty() || self.cols.is_empty()
    }
}

/// Elements of a row-major (·, rows, cols) tensor from the block's first row to its last, in whole rows.
fn whole_rows(batches: &Range<usize>, rows: &Range<usize>, num_rows: usize, num_cols: usize) -> Range<usize> {
    (batches.start * num_rows + rows.start) * num_cols..((batches.end - 1) * num_rows + rows.end) * num_cols
}

impl Graph {
    /// The space of (batch, rows, cols) that a node works on.
    ///
    /// The output's axes, but for `transpose_output`, which works on its input's, and `copy`, which has its own; a user's
    /// kernel works on its output as one row; and all rows are one batch where the right operand of a product is one
    /// matrix.
    pub(crate) fn space(&self, node: &Node) -> [usize; 3] {
        let shaped = match &node.op {
            Op::Copy(CopyStrided { axes: [batch, rows, inner, cols], .. }) => return [*batch, *rows, inner * cols],
            Op::Custom(_) | Op::Pack(_) => return [1, 1, self.value(node.output).len()],
            Op::TransposeOutput(op) => op.input,
            Op::AppendRows(op) => return self.appended_space(op),
            Op::Matmul(op) => return self.product_space(op, node.output),
            _ => node.output,
        };
        let axes = self.value(shaped).shape.axes();
        let (&cols, leading) = axes.split_last().expect("no op should write a scalar");
        match leading {
            &[batch, rows] => [batch, rows, cols],
            rows => [1, rows.iter().product(), cols],
        }
    }

    /// What a non-empty `block` touches of the operand `index` (in the order of [`Op::operands`]).
    pub(crate) fn operand_footprint(&self, node: &Node, index: usize, block: &Block) -> Range<usize> {
        match &node.op {
            Op::Matmul(op) => self.matmul_footprint(op, index, block),
            Op::Softmax(op) => match index {
                0 => self.split_footprint(node, block),
                _ => self.mask_footprint(node.op.operands()[index], index - 1, self.softmax_sizes(op), block),
            },
            Op::Dropout(_) => {
                if index == 0 {
                    self.split_footprint(node, block)
                } else {
                    0..DropoutPattern::WORDS
                }
            }
            Op::PartialAttention(op) if index == 6 && op.lengths.is_none() => {
                0..op.dropout.map_or(0, |_| DropoutPattern::WORDS)
            }
            Op::PartialAttention(_) if index == 6 => block.batches.start * 2..block.batches.end * 2,
            Op::PartialAttention(op) => self.attention_footprint(node, &op.scores, index, block),
            Op::MergePartials(op) => {
                let &[_, rows, width] = self.value(op.partials).shape.axes() else {
                    unreachable!("the builder should have checked the partials");
                };
                whole_rows(&block.batches, &block.rows, rows, width)
            }
            Op::AppendRows(op) => self.append_rows_footprint(op, index, block),
            Op::Attention(op) if index == 6 => 0..op.dropout.map_or(0, |_| DropoutPattern::WORDS),
            Op::Attention(op) => self.attention_footprint(node, &op.scores, index, block),
            Op::AttentionWeights(op) => self.attention_footprint(node, &op.scores, index, block),
            Op::Pack(op) => {
                0..op.parts.iter().filter_map(|part| part.value).nth(index).map_or(0, |id| self.value(id).len())
            }
            Op::TransposeQkv(op) => self.side_by_side_footprint(node, op, block),
            Op::TransposeOutput(_) => self.split_footprint(node, block),
            Op::AppendKey(op) => self.append_key_footprint(op, index, block),
            Op::Copy(op) => op.footprint(op.from, block),
            Op::Custom(op) => 0..self.value(op.inputs[index]).len(),
        }
    }

    /// What a non-empty `block` writes.
    pub(crate) fn output_footprint(&self, node: &Node, block: &Block) -> Range<usize> {
        match &node.op {
            Op::Matmul(op) => {
                let Block { batches, rows, cols } = block.clone();
                self.out_matrices(op, node.output).footprint(batches, rows, cols)
            }
            Op::TransposeOutput(op) => self.side_by_side_footprint(node, op, block),
            Op::Copy(op) => op.footprint(op.to, block),
            Op::Custom(_) | Op::Pack(_) => 0..self.value(node.output).len(),
            Op::AppendRows(op) => self.append_rows_footprint(op, 0, block),
            Op::Attention(_)
            | Op::AttentionWeights(_)
            | Op::Softmax(_)
            | Op::Dropout(_)
            | Op::PartialAttention(_)
            | Op::MergePartials(_)
            | Op::TransposeQkv(_)
            | Op::AppendKey(_) => self.split_footprint(node, block),
        }
    }

    fn matmul_footprint(&self, op: &Matmul, index: usize, block: &Block) -> Range<usize> {
        let Block { batches, rows, cols } = block.clone();
        let inner = 0..self.inner(op);
        let matrices = batches.start / op.group..(batches.end - 1) / op.group + 1;
        match index {
            _ if index < 2 && inner.is_empty() => 0..0,
            0 => self.lhs_matrices(op).footprint(batches, rows, inner),
            1 if op.transpose_rhs => self.rhs_matrices(op).footprint(matrices, cols, inner),
            1 => self.rhs_matrices(op).footprint(matrices, inner, cols),
            _ => cols,
        }
    }

    /// Of `valid_lens` (0), `attend_mask` (1) or `bias` (2), for a block of a (B·H, Lq, ·) space.
    fn mask_footprint(&self, mask: Option<ValueId>, which: usize, sizes: ScoreSizes, block: &Block) -> Range<usize> {
        let Some(mask) = mask else {
            return 0..0;
        };
        let ScoreSizes { num_heads, num_queries, num_keys, .. } = sizes;
        let first_entry = block.batches.start / num_heads;
        let last_entry = (block.batches.end - 1) / num_heads;
        if which == 0 {
            return match self.value(mask).shape.rank() {
                1 => first_entry..last_entry + 1,
                _ => first_entry * num_queries + block.rows.start..last_entry * num_queries + block.rows.end,
            };
        }
        let strides = self.mask_strides(sizes, mask);
        // A block over several batch entries meets every head of a mask that repeats over the entries.
        let (first_head, last_head) = if strides.batch == 0 && first_entry != last_entry {
            (0, num_heads - 1)
        } else {
            (block.batches.start % num_heads, (block.batches.end - 1) % num_heads)
        };
        first_entry * strides.batch + first_head * strides.head + block.rows.start * num_keys
            ..last_entry * strides.batch + last_head * strides.head + block.rows.end * num_keys
    }

    /// Of an operand of a streaming op: rows of the queries, all rows of keys and values of the batch entries.
    fn attention_footprint(&self, node: &Node, scores: &Scores, index: usize, block: &Block) -> Range<usize> {
        let sizes = self.score_sizes(scores);
        // `attention` works on batch entries, `attention_weights` on heads of them.
        let heads = match node.op {
            Op::Attention(_) | Op::PartialAttention(_) => {
                block.batches.start * sizes.num_heads..block.batches.end * sizes.num_heads
            }
            _ => block.batches.clone(),
        };
        let entries = heads.start / sizes.num_heads..(heads.end - 1) / sizes.num_heads + 1;
        let operand = node.op.operands()[index];
        let width = |id: ValueId| self.value(id).shape.axes().last().copied().unwrap_or(0);
        let num_columns = sizes.num_keys + scores.extra_keys;
        match (index, operand, &node.op) {
            (0, Some(id), _) | (2, Some(id), Op::AttentionWeights(_)) => {
                whole_rows(&entries, &block.rows, sizes.num_queries, width(id))
            }
            (1 | 2, Some(id), _) if num_columns > 0 => whole_rows(&entries, &(0..num_columns), num_columns, width(id)),
            (1 | 2, ..) => 0..0,
            _ => self.mask_footprint(operand, index - 3, sizes, &Block { batches: heads, ..block.clone() }),
        }
    }

    /// Of the (B·H, L, d) side of a node whose space it is.
    fn split_footprint(&self, node: &Node, block: &Block) -> Range<usize> {
        let [_, rows, cols] = self.space(node);
        whole_rows(&block.batches, &block.rows, rows, cols)
    }

    /// Of the (B, L, H·d) side of a transposition: whole rows of all heads.
    fn side_by_side_footprint(&self, node: &Node, op: &TransposeHeads, block: &Block) -> Range<usize> {
        let [_, rows, cols] = self.space(node);
        let entries = block.batches.start / op.num_heads..(block.batches.end - 1) / op.num_heads + 1;
        whole_rows(&entries, &block.rows, rows, op.num_heads * cols)
    }

    /// New rows of all heads, whose columns are those of the cache.
    fn appended_space(&self, op: &AppendRows) -> [usize; 3] {
        let &[batch, rows, _] = self.value(op.rows.tensor).shape.axes() else {
            unreachable!("the builder should have checked the rows");
        };
        [batch, rows, self.value(op.cache).shape.axes()[2]]
    }

    /// Of the cache (0) whole entries, for where rows go is known when they do; of the rows (1), of the lengths (2).
    fn append_rows_footprint(&self, op: &AppendRows, index: usize, block: &Block) -> Range<usize> {
        let [axes, rows] = [op.cache, op.rows.tensor].map(|id| self.value(id).shape.axes());
        match index {
            0 if axes[1] == 0 => 0..0,
            0 => whole_rows(&block.batches, &(0..axes[1]), axes[1], axes[2]),
            1 => whole_rows(&block.batches, &block.rows, rows[1], rows[2]),
            _ => block.batches.start * 2..block.batches.end * 2,
        }
    }

    fn append_key_footprint(&self, op: &AppendKey, index: usize, block: &Block) -> Range<usize> {
        let &[_, length, width] = self.value(op.input).shape.axes() else {
            unreachable!("the builder should have checked the input");
        };
        if index == 1 || length == 0 {
            return if index == 1 { 0..width } else { 0..0 };
        }
        // The last row of the output has no row in the input; a block of it alone reads a neighbour's.
        let rows = block.rows.start.min(length - 1)..block.rows.end.min(length);
        whole_rows(&block.batches, &rows, length, width)
    }
}
