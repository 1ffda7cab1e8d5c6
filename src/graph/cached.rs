//! Ops of attention over keys and values that were there before: rows appended in place, keys shared out among parts.

use super::{Columns, Op, Scores, ValueId};

/// `cache[b][cached + t] = rows[b][t]` for the new rows of each batch entry, in place: the output is the cache itself,
/// and what is not written stays as it was.
///
/// Heads stand side by side in both; in the cache a head may be followed by zeros, so that it starts at a multiple of four
/// elements. Where the cache is [`DType::F16`](super::DType::F16), numbers are rounded to the nearest half, ties to even.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendRows {
    /// (B, capacity, G · width of a head with its zeros): an input, which nothing else reads.
    pub cache: ValueId,
    /// G heads in columns of (B, Lq, ·).
    pub rows: Columns,
    /// (B, 2): rows that are cached, and how many of `rows` are new.
    pub lengths: ValueId,
    /// G.
    pub num_heads: usize,
}

/// What parts of the keys add to an attention, for [`MergePartials`] to put together: (B, Lq, H · parts · (dv + 2)).
///
/// Keys are taken `keys` at a time, each such tile by the next part in turn. Of each part there are
/// Σ exp(score − largest) · value, then the largest score and Σ exp(score − largest); of a part that shows the query no
/// key, zeros and −1.
#[derive(Clone, Debug, PartialEq)]
pub struct PartialAttention {
    /// Which key gets which score. Heads of the keys may be wider than those of the queries: what follows is not read.
    pub scores: Scores,
    /// G heads in columns of (B, Lk + extra, ·); they may be wider than `value_dim`.
    pub value: Columns,
    /// dv.
    pub value_dim: usize,
    /// (B, 2): keys that were there before, and new ones. Query `i` then stands at position keys before + `i`, sees no key
    /// from their sum on, and none at all when it is not one of the new ones.
    pub lengths: Option<ValueId>,
    /// Which weights are dropped, as in [`Dropout`](super::Dropout); the sums of exp are those before. Not with `lengths`,
    /// whose place among the operands it takes.
    pub dropout: Option<ValueId>,
    /// How many parts.
    pub parts: usize,
    /// Keys of a tile: 64, 128 or 256.
    pub keys: usize,
}

/// `softmax(scores) · value` from the parts of a [`PartialAttention`], always in the same order: (B, Lq, H·dv).
#[derive(Clone, Debug, PartialEq)]
pub struct MergePartials {
    /// (B, Lq, H · parts · (dv + 2)).
    pub partials: ValueId,
    /// H.
    pub num_heads: usize,
    /// How many parts.
    pub parts: usize,
}

impl Op {
    /// The operand in whose place the op writes its output.
    pub(crate) fn in_place(&self) -> Option<ValueId> {
        match self {
            Self::AppendRows(op) => Some(op.cache),
            _ => None,
        }
    }
}
