//! Multi-head attention: from a configuration, weights and masks to a [`Graph`](crate::Graph), and from there to answers.

mod config;
mod mask;
mod weights;

pub use config::AttentionConfig;
pub use mask::Mask;
pub use weights::{Linear, Weights};

use crate::shape::HostTensor;

/// What one call of attention reads.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionInputs {
    /// (B, Lq, E).
    pub query: HostTensor,
    /// (B, Lk, key width); by default the query: self-attention.
    pub key: Option<HostTensor>,
    /// (B, Lk, value width); by default the key.
    pub value: Option<HostTensor>,
    /// Which keys a query may see; by default all.
    pub mask: Mask,
}
