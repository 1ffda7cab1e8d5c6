//! Multi-head attention: from a configuration, weights and masks to a [`Graph`](crate::Graph), and from there to answers.

mod build;
mod by_head;
mod cache;
mod call;
mod config;
mod layer;
mod mask;
mod on_cpu;
mod run;
mod sizes;
mod step;
mod training;
mod weights;

pub use by_head::OutputByHead;
pub use cache::{CacheOptions, CacheStorage, KvCache};
pub use call::CallShape;
pub use config::AttentionConfig;
pub(crate) use config::divides;
pub use layer::MultiHeadAttention;
pub use mask::Mask;
pub use run::{AttentionOutput, AttentionPlan};
pub use sizes::HeadSizes;
pub use step::{StepInputs, StepPlan, StepShape};
pub use training::Training;
pub use weights::{Linear, Weights};

use crate::error::Error;
use crate::graph::Inputs;
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
    /// Which weights are dropped; by default none: evaluation.
    pub training: Option<Training>,
}

impl AttentionInputs {
    /// A sequence that attends to itself, without a mask.
    #[must_use]
    pub fn self_attention(query: HostTensor) -> Self {
        Self { query, key: None, value: None, mask: Mask::default(), training: None }
    }

    /// A sequence that attends to another, whose rows are keys and values, without a mask.
    #[must_use]
    pub fn cross_attention(query: HostTensor, key: HostTensor) -> Self {
        Self { key: Some(key), ..Self::self_attention(query) }
    }

    /// (B, Lq, E).
    #[must_use]
    pub fn query(&self) -> &HostTensor {
        &self.query
    }

    /// (B, Lk, key width): the query where no key is given.
    #[must_use]
    pub fn key(&self) -> &HostTensor {
        self.key.as_ref().unwrap_or(&self.query)
    }

    /// (B, Lk, value width): the key where no value is given.
    #[must_use]
    pub fn value(&self) -> &HostTensor {
        self.value.as_ref().unwrap_or_else(|| self.key())
    }

    /// Checks the lengths against the number of keys.
    fn check_lens(&self) -> Result<(), Error> {
        self.mask.check_lens(self.key().shape().axes().get(1).copied().unwrap_or(0))
    }

    /// The mask's lengths and the dropout pattern, as a device stores them.
    fn integers(&self) -> Result<Integers, Error> {
        let pattern = self.training.as_ref().map(Training::pattern).transpose()?;
        Ok(Integers { lens: self.mask.lens(), pattern })
    }

    /// What is given, by the graph's names.
    fn of_graph<'a>(&'a self, integers: &'a Integers) -> Inputs<'a> {
        let mut inputs = Inputs::new().with("query", &self.query);
        for (name, tensor) in [("key", &self.key), ("value", &self.value), ("bias", &self.mask.bias)] {
            if let Some(tensor) = tensor {
                inputs = inputs.with(name, tensor);
            }
        }
        for (name, tensor) in [("valid_lens", &integers.lens), ("dropout", &integers.pattern)] {
            if let Some(tensor) = tensor {
                inputs = inputs.with(name, tensor);
            }
        }
        if let Some(attend_mask) = &self.mask.attend_mask {
            inputs = inputs.with("attend_mask", attend_mask);
        }
        inputs
    }
}

/// Inputs of whole numbers, as a device stores them.
struct Integers {
    lens: Option<HostTensor<u32>>,
    pattern: Option<HostTensor<u32>>,
}
