//! `append_key` on the CPU: the rows of the input, then the learned key.

use super::view::View;
use crate::graph::footprint::Block;

/// `out[b][t] = t < L ? in[b][t] : key`; `input` (B, L, W), `key` (1, 1, W); `write(index, row)` takes each row.
pub(super) fn append_key<T: Copy>(
    [length, width]: [usize; 2],
    input: View<'_, T>,
    key: View<'_, T>,
    block: &Block,
    mut write: impl FnMut(usize, &[T]),
) {
    for batch in block.batches.clone() {
        for row in block.rows.clone() {
            let source = if row < length {
                let first = (batch * length + row) * width;
                input.slice(first..first + width)
            } else {
                key.slice(0..width)
            };
            write((batch * (length + 1) + row) * width, source);
        }
    }
}
