//! `append_rows` on the CPU: row by row into what is there.

use super::attention::Heads;
use super::view::Real;
use crate::graph::footprint::Block;

/// `cache[b][before + t] = rows[b][t]` for the new rows of each batch entry, zeros behind each head; `capacity` and `width`
/// are those of the cache, `round` what storing does to a number.
pub(super) fn append_rows<T: Real>(
    rows: Heads<'_, T>,
    lengths: &[u32],
    [num_rows, capacity, width]: [usize; 3],
    block: &Block,
    round: impl Fn(T) -> T,
    cache: &mut [T],
) {
    let head_width = width / rows.count;
    for entry in block.batches.clone() {
        let [before, added] = [lengths[entry * 2] as usize, lengths[entry * 2 + 1] as usize];
        for row in block.rows.clone().filter(|&row| row < added && before + row < capacity) {
            let first = (entry * capacity + before + row) * width;
            for (head, out) in cache[first..first + width].chunks_exact_mut(head_width).enumerate() {
                let from = rows.row(entry * num_rows + row, head);
                out.fill(T::zero());
                out.iter_mut().zip(from).for_each(|(out, &x)| *out = round(x));
            }
        }
    }
}
