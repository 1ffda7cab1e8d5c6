//! The ops of attention over a cache, checked.

use super::{GraphBuilder, checked_product};
use crate::error::Error;
use crate::graph::{AppendRows, Columns, DType, MergePartials, Op, PartialAttention, ScoreSizes, Scores, ValueId};

/// Numbers of one part besides the sums: the largest score, the sum of powers.
pub(crate) const STATISTICS: usize = 2;

impl GraphBuilder {
    /// See [`AppendRows`].
    ///
    /// # Errors
    /// [`Error::WrongShape`] where cache, rows and lengths do not fit each other; otherwise as [`matmul`](Self::matmul).
    pub fn append_rows(&mut self, name: &str, op: AppendRows) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.rows.tensor), DType::F32), (Some(op.lengths), DType::U32)])?;
        self.reads_kept(name, op.cache)?;
        self.check_columns(op.rows, op.num_heads)?;
        let batch = self.axes(op.rows.tensor)[0];
        let fits = matches!(*self.axes(op.cache), [entries, _, width]
            if entries == batch && width % op.num_heads == 0 && width >= op.rows.count);
        let in_fours = self.axes(op.cache).last().is_some_and(|width| (width / op.num_heads).is_multiple_of(4));
        if !fits || !in_fours {
            let expected = format!(
                "it must have shape ({batch}, capacity, {} · a multiple of 4) for {} columns of {}",
                op.num_heads,
                op.rows.count,
                self.name(op.rows.tensor)
            );
            return Err(self.wrong(op.cache, expected));
        }
        self.check_lengths(op.lengths, batch)?;
        let shape = self.shape(op.cache).clone();
        self.node(name, shape, Op::AppendRows(op))
    }

    /// See [`PartialAttention`].
    ///
    /// # Errors
    /// [`Error::WrongShape`] where operands do not fit each other, [`Error::OutOfRange`] for parts or tiles that cannot be;
    /// otherwise as [`matmul`](Self::matmul).
    pub fn partial_attention(&mut self, name: &str, op: PartialAttention) -> Result<ValueId, Error> {
        let Scores { query, key, num_heads, num_kv_heads, valid_lens, attend_mask, bias, extra_keys, .. } = op.scores;
        self.reads(name, [(Some(query.tensor), DType::F32), (op.lengths, DType::U32)])?;
        self.reads_pattern(name, op.dropout)?;
        if op.lengths.is_some() && op.dropout.is_some() {
            return Err(Error::Invalid(format!(
                "{name} attends to a cache, where no weight is dropped; leave dropout out"
            )));
        }
        self.reads_kept(name, key.tensor)?;
        self.reads_kept(name, op.value.tensor)?;
        self.reads_masks(name, [valid_lens, attend_mask, bias])?;
        self.check_columns(query, num_heads)?;
        self.check_columns(key, num_kv_heads)?;
        self.check_columns(op.value, num_kv_heads)?;
        let [batch, num_queries] = [self.axes(query.tensor)[0], self.axes(query.tensor)[1]];
        let kept = |columns: Columns| (&self.axes(columns.tensor)[..2], self.graph.values[columns.tensor.0].dtype);
        let num_keys = self.axes(key.tensor)[1].checked_sub(extra_keys);
        let wide_enough =
            key.count / num_kv_heads >= query.count / num_heads && op.value.count / num_kv_heads >= op.value_dim;
        let fits = wide_enough
            && num_heads % num_kv_heads == 0
            && kept(key) == kept(op.value)
            && self.axes(key.tensor)[0] == batch
            && (op.lengths.is_none() || extra_keys == 0);
        let (true, Some(num_keys)) = (fits, num_keys) else {
            let expected = format!(
                "it must hold {num_kv_heads} heads for the {num_heads} of {} {}, stored as those of {} {} are",
                self.name(query.tensor),
                self.shape(query.tensor),
                self.name(op.value.tensor),
                self.shape(op.value.tensor)
            );
            return Err(self.wrong(key.tensor, expected));
        };
        self.check_masks(ScoreSizes { batch, num_heads, num_queries, num_keys }, [valid_lens, attend_mask, bias])?;
        if let Some(lengths) = op.lengths {
            self.check_lengths(lengths, batch)?;
        }
        if op.parts == 0 || ![64, 128, 256].contains(&op.keys) {
            return Err(Error::OutOfRange {
                what: format!("the sharing out of keys of {name}"),
                value: format!("{} parts of tiles of {}", op.parts, op.keys),
                allowed: "must be at least one part, and tiles of 64, 128 or 256".into(),
            });
        }
        let width = checked_product(name, num_heads, checked_product(name, op.parts, op.value_dim + STATISTICS)?)?;
        self.node(name, [batch, num_queries, width].into(), Op::PartialAttention(op))
    }

    /// See [`MergePartials`].
    ///
    /// # Errors
    /// [`Error::WrongShape`] where heads and parts do not divide the partials; otherwise as [`matmul`](Self::matmul).
    pub fn merge_partials(&mut self, name: &str, op: MergePartials) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.partials), DType::F32)])?;
        let wide = checked_product(name, op.num_heads, op.parts)?;
        let &[batch, rows, width] = self.axes(op.partials) else {
            return Err(self.wrong(op.partials, "partials must have shape (B, Lq, H · parts · (dv + 2))".into()));
        };
        let of_part = width.checked_div(wide).unwrap_or(0);
        if of_part <= STATISTICS || of_part * wide != width {
            let expected = format!("it must hold {} parts of {} heads", op.parts, op.num_heads);
            return Err(self.wrong(op.partials, expected));
        }
        let joined = op.num_heads * (of_part - STATISTICS);
        self.node(name, [batch, rows, joined].into(), Op::MergePartials(op))
    }

    /// A tensor of keys or values, which may be stored as halves.
    fn reads_kept(&self, name: &str, id: ValueId) -> Result<(), Error> {
        let halves = self.graph.values.get(id.0).is_some_and(|value| value.dtype == DType::F16);
        self.reads(name, [(Some(id), if halves { DType::F16 } else { DType::F32 })])
    }

    fn check_lengths(&self, lengths: ValueId, batch: usize) -> Result<(), Error> {
        if self.axes(lengths) == [batch, 2] {
            return Ok(());
        }
        Err(self.wrong(lengths, format!("it must have shape (B, 2) = ({batch}, 2): rows before, and new ones")))
    }
}
