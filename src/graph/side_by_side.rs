//! Rewriting: products read and write heads where they stand side by side, and no transposition is left to do.

use std::collections::BTreeSet;

use super::rewrite::Copying;
use super::{Graph, HeadColumns, Matmul, Op, Source, TransposeHeads, ValueId};
use crate::error::Error;

impl Graph {
    /// The graph without the transpositions that products can do, of tensors of joined heads that `applies` to.
    ///
    /// # Errors
    /// None that a checked graph could cause.
    pub(crate) fn side_by_side(&self, applies: &dyn Fn(&Graph, ValueId) -> bool) -> Result<Self, Error> {
        let split = |id: ValueId| self.readable(id).filter(|(tensor, _)| applies(self, *tensor));
        let joins: Vec<_> =
            self.nodes().iter().filter_map(|node| Some((node.output, self.joinable(node.output)?))).collect();
        let joins: Vec<_> = joins.into_iter().filter(|(joined, _)| applies(self, *joined)).collect();
        let products: BTreeSet<ValueId> = joins.iter().map(|(_, (product, _))| *product).collect();
        let mut copy = Copying::of(self);
        for (id, value) in self.values() {
            let joined = joins.iter().find(|(joined, _)| *joined == id).map(|(_, join)| *join);
            let made = joined.map_or(id, |(product, _)| product);
            match self.made_by(made) {
                _ if products.contains(&id) || split(id).is_some() => {}
                Some(Op::Matmul(op)) if self.is_batched(op) => {
                    let mut op = op.clone();
                    if let Some((tensor, heads)) = split(op.lhs) {
                        (op.lhs, op.heads.lhs) = (tensor, Some(heads));
                    }
                    if let Some((tensor, heads)) = split(op.rhs) {
                        (op.rhs, op.heads.rhs) = (tensor, Some(heads));
                    }
                    if let Some((_, num_heads)) = joined {
                        op.heads.output = Some(num_heads);
                    }
                    let Op::Matmul(op) = Op::Matmul(op).on(&copy.ids) else {
                        unreachable!("an op should stay what it is");
                    };
                    copy.ids[id.0] = copy.builder.matmul(&value.name, op)?;
                }
                _ => copy.value(id)?,
            }
        }
        Ok(copy.finish())
    }

    /// Where the heads of a transposition stand side by side, if none but products read what it gives.
    fn readable(&self, id: ValueId) -> Option<(ValueId, HeadColumns)> {
        let Op::TransposeQkv(TransposeHeads { input, num_heads }) = *self.made_by(id)? else { return None };
        let multiplies = |op: &Op| matches!(op, Op::Matmul(op) if self.is_batched(op));
        let mut readers = self.nodes().iter().map(|node| &node.op).filter(|op| op.operands().contains(&Some(id)));
        let width = *self.value(input).shape.axes().last()?;
        let heads = HeadColumns { first: 0, num_heads, head_dim: width / num_heads };
        (readers.all(multiplies) && !self.outputs().contains(&id)).then_some((input, heads))
    }

    /// The product whose heads a value joins, and how many they are, if nothing else reads them.
    fn joinable(&self, id: ValueId) -> Option<(ValueId, usize)> {
        let Source::Node(index) = self.value(id).source else { return None };
        let Op::TransposeOutput(TransposeHeads { input, num_heads }) = self.nodes()[index].op else { return None };
        let multiplies = |op: &Matmul| self.is_batched(op) && op.heads.output.is_none();
        matches!(self.only_used_by(input)?, Op::Matmul(op) if multiplies(op)).then_some((input, num_heads))
    }

    /// Whether a product has a right matrix for each left one, or for each few.
    fn is_batched(&self, op: &Matmul) -> bool {
        self.value(op.rhs).shape.rank() == 3
    }
}
