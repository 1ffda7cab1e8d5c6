//! What masks are measured against, and where their elements lie.

use super::{Graph, MaskStrides, Scores, Softmax, ValueId};

/// The four sizes that masks are measured against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoreSizes {
    pub(crate) batch: usize,
    pub(crate) num_heads: usize,
    pub(crate) num_queries: usize,
    pub(crate) num_keys: usize,
}

impl ScoreSizes {
    /// `Err` ends the sentence "`valid_lens` has shape …, but".
    pub(super) fn check_valid_lens(self, axes: &[usize]) -> Result<(), String> {
        let Self { batch, num_queries, .. } = self;
        if axes == [batch] || axes == [batch, num_queries] {
            return Ok(());
        }
        Err(format!("must have shape (B,) = ({batch},) or (B, Lq) = ({batch}, {num_queries})"))
    }

    /// Where elements of a mask of these axes lie; `Err` ends the sentence "`attend_mask` has shape …, but".
    pub(crate) fn mask_strides(self, axes: &[usize]) -> Result<MaskStrides, String> {
        let Self { batch, num_heads, num_queries, num_keys } = self;
        let map = num_queries * num_keys;
        match *axes {
            [q, k] if [q, k] == [num_queries, num_keys] => Ok(MaskStrides { batch: 0, head: 0 }),
            [b, q, k] if [b, q, k] == [batch, num_queries, num_keys] => Ok(MaskStrides { batch: map, head: 0 }),
            [b, h, q, k]
                if (b == 1 || b == batch) && (h == 1 || h == num_heads) && [q, k] == [num_queries, num_keys] =>
            {
                Ok(MaskStrides { batch: if b == 1 { 0 } else { h * map }, head: if h == 1 { 0 } else { map } })
            }
            _ => Err(format!(
                "must have shape (Lq, Lk), (B, Lq, Lk) or (1|B, 1|H, Lq, Lk) with B = {batch}, H = {num_heads}, Lq = {num_queries}, Lk = {num_keys}"
            )),
        }
    }
}

impl Graph {
    /// The strides of a mask of checked shape.
    pub(crate) fn mask_strides(&self, sizes: ScoreSizes, mask: ValueId) -> MaskStrides {
        sizes.mask_strides(self.value(mask).shape.axes()).expect("the builder should have checked the mask")
    }

    /// What the masks of a softmax are measured against.
    pub(crate) fn softmax_sizes(&self, op: &Softmax) -> ScoreSizes {
        let &[batch_heads, num_queries, columns] = self.value(op.scores).shape.axes() else {
            unreachable!("the builder should have checked the scores");
        };
        let batch = batch_heads / op.num_heads;
        ScoreSizes { batch, num_heads: op.num_heads, num_queries, num_keys: columns - op.extra_keys }
    }

    /// What the masks of a streaming op are measured against.
    pub(crate) fn score_sizes(&self, op: &Scores) -> ScoreSizes {
        let length = |id: ValueId| self.value(id).shape.axes()[1];
        let batch = self.value(op.query.tensor).shape.axes()[0];
        let num_keys = length(op.key.tensor) - op.extra_keys;
        ScoreSizes { batch, num_heads: op.num_heads, num_queries: length(op.query.tensor), num_keys }
    }
}
