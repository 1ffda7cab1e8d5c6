//! How the heads are cut.

use crate::error::{Error, number};

/// How many heads there are and how wide; what is `None` follows from the weights, or from D2L's rule `d = E / H`.
///
/// # Example
/// ```
/// use multihead::AttentionConfig;
/// let grouped = AttentionConfig { num_kv_heads: Some(2), ..AttentionConfig::new(8) };
/// assert_eq!(grouped.num_heads, 8);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionConfig {
    /// Query heads, H.
    pub num_heads: usize,
    /// Key/value heads, G, which divides H; by default what the weights say, else H.
    pub num_kv_heads: Option<usize>,
    /// Width of one query or key head, d; by default what the weights say, else E / H.
    pub head_dim: Option<usize>,
    /// What the scores are multiplied with; by default 1/√d (Vaswani et al. 2017, §3.2.1). 0 and negative values are legal.
    pub scale: Option<f64>,
}

impl AttentionConfig {
    /// Plain multi-head attention of `num_heads` heads.
    #[must_use]
    pub fn new(num_heads: usize) -> Self {
        Self { num_heads, num_kv_heads: None, head_dim: None, scale: None }
    }

    /// Checks what can be checked before any tensor is known.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        at_least_one("num_heads", self.num_heads)?;
        if let Some(num_kv_heads) = self.num_kv_heads {
            at_least_one("num_kv_heads", num_kv_heads)?;
            divides("num_heads", self.num_heads, "num_kv_heads", num_kv_heads)?;
        }
        if let Some(head_dim) = self.head_dim {
            at_least_one("head_dim", head_dim)?;
        }
        match self.scale {
            Some(scale) if !(f64::from(f32::MIN)..=f64::from(f32::MAX)).contains(&scale) => Err(Error::OutOfRange {
                what: "scale".into(),
                value: number(scale),
                allowed: "must be a finite 32-bit float".into(),
            }),
            _ => Ok(()),
        }
    }
}

/// Refuses 0.
pub(crate) fn at_least_one(what: &str, value: usize) -> Result<(), Error> {
    if value >= 1 {
        return Ok(());
    }
    Err(Error::OutOfRange { what: what.into(), value: value.to_string(), allowed: "must be at least 1".into() })
}

/// `value / divisor`, refusing a remainder.
pub(crate) fn divides(what: &str, value: usize, divisor_name: &str, divisor: usize) -> Result<usize, Error> {
    match value.checked_rem(divisor) {
        Some(0) => Ok(value / divisor),
        _ => Err(Error::NotDivisible { what: what.into(), value, divisor_name: divisor_name.into(), divisor }),
    }
}
