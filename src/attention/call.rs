//! What of a call decides its graph: shapes and the kind of mask, no numbers.

use super::{AttentionInputs, Mask};
use crate::error::Error;
use crate::graph::KeyBand;
use crate::shape::Shape;

/// The shapes of one call's inputs and what its mask is made of.
///
/// # Example
/// ```
/// use multihead::CallShape;
/// let call = CallShape { causal: true, ..CallShape::self_attention([2, 128, 64]) }; // (B, L, E)
/// assert_eq!(call.key(), &[2, 128, 64]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallShape {
    /// (B, Lq, E).
    pub query: Shape,
    /// (B, Lk, key width); by default the query: self-attention.
    pub key: Option<Shape>,
    /// (B, Lk, value width); by default the key.
    pub value: Option<Shape>,
    /// (B,) or (B, Lq).
    pub valid_lens: Option<Shape>,
    /// (Lq, Lk), (B, Lq, Lk) or (1|B, 1|H, Lq, Lk).
    pub attend_mask: Option<Shape>,
    /// In the shapes of `attend_mask`.
    pub bias: Option<Shape>,
    /// See [`Mask::causal`].
    pub causal: bool,
    /// See [`Mask::query_offset`].
    pub query_offset: i64,
    /// See [`Mask::window`].
    pub window: Option<u64>,
    /// Whether weights are dropped: [`Training`](super::Training), whose numbers are data.
    pub training: bool,
    /// See [`Training::returns_dropped`](super::Training::returns_dropped).
    pub returns_dropped: bool,
}

impl CallShape {
    /// A sequence of shape (B, L, E) that attends to itself, without a mask.
    #[must_use]
    pub fn self_attention(query: impl Into<Shape>) -> Self {
        Self {
            query: query.into(),
            key: None,
            value: None,
            valid_lens: None,
            attend_mask: None,
            bias: None,
            causal: false,
            query_offset: 0,
            window: None,
            training: false,
            returns_dropped: false,
        }
    }

    /// (B, Lk, key width): the query's where no key is given.
    #[must_use]
    pub fn key(&self) -> &Shape {
        self.key.as_ref().unwrap_or(&self.query)
    }

    /// (B, Lk, value width): the key's where no value is given.
    #[must_use]
    pub fn value(&self) -> &Shape {
        self.value.as_ref().unwrap_or_else(|| self.key())
    }

    /// Which keys a query sees by position.
    pub(super) fn band(&self) -> KeyBand {
        KeyBand::new(self.causal, self.query_offset, self.window)
    }

    /// Checks what the mask's settings alone can get wrong.
    pub(super) fn check_window(&self) -> Result<(), Error> {
        if self.window == Some(0) {
            return Err(Error::OutOfRange {
                what: "window".into(),
                value: "0".into(),
                allowed: "must be at least 1".into(),
            });
        }
        Ok(())
    }
}

impl AttentionInputs {
    /// The shapes of these inputs and what their mask is made of.
    #[must_use]
    pub fn call_shape(&self) -> CallShape {
        let Mask { valid_lens, attend_mask, bias, causal, query_offset, window } = &self.mask;
        CallShape {
            query: self.query.shape().clone(),
            key: self.key.as_ref().map(|tensor| tensor.shape().clone()),
            value: self.value.as_ref().map(|tensor| tensor.shape().clone()),
            valid_lens: valid_lens.as_ref().map(|tensor| tensor.shape().clone()),
            attend_mask: attend_mask.as_ref().map(|tensor| tensor.shape().clone()),
            bias: bias.as_ref().map(|tensor| tensor.shape().clone()),
            causal: *causal,
            query_offset: *query_offset,
            window: *window,
            training: self.training.is_some(),
            returns_dropped: self.training.is_some_and(|training| training.returns_dropped),
        }
    }
}
