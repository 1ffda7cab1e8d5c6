//! `transpose_qkv` and `transpose_output` on the CPU.

use super::view::View;
use crate::graph::footprint::Block;

/// (B, L, H·d) and (B·H, L, d).
#[derive(Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "num_heads is the field's word")]
pub(super) struct Heads {
    pub(super) num_heads: usize,
    pub(super) length: usize,
    pub(super) head_dim: usize,
}

impl Heads {
    /// For each row of the block (of (B·H, L, d)): where it starts there, and where beside the other heads.
    fn rows(self, block: &Block) -> impl Iterator<Item = (usize, usize)> {
        let Self { num_heads, length, head_dim } = self;
        let rows = block.rows.clone();
        block.batches.clone().flat_map(move |batch_head| {
            let (batch, head) = (batch_head / num_heads, batch_head % num_heads);
            rows.clone().map(move |row| {
                let split = (batch_head * length + row) * head_dim;
                let side_by_side = ((batch * length + row) * num_heads + head) * head_dim;
                (split, side_by_side)
            })
        })
    }
}

/// `out[b·H + h][t][c] = in[b][t][h·d + c]`; `write(index, row)` takes each row.
pub(super) fn transpose_qkv<T: Copy>(
    heads: Heads,
    input: View<'_, T>,
    block: &Block,
    mut write: impl FnMut(usize, &[T]),
) {
    for (split, side_by_side) in heads.rows(block) {
        write(split, input.slice(side_by_side..side_by_side + heads.head_dim));
    }
}

/// `out[b][t][h·d + c] = in[b·H + h][t][c]`; `write(index, row)` takes each row.
pub(super) fn transpose_output<T: Copy>(
    heads: Heads,
    input: View<'_, T>,
    block: &Block,
    mut write: impl FnMut(usize, &[T]),
) {
    for (split, side_by_side) in heads.rows(block) {
        write(side_by_side, input.slice(split..split + heads.head_dim));
    }
}
