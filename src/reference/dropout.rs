//! `dropout` on the CPU: weight by weight.

use super::softmax::Row;
use super::view::{Real, View, is_hidden};
use crate::graph::DropoutPattern;
use crate::graph::footprint::Block;

/// What a weight is multiplied with: the factor of what is kept, or 0.
pub(super) fn factor<T: Real>(pattern: &DropoutPattern, row: Row, key: usize) -> T {
    let place = [row.entry, row.head, row.query, key];
    // The builder keeps every axis below 2³⁰.
    let kept = pattern.keeps(place.map(|index| u32::try_from(index).unwrap_or(u32::MAX)));
    if kept { T::of(pattern.scale()) } else { T::zero() }
}

/// `out[bh][i][j] = weights[bh][i][j] · (kept ? 1 / (1 − p) : 0)`, `weights` (B·H, Lq, columns); a hidden key's weight stays
/// what it is. `write(index, row)` takes each row.
pub(super) fn dropout<T: Real>(
    pattern: &DropoutPattern,
    num_heads: usize,
    weights: View<'_, T>,
    [num_queries, columns]: [usize; 2],
    block: &Block,
    mut write: impl FnMut(usize, &[T]),
) {
    let mut dropped = vec![T::zero(); columns];
    for batch in block.batches.clone() {
        for query in block.rows.clone() {
            let row = Row { entry: batch / num_heads, head: batch % num_heads, query };
            let first = (batch * num_queries + query) * columns;
            for (key, (out, &weight)) in dropped.iter_mut().zip(weights.slice(first..first + columns)).enumerate() {
                *out = if is_hidden(weight) { weight } else { weight * factor(pattern, row, key) };
            }
            write(first, &dropped);
        }
    }
}
