//! Rewriting: few queries over many keys, the keys shared out among parts.

use super::rewrite::Copying;
use super::{Attention, Graph, MergePartials, Op, PartialAttention, Source};
use crate::error::Error;

/// How keys are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// How many parts.
    pub(crate) parts: usize,
    /// Keys of a tile, which one part takes at a time.
    pub(crate) keys: usize,
}

impl Graph {
    /// The graph with the keys of each attention shared out as `how` says, where it says so.
    ///
    /// # Errors
    /// None that a checked graph could cause.
    pub(crate) fn shared_out(&self, how: &dyn Fn(&Graph, &Attention) -> Option<Split>) -> Result<Self, Error> {
        let mut copy = Copying::of(self);
        for (id, value) in self.values() {
            let attention = match value.source {
                Source::Node(index) => match &self.nodes()[index].op {
                    Op::Attention(op) if !op.statistics => Some(op),
                    _ => None,
                },
                _ => None,
            };
            let Some((attention, split)) = attention.and_then(|op| Some((op, how(self, op)?))) else {
                copy.value(id)?;
                continue;
            };
            let Op::Attention(Attention { scores, value: values, dropout, .. }) =
                Op::Attention(attention.clone()).on(&copy.ids)
            else {
                unreachable!("an op should stay what it is");
            };
            let num_heads = scores.num_heads;
            let value_dim = values.count / scores.num_kv_heads;
            let Split { parts, keys } = split;
            let op = PartialAttention { scores, value: values, value_dim, lengths: None, dropout, parts, keys };
            let partials = copy.builder.partial_attention(&format!("{}.partials", value.name), op)?;
            let merge = MergePartials { partials, num_heads, parts };
            copy.ids[id.0] = copy.builder.merge_partials(&value.name, merge)?;
        }
        Ok(copy.finish())
    }
}
