//! `attention` and `attention_weights` on the CPU: a row of scores at a time, then its softmax, then the weighted sum.

use super::dropout::factor;
use super::softmax::{Masks, Row, normalise};
use super::view::{Real, View, is_hidden};
use crate::graph::footprint::Block;
use crate::graph::{Columns, DropoutPattern, ScoreSizes};

/// Heads side by side in columns of rows of `stride` elements.
#[derive(Clone, Copy)]
pub(super) struct Heads<'a, T> {
    pub(super) data: View<'a, T>,
    pub(super) columns: Columns,
    /// Elements from one row to the next.
    pub(super) stride: usize,
    /// How many heads the columns are.
    pub(super) count: usize,
}

impl<'a, T: Real> Heads<'a, T> {
    fn width(&self) -> usize {
        self.columns.count / self.count
    }

    /// One head of one row.
    pub(super) fn row(&self, row: usize, head: usize) -> &'a [T] {
        let first = row * self.stride + self.columns.first + head * self.width();
        self.data.slice(first..first + self.width())
    }
}

/// Queries and keys of all heads, and what hides keys.
pub(super) struct Scores<'a, T> {
    pub(super) query: Heads<'a, T>,
    pub(super) key: Heads<'a, T>,
    pub(super) masks: Masks<'a, T>,
    /// Lk + extra keys.
    pub(super) num_columns: usize,
}

impl<T: Real> Scores<'_, T> {
    /// The key/value head that a query head reads.
    pub(super) fn kv_head(&self, head: usize) -> usize {
        head / (self.query.count / self.key.count)
    }

    /// Scores of one query, `None` for hidden keys.
    pub(super) fn fill(&self, row: Row, visible: &mut [Option<T>]) {
        let query = self.query.row(row.entry * self.masks.sizes.num_queries + row.query, row.head);
        for (key, seen) in visible.iter_mut().enumerate() {
            let other = self.key.row(row.entry * self.num_columns + key, self.kv_head(row.head));
            let product = query.iter().zip(other).fold(T::zero(), |sum, (&x, &y)| sum + x * y);
            *seen = self.masks.visible_score(row, key, product);
        }
    }
}

/// What is computed of an attention.
pub(super) struct Form {
    /// Columns of the output.
    pub(super) width: usize,
    /// Whether each head's largest score and sum follow the heads of a row.
    pub(super) statistics: bool,
    /// Which weights are dropped.
    pub(super) dropout: Option<DropoutPattern>,
}

/// `joined[b][i][h] = dropout(softmax(scores)) · value`; `write(index, row)` takes each row.
pub(super) fn attention<T: Real>(
    scores: &Scores<'_, T>,
    value: Heads<'_, T>,
    form: &Form,
    block: &Block,
    mut write: impl FnMut(usize, &[T]),
) {
    let ScoreSizes { num_heads, num_queries, .. } = scores.masks.sizes;
    let mut visible = vec![None; scores.num_columns];
    let mut weights = vec![T::zero(); scores.num_columns];
    let mut joined = vec![T::zero(); form.width];
    for entry in block.batches.clone() {
        for query in block.rows.clone() {
            joined.fill(T::zero());
            let (heads, behind) = joined.split_at_mut(num_heads * value.width());
            for (head, out) in heads.chunks_exact_mut(value.width()).enumerate() {
                let place = Row { entry, head, query };
                scores.fill(place, &mut visible);
                let row = normalise(&visible, &mut weights);
                for (key, &weight) in weights.iter().enumerate().filter(|(_, weight)| !is_hidden(**weight)) {
                    let weight = form.dropout.map_or(weight, |pattern| weight * factor(&pattern, place, key));
                    let other = value.row(entry * scores.num_columns + key, scores.kv_head(head));
                    for (out, &y) in out.iter_mut().zip(other) {
                        *out += weight * y;
                    }
                }
                if form.statistics {
                    behind[head * 2..head * 2 + 2].copy_from_slice(&row);
                }
            }
            write((entry * num_queries + query) * form.width, &joined);
        }
    }
}

/// `weights[bh][i][j] = exp(score − largest) / sum`; `write(index, row)` takes each row.
///
/// The statistics are not read: the row is at hand anyway.
pub(super) fn attention_weights<T: Real>(scores: &Scores<'_, T>, block: &Block, mut write: impl FnMut(usize, &[T])) {
    let ScoreSizes { num_heads, num_queries, .. } = scores.masks.sizes;
    let mut visible = vec![None; scores.num_columns];
    let mut weights = vec![T::zero(); scores.num_columns];
    for batch in block.batches.clone() {
        for query in block.rows.clone() {
            scores.fill(Row { entry: batch / num_heads, head: batch % num_heads, query }, &mut visible);
            normalise(&visible, &mut weights);
            write((batch * num_queries + query) * scores.num_columns, &weights);
        }
    }
}
