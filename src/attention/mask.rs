//! Which keys a query may see.

use crate::error::Error;
use crate::shape::HostTensor;

/// What hides keys: a key is visible to a query when *every* given part lets it through.
///
/// A query without any visible key gives zeros. Hidden keys take no part at all: NaN in a hidden key or value never
/// reaches an output.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mask {
    /// (B,) or (B, Lq): key `j` is visible when `j < valid_len`; each between 0 and Lk.
    pub valid_lens: Option<HostTensor<i64>>,
    /// `true` = may attend. (Lq, Lk), (B, Lq, Lk) or (1|B, 1|H, Lq, Lk).
    pub attend_mask: Option<HostTensor<bool>>,
    /// Added to the scaled score, in the shapes of `attend_mask`. −∞ hides the key; a finite value never does.
    pub bias: Option<HostTensor>,
    /// Query `i` stands at position `i + query_offset` and sees keys up to there.
    pub causal: bool,
    /// Where the first query stands among the keys; any integer.
    pub query_offset: i64,
    /// Key `j` is visible when `|j − position| < window`; at least 1.
    pub window: Option<u64>,
}

impl Mask {
    /// Checks the lengths; shapes and settings are the matter of whoever builds the graph.
    pub(super) fn check_lens(&self, num_keys: usize) -> Result<(), Error> {
        let Some(lens) = &self.valid_lens else {
            return Ok(());
        };
        let outside = |&len: &i64| usize::try_from(len).map_or(true, |len| len > num_keys);
        match lens.data().iter().position(outside) {
            None => Ok(()),
            Some(place) => Err(Error::OutOfRange {
                what: format!("valid_lens{:?}", lens.shape().index_of(place)),
                value: lens.data()[place].to_string(),
                allowed: format!("must be between 0 and the number of keys, {num_keys}"),
            }),
        }
    }

    /// The lengths as a device stores them; [`check_lens`](Self::check_lens) has seen that they fit.
    pub(super) fn lens(&self) -> Option<HostTensor<u32>> {
        let lens = self.valid_lens.as_ref()?;
        let data = lens.data().iter().map(|&len| u32::try_from(len).unwrap_or(u32::MAX)).collect();
        HostTensor::new(lens.shape().clone(), data).ok()
    }
}
