//! The projections of a layer.

use crate::shape::HostTensor;

/// One projection, y = x·Wᵀ + b.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// W of shape (out, in).
    pub weight: HostTensor,
    /// b of shape (out,).
    pub bias: Option<HostTensor>,
}

/// The four projections of multi-head attention (D2L §10.3), for all heads at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// `W_q` (H·d, E).
    pub w_q: Linear,
    /// `W_k` (G·d, key width).
    pub w_k: Linear,
    /// `W_v` (G·dv, value width).
    pub w_v: Linear,
    /// `W_o` (E, H·dv).
    pub w_o: Linear,
    /// One more key (1, 1, G·d), after all others, that every query sees (PyTorch's `add_bias_kv`). Comes with `bias_v`.
    pub bias_k: Option<HostTensor>,
    /// The value (1, 1, G·dv) of that key.
    pub bias_v: Option<HostTensor>,
}
