//! `copy` on the CPU.

use super::view::View;
use crate::graph::CopyStrided;
use crate::graph::footprint::Block;

/// `out[Σ iₐ·to[a]] = input[Σ iₐ·from[a]]`; `write(index, row)` takes each element.
pub(super) fn copy<T: Copy>(op: &CopyStrided, input: View<'_, T>, block: &Block, mut write: impl FnMut(usize, &[T])) {
    let [_, _, inner, cols] = op.axes;
    let place = |index: [usize; 4], strides: [usize; 4]| index.iter().zip(strides).map(|(i, s)| i * s).sum::<usize>();
    for batch in block.batches.clone() {
        for row in block.rows.clone() {
            for element in 0..inner * cols {
                let index = [batch, row, element / cols, element % cols];
                write(place(index, op.to), &[input.at(place(index, op.from))]);
            }
        }
    }
}
