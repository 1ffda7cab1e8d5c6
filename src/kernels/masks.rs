//! Where masks lie, as softmax and attention tell their shaders.

use super::{size, wrapped};
use crate::graph::{Graph, MaskStrides, ScoreSizes, ValueId};

/// Strides of `valid_lens`, `attend_mask` and `bias`; of an absent one they do not matter.
pub(super) struct MaskPlaces {
    pub(super) has_valid_lens: u32,
    pub(super) has_attend_mask: u32,
    pub(super) has_bias: u32,
    /// From entry to entry, from row to row.
    pub(super) valid_lens: [u32; 2],
    /// From entry to entry, from head to head.
    pub(super) attend_mask: [u32; 2],
    /// From entry to entry, from head to head.
    pub(super) bias: [u32; 2],
}

impl MaskPlaces {
    pub(super) fn new(graph: &Graph, sizes: ScoreSizes, [lens, mask, bias]: [Option<ValueId>; 3]) -> Self {
        let strides = |mask: Option<ValueId>| {
            let none = MaskStrides { batch: 0, head: 0 };
            let strides = mask.map_or(none, |mask| graph.mask_strides(sizes, mask));
            [wrapped(strides.batch as u64), wrapped(strides.head as u64)]
        };
        let per_query = lens.is_some_and(|lens| graph.value(lens).shape.rank() == 2);
        Self {
            has_valid_lens: lens.is_some().into(),
            has_attend_mask: mask.is_some().into(),
            has_bias: bias.is_some().into(),
            valid_lens: [if per_query { size(sizes.num_queries) } else { 1 }, per_query.into()],
            attend_mask: strides(mask),
            bias: strides(bias),
        }
    }
}
