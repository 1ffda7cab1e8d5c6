//! `softmax` on the CPU: a row's largest score, then the powers, then their sum divides them.
//!
//! A hidden key is `None`, not a low score.

use super::view::{Real, View, hidden};
use crate::graph::footprint::Block;
use crate::graph::{MaskStrides, Softmax};

/// Sizes and operands of the softmax.
pub(super) struct Operands<'a, T> {
    /// (B·H, Lq, columns).
    pub(super) scores: View<'a, T>,
    /// (B,) or (B, Lq).
    pub(super) valid_lens: Option<(&'a [u32], bool)>,
    /// Shapes of [`MaskStrides`].
    pub(super) attend_mask: Option<(&'a [bool], MaskStrides)>,
    /// Shapes of [`MaskStrides`].
    pub(super) bias: Option<(View<'a, T>, MaskStrides)>,
    /// Lq.
    pub(super) num_queries: usize,
    /// Lk + extra keys.
    pub(super) columns: usize,
}

/// One query of one head.
#[derive(Clone, Copy)]
struct Row {
    entry: usize,
    head: usize,
    query: usize,
}

impl<T: Real> Operands<'_, T> {
    /// The scaled and biased score of a key, or `None` when it is hidden.
    fn visible_score(&self, op: &Softmax, row: Row, key: usize, score: T) -> Option<T> {
        let scaled = T::of_f64(op.scale) * score;
        let num_keys = self.columns - op.extra_keys;
        if key >= num_keys {
            return Some(scaled);
        }
        let place =
            |strides: MaskStrides| row.entry * strides.batch + row.head * strides.head + row.query * num_keys + key;
        let seen = op.band.contains(row.query, key)
            && self.valid_lens.is_none_or(|(lens, per_query)| {
                let index = if per_query { row.entry * self.num_queries + row.query } else { row.entry };
                key < lens[index] as usize
            })
            && self.attend_mask.is_none_or(|(mask, strides)| mask[place(strides)]);
        match self.bias {
            _ if !seen => None,
            None => Some(scaled),
            Some((bias, strides)) => {
                let bias = bias.at(place(strides));
                (bias != T::neg_infinity()).then(|| scaled + bias)
            }
        }
    }
}

/// `out[bh][i] = softmax over the visible keys of scale · scores[bh][i] + bias`; `write(index, row)` takes each row.
pub(super) fn softmax<T: Real>(
    op: &Softmax,
    operands: &Operands<'_, T>,
    block: &Block,
    mut write: impl FnMut(usize, &[T]),
) {
    let columns = operands.columns;
    let mut weights = vec![T::zero(); columns];
    let mut visible = vec![None; columns];
    for batch in block.batches.clone() {
        for query in block.rows.clone() {
            let row = Row { entry: batch / op.num_heads, head: batch % op.num_heads, query };
            let first = (batch * operands.num_queries + query) * columns;
            let scores = operands.scores.slice(first..first + columns);
            for (key, (seen, &score)) in visible.iter_mut().zip(scores).enumerate() {
                *seen = operands.visible_score(op, row, key, score);
            }
            normalise(&visible, &mut weights);
            write(first, &weights);
        }
    }
}

/// `exp(s − max) / Σ exp(s − max)` of the visible scores; hidden ones get the hidden mark.
fn normalise<T: Real>(visible: &[Option<T>], weights: &mut [T]) {
    let max = visible.iter().flatten().copied().fold(T::neg_infinity(), T::max);
    let mut sum = T::zero();
    for (weight, &score) in weights.iter_mut().zip(visible) {
        *weight = score.map_or(hidden(), |score| (score - max).exp());
        if score.is_some() {
            sum += *weight;
        }
    }
    for (weight, score) in weights.iter_mut().zip(visible) {
        if score.is_some() {
            *weight = *weight / sum;
        }
    }
}
