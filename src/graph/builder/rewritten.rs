//! The ops that rewriting puts in the place of others: they read columns of wider tensors, and parameters side by side.

use super::{GraphBuilder, checked_product};
use crate::error::Error;
use crate::graph::{Attention, AttentionWeights, Columns, DType, Op, Pack, ScoreSizes, Scores, Source, ValueId};
use crate::shape::Shape;

impl GraphBuilder {
    /// See [`Attention`].
    ///
    /// # Errors
    /// [`Error::WrongShape`] for columns that are not there, heads that do not divide them, lengths, masks or biases of a
    /// shape that is not in the list.
    pub fn attention(&mut self, name: &str, op: Attention) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.value.tensor), DType::F32)])?;
        self.reads_pattern(name, op.dropout)?;
        self.reads_scores(name, &op.scores)?;
        let sizes = self.check_scores(&op.scores)?;
        let Scores { key, num_heads, num_kv_heads, .. } = op.scores;
        self.check_columns(op.value, num_kv_heads)?;
        if self.axes(op.value.tensor)[..2] != self.axes(key.tensor)[..2] {
            let expected =
                format!("it must have the batch and length of {} {}", self.name(key.tensor), self.shape(key.tensor));
            return Err(self.wrong(op.value.tensor, expected));
        }
        let joined = checked_product(name, num_heads, op.value.count / num_kv_heads)?;
        let statistics = if op.statistics { num_heads.saturating_mul(2) } else { 0 };
        let width = joined.saturating_add(statistics);
        self.node(name, [sizes.batch, sizes.num_queries, width].into(), Op::Attention(op))
    }

    /// See [`AttentionWeights`].
    ///
    /// # Errors
    /// As [`attention`](Self::attention), of whose statistics the operand must be.
    pub fn attention_weights(&mut self, name: &str, op: AttentionWeights) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.attention), DType::F32)])?;
        self.reads_scores(name, &op.scores)?;
        let sizes = self.check_scores(&op.scores)?;
        let source = self.graph.values[op.attention.0].source;
        let has_statistics = match source {
            Source::Node(index) => {
                matches!(&self.graph.nodes[index].op, Op::Attention(attention) if attention.statistics)
            }
            _ => false,
        };
        if !has_statistics || self.axes(op.attention)[..2] != [sizes.batch, sizes.num_queries] {
            return Err(self.wrong(op.attention, "it must be the output of such an attention with statistics".into()));
        }
        let batch_heads = checked_product(name, sizes.batch, sizes.num_heads)?;
        let columns = sizes.num_keys + op.scores.extra_keys;
        self.node(name, [batch_heads, sizes.num_queries, columns].into(), Op::AttentionWeights(op))
    }

    /// See [`Pack`].
    ///
    /// # Errors
    /// [`Error::WrongShape`] where the parts do not fit beside each other.
    pub fn pack(&mut self, name: &str, op: Pack) -> Result<ValueId, Error> {
        self.reads(name, op.parts.iter().map(|part| (part.value, DType::F32)))?;
        let parts: Vec<_> = op.parts.iter().filter_map(|part| Some((part.value?, part.count))).collect();
        let Some(&(first, _)) = parts.first() else {
            return Err(Error::Missing {
                what: format!("what {name} is packed of"),
                hint: "name at least one parameter".into(),
            });
        };
        let inner = self.axes(first).get(1).copied();
        for (value, count) in parts {
            let axes = self.axes(value);
            if axes.first() != Some(&count) || axes.get(1).copied() != inner || axes.len() > 2 {
                return Err(
                    self.wrong(value, format!("it must have {count} rows, of the length of {}", self.name(first)))
                );
            }
        }
        let count = op.parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.count));
        let shape = inner.map_or(Shape::from([count]), |inner| Shape::from([inner, count]));
        self.node(name, shape, Op::Pack(op))
    }

    /// Sizes of a streaming op's scores, whose operands must fit.
    fn check_scores(&self, op: &Scores) -> Result<ScoreSizes, Error> {
        let Scores { query, key, num_heads, num_kv_heads, extra_keys, .. } = *op;
        self.check_columns(query, num_heads)?;
        self.check_columns(key, num_kv_heads)?;
        let [batch, num_queries] = [self.axes(query.tensor)[0], self.axes(query.tensor)[1]];
        let num_keys = self.axes(key.tensor)[1].checked_sub(extra_keys);
        let fits = self.axes(key.tensor)[0] == batch
            && num_heads % num_kv_heads == 0
            && query.count / num_heads == key.count / num_kv_heads;
        let (true, Some(num_keys)) = (fits, num_keys) else {
            let expected = format!(
                "it must hold {num_kv_heads} heads for the {num_heads} of {} {}",
                self.name(query.tensor),
                self.shape(query.tensor)
            );
            return Err(self.wrong(key.tensor, expected));
        };
        let sizes = ScoreSizes { batch, num_heads, num_queries, num_keys };
        self.check_masks(sizes, [op.valid_lens, op.attend_mask, op.bias])?;
        Ok(sizes)
    }

    pub(super) fn check_columns(&self, columns: Columns, num_heads: usize) -> Result<(), Error> {
        let Columns { tensor, first, count } = columns;
        let fits = matches!(self.axes(tensor), &[_, _, width] if first.saturating_add(count) <= width);
        if fits && num_heads > 0 && count % num_heads == 0 {
            return Ok(());
        }
        Err(self.wrong(
            tensor,
            format!("{num_heads} heads are read from columns {first} to {} of it", first.saturating_add(count)),
        ))
    }

    fn reads_scores(&self, name: &str, op: &Scores) -> Result<(), Error> {
        self.reads(name, [op.query, op.key].map(|columns| (Some(columns.tensor), DType::F32)))?;
        self.reads_masks(name, [op.valid_lens, op.attend_mask, op.bias])
    }
}
