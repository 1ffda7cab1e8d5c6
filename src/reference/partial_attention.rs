//! `partial_attention` and `merge_partials` on the CPU: the keys of a part, then the parts in order.

use super::attention::{Heads, Scores};
use super::dropout::factor;
use super::softmax::Row;
use super::view::{Real, View};
use crate::graph::footprint::Block;
use crate::graph::{DropoutPattern, KeyBand, STATISTICS, ScoreSizes};

/// How keys are shared out, and which of them are there.
pub(super) struct SharingOut<'a> {
    /// (B, 2): keys before, new ones; and what a query sees of them from its position. Without, masks say all.
    pub(super) cached: Option<(&'a [u32], KeyBand)>,
    pub(super) parts: usize,
    pub(super) keys: usize,
    pub(super) value_dim: usize,
    /// Which weights are dropped.
    pub(super) dropout: Option<DropoutPattern>,
}

impl SharingOut<'_> {
    /// Whether a query sees a key of the cache by position.
    fn sees(&self, row: Row, key: usize) -> bool {
        self.cached.is_none_or(|(lengths, band)| band.contains(row.query + lengths[row.entry * 2] as usize, key))
    }

    /// How many of `columns` keys are there for a query.
    fn there(&self, row: Row, columns: usize) -> usize {
        let Some((lengths, _)) = self.cached else {
            return columns;
        };
        let [before, added] = [lengths[row.entry * 2] as usize, lengths[row.entry * 2 + 1] as usize];
        if row.query < added { columns.min(before + added) } else { 0 }
    }
}

/// Σ exp(score − largest) · value of each head and part, then the largest score and the sum of powers; `write(index, row)`
/// takes each row.
pub(super) fn partial_attention<T: Real>(
    scores: &Scores<'_, T>,
    value: Heads<'_, T>,
    parts: &SharingOut<'_>,
    block: &Block,
    mut write: impl FnMut(usize, &[T]),
) {
    let ScoreSizes { num_heads, num_queries, .. } = scores.masks.sizes;
    let pitch = parts.value_dim + STATISTICS;
    let mut visible = vec![None; scores.num_columns];
    let mut line = vec![T::zero(); num_heads * parts.parts * pitch];
    for entry in block.batches.clone() {
        for query in block.rows.clone() {
            line.fill(T::zero());
            for (head, of_head) in line.chunks_exact_mut(parts.parts * pitch).enumerate() {
                let row = Row { entry, head, query };
                let there = parts.there(row, scores.num_columns);
                scores.fill(row, &mut visible[..there]);
                for (part, out) in of_head.chunks_exact_mut(pitch).enumerate() {
                    let own = |key: &usize| key / parts.keys % parts.parts == part && parts.sees(row, *key);
                    let seen = (0..there).filter(own).filter_map(|key| Some((key, visible[key]?)));
                    let (sums, statistics) = out.split_at_mut(parts.value_dim);
                    let seen: Vec<(usize, T)> = seen.collect();
                    let largest = seen.iter().map(|(_, score)| *score).fold(T::neg_infinity(), T::max);
                    let mut total = T::zero();
                    for (key, score) in &seen {
                        let weight = (*score - largest).exp();
                        total += weight;
                        let weight = parts.dropout.map_or(weight, |pattern| weight * factor(&pattern, row, *key));
                        let other = value.row(entry * scores.num_columns + key, scores.kv_head(head));
                        for (sum, &y) in sums.iter_mut().zip(other) {
                            *sum += weight * y;
                        }
                    }
                    let none = seen.is_empty();
                    statistics.copy_from_slice(&if none { [T::zero(), -T::one()] } else { [largest, total] });
                }
            }
            write((entry * num_queries + query) * line.len(), &line);
        }
    }
}

/// The parts of each head put together, `partials` (B, Lq, H · parts · (dv + 2)); `write(index, row)` takes each row.
pub(super) fn merge_partials<T: Real>(
    partials: View<'_, T>,
    [num_queries, width]: [usize; 2],
    [num_heads, parts]: [usize; 2],
    block: &Block,
    mut write: impl FnMut(usize, &[T]),
) {
    let value_dim = width / num_heads;
    let pitch = value_dim + STATISTICS;
    let wide = num_heads * parts * pitch;
    let mut joined = vec![T::zero(); width];
    for entry in block.batches.clone() {
        for query in block.rows.clone() {
            let row = entry * num_queries + query;
            let line = partials.slice(row * wide..(row + 1) * wide);
            for (out, of_head) in joined.chunks_exact_mut(value_dim).zip(line.chunks_exact(parts * pitch)) {
                out.fill(T::zero());
                let seen = || of_head.chunks_exact(pitch).filter(|part| part[value_dim + 1] != -T::one());
                let largest = seen().map(|part| part[value_dim]).fold(T::neg_infinity(), T::max);
                let mut total = T::zero();
                for part in seen() {
                    let factor = (part[value_dim] - largest).exp();
                    total += part[value_dim + 1] * factor;
                    for (out, &sum) in out.iter_mut().zip(part) {
                        *out += sum * factor;
                    }
                }
                if seen().next().is_some() {
                    for out in out.iter_mut() {
                        *out = *out / total;
                    }
                }
            }
            write(row * width, &joined);
        }
    }
}
