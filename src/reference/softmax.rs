//! `softmax` on the CPU: a row's largest score, then the powers, then their sum divides them.
//!
//! A hidden key is `None`, not a low score.

use super::view::{Real, View, hidden};
use crate::graph::footprint::Block;
use crate::graph::{KeyBand, MaskStrides, ScoreSizes};

/// What decides which key gets which score.
pub(super) struct Masks<'a, T> {
    /// (B,) or (B, Lq).
    pub(super) valid_lens: Option<(&'a [u32], bool)>,
    /// Shapes of [`MaskStrides`].
    pub(super) attend_mask: Option<(&'a [bool], MaskStrides)>,
    /// Shapes of [`MaskStrides`].
    pub(super) bias: Option<(View<'a, T>, MaskStrides)>,
    pub(super) sizes: ScoreSizes,
    pub(super) scale: T,
    pub(super) band: KeyBand,
}

/// One query of one head.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) entry: usize,
    pub(super) head: usize,
    pub(super) query: usize,
}

impl<T: Real> Masks<'_, T> {
    /// The scaled and biased score of a key from the product of query and key, or `None` when it is hidden.
    pub(super) fn visible_score(&self, row: Row, key: usize, product: T) -> Option<T> {
        let scaled = self.scale * product;
        let ScoreSizes { num_keys, num_queries, .. } = self.sizes;
        if key >= num_keys {
            return Some(scaled);
        }
        let place =
            |strides: MaskStrides| row.entry * strides.batch + row.head * strides.head + row.query * num_keys + key;
        let seen = self.band.contains(row.query, key)
            && self.valid_lens.is_none_or(|(lens, per_query)| {
                let index = if per_query { row.entry * num_queries + row.query } else { row.entry };
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

/// `out[bh][i] = softmax over the visible keys of scale · scores[bh][i] + bias`, `scores` (B·H, Lq, columns);
/// `write(index, row)` takes each row.
pub(super) fn softmax<T: Real>(
    masks: &Masks<'_, T>,
    scores: View<'_, T>,
    columns: usize,
    block: &Block,
    mut write: impl FnMut(usize, &[T]),
) {
    let ScoreSizes { num_heads, num_queries, .. } = masks.sizes;
    let mut weights = vec![T::zero(); columns];
    let mut visible = vec![None; columns];
    for batch in block.batches.clone() {
        for query in block.rows.clone() {
            let row = Row { entry: batch / num_heads, head: batch % num_heads, query };
            let first = (batch * num_queries + query) * columns;
            for (key, (seen, &score)) in visible.iter_mut().zip(scores.slice(first..first + columns)).enumerate() {
                *seen = masks.visible_score(row, key, score);
            }
            normalise(&visible, &mut weights);
            write(first, &weights);
        }
    }
}

/// `exp(s − max) / Σ exp(s − max)` of the visible scores; hidden ones get the hidden mark.
///
/// Gives back the largest score and the sum: 0 and 0 where no key is visible.
pub(super) fn normalise<T: Real>(visible: &[Option<T>], weights: &mut [T]) -> [T; 2] {
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
    if visible.iter().any(Option::is_some) { [max, sum] } else { [T::zero(); 2] }
}
