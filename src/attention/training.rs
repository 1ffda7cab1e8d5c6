//! Dropout of the attention weights, in training.

use crate::error::Error;
use crate::graph::DropoutPattern;
use crate::shape::HostTensor;

/// That a call is one of training, in which attention weights are dropped; without it a call is evaluation.
///
/// Each weight is set to zero with probability `dropout` and otherwise multiplied with 1 / (1 − `dropout`), so that the
/// mean over many steps is what evaluation gives. What is dropped is a function of (seed, step, batch entry, head,
/// query, key) alone ([`DropoutPattern`]): the same on every device. All three numbers are data, so that a compiled call
/// serves every step. With a probability of 0 it gives the bits of evaluation, wherever one kernel is chosen for both; on
/// llvmpipe, whose loops are limited, that may not be so beyond some 29,000 keys.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Training {
    /// The probability of dropping a weight, p; 0 to 1. It is rounded to a multiple of 2⁻³¹, and so is what survivors are
    /// multiplied with: a p nearer than 2⁻³² to 0 or 1 is 0 or 1.
    pub dropout: f64,
    /// What the patterns of all steps follow from.
    pub seed: u64,
    /// The step of training: each has a pattern of its own.
    pub step: u64,
    /// Whether weights that are asked for are those after dropout; by default those before, which sum to 1.
    pub returns_dropped: bool,
}

impl Training {
    /// As a device reads it, (4,): the graph's input `dropout`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a probability outside [0, 1].
    pub fn pattern(&self) -> Result<HostTensor<u32>, Error> {
        Ok(DropoutPattern::new(self.dropout, self.seed, self.step)?.words())
    }
}
