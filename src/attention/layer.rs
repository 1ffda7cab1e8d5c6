//! The layer: checked sizes and weights, from which graphs and answers come.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use super::build::Call;
use super::run::AttentionPlan;
use super::sizes::{HeadSizes, check_sequences, check_width};
use super::{AttentionConfig, AttentionInputs, AttentionOutput, CallShape, Weights};
use crate::device::Device;
use crate::error::Error;
use crate::gpu::Gpu;
use crate::graph::{Graph, Inputs};
use crate::plan::{Plan, PlanOptions};
use crate::reference::{self, Real};
use crate::shape::HostTensor;

/// Multi-head attention (Vaswani et al. 2017, §3.2.2; D2L §10.3) with or without projections.
///
/// # Example
/// ```
/// use multihead::{AttentionConfig, AttentionInputs, Device, DeviceChoice, HostTensor, MultiHeadAttention};
/// let attention = MultiHeadAttention::core(AttentionConfig::new(2))?;
/// let query = HostTensor::new([1, 2, 4], vec![1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0])?; // (B, L, H·d)
/// # pollster::block_on(async {
/// let device = Device::open(&DeviceChoice::Cpu).await?;
/// let result = attention.run(&device, &AttentionInputs::self_attention(query)).await?;
/// assert_eq!(result.output.shape(), &[1, 2, 4]);
/// # Ok::<(), multihead::Error>(()) })?;
/// # Ok::<(), multihead::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MultiHeadAttention {
    /// Clones share it: plans on the CPU keep the layer, and a cache knows it again.
    parts: Arc<Parts>,
}

#[derive(Debug, PartialEq)]
struct Parts {
    config: AttentionConfig,
    weights: Option<Weights>,
}

/// By which a cache knows its layer again; it keeps no weights.
#[derive(Clone, Debug)]
pub(super) struct LayerMark(Weak<Parts>);

impl LayerMark {
    pub(super) fn is_of(&self, layer: &MultiHeadAttention) -> bool {
        self.0.as_ptr() == Arc::as_ptr(&layer.parts)
    }
}

impl MultiHeadAttention {
    /// A layer with projections.
    ///
    /// # Errors
    /// [`Error::NotDivisible`], [`Error::OutOfRange`], [`Error::WrongShape`] where configuration and weights do not
    /// agree, naming both numbers.
    pub fn new(config: AttentionConfig, weights: Weights) -> Result<Self, Error> {
        config.validate()?;
        HeadSizes::of_weights(&config, &weights)?;
        Ok(Self { parts: Arc::new(Parts { config, weights: Some(weights) }) })
    }

    /// Attention alone: query, key and value are used as projected heads side by side.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::NotDivisible`] for a configuration that contradicts itself.
    pub fn core(config: AttentionConfig) -> Result<Self, Error> {
        config.validate()?;
        Ok(Self { parts: Arc::new(Parts { config, weights: None }) })
    }

    pub(super) fn mark(&self) -> LayerMark {
        LayerMark(Arc::downgrade(&self.parts))
    }

    /// The projections; `None` = core attention.
    #[must_use]
    pub fn weights(&self) -> Option<&Weights> {
        self.parts.weights.as_ref()
    }

    /// Heads and widths of a call of this shape.
    ///
    /// # Errors
    /// [`Error::WrongShape`], [`Error::NotDivisible`], [`Error::OutOfRange`] where inputs and layer do not agree,
    /// naming both sides.
    pub fn sizes(&self, call: &CallShape) -> Result<HeadSizes, Error> {
        check_sequences(call)?;
        call.check_window()?;
        let Some(weights) = &self.parts.weights else {
            return HeadSizes::of_call(&self.parts.config, call);
        };
        check_width("W_q", &weights.w_q, "query", &call.query)?;
        check_width("W_k", &weights.w_k, "key", call.key())?;
        check_width("W_v", &weights.w_v, "value", call.value())?;
        HeadSizes::of_weights(&self.parts.config, weights)
    }

    /// Whether a call with these inputs can be computed: shapes, masks, lengths, dropout.
    ///
    /// # Errors
    /// As [`graph`](Self::graph); [`Error::OutOfRange`] for a length beyond the keys, or a probability
    /// that is none.
    pub fn check(&self, inputs: &AttentionInputs) -> Result<(), Error> {
        self.graph(&inputs.call_shape(), false)?;
        inputs.check_lens()?;
        inputs.integers().map(|_| ())
    }

    /// The dispatch graph of a call of this shape; its outputs are `output` (or `joined`, without projections) and, if
    /// asked for, `weights` (B·H, Lq, Lk).
    ///
    /// # Errors
    /// As [`sizes`](Self::sizes), and [`Error::WrongShape`] for a mask of a shape that is not in the list.
    pub fn graph(&self, call: &CallShape, with_weights: bool) -> Result<Graph, Error> {
        let sizes = self.sizes(call)?;
        let scale = self.scale(sizes.head_dim);
        Call { sizes, scale, weights: self.parts.weights.as_ref(), shape: call, with_weights }.graph()
    }

    /// What scores are multiplied with.
    pub(super) fn scale(&self, head_dim: usize) -> f64 {
        self.parts.config.scale.unwrap_or_else(|| 1.0 / (head_dim as f64).sqrt())
    }

    /// Compiles a call once, to be run again and again with inputs of this shape.
    ///
    /// # Errors
    /// As [`graph`](Self::graph), and those of the device.
    pub async fn compile(&self, device: &Device, call: &CallShape, with_weights: bool) -> Result<AttentionPlan, Error> {
        self.compile_with(device, call, with_weights, &PlanOptions::default()).await
    }

    /// As [`compile`](Self::compile), with a say in how the graph is computed on a GPU.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub async fn compile_with(
        &self,
        device: &Device,
        call: &CallShape,
        with_weights: bool,
        options: &PlanOptions,
    ) -> Result<AttentionPlan, Error> {
        AttentionPlan::new(self, device, call, self.graph(call, with_weights)?, options).await
    }

    /// Compiles a call for a GPU as a plan of its own, with inputs and outputs in the user's buffers where `options`
    /// says so. Its values are those of [`graph`](Self::graph): `query`, `key`, `value`, `valid_lens`, `attend_mask`,
    /// `bias`, `dropout`, `output` or `joined`, and `weights`, where a hidden key's weight is −0.
    ///
    /// # Errors
    /// As [`graph`](Self::graph) and [`Plan::new`].
    pub async fn plan(
        &self,
        gpu: &Gpu,
        call: &CallShape,
        with_weights: bool,
        options: &PlanOptions,
    ) -> Result<Plan, Error> {
        let parameters = self.parameters().without(options.tensors.keys());
        Plan::new(gpu, &self.graph(call, with_weights)?, &parameters, options).await
    }

    /// Computes one call.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub async fn run(&self, device: &Device, inputs: &AttentionInputs) -> Result<AttentionOutput, Error> {
        self.compile(device, &inputs.call_shape(), false).await?.run(inputs).await
    }

    /// Computes one call and returns the attention weights too.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub async fn run_with_weights(&self, device: &Device, inputs: &AttentionInputs) -> Result<AttentionOutput, Error> {
        self.compile(device, &inputs.call_shape(), true).await?.run(inputs).await
    }

    /// Computes one call with the CPU reference in the arithmetic of `T`: output (B, Lq, E) and weights (B, H, Lq, Lk).
    ///
    /// # Errors
    /// As [`sizes`](Self::sizes).
    pub fn reference<T: Real>(&self, inputs: &AttentionInputs) -> Result<[HostTensor<T>; 2], Error> {
        let call = inputs.call_shape();
        let graph = self.graph(&call, true)?;
        inputs.check_lens()?;
        let integers = inputs.integers()?;
        let mut outputs = reference::interpret::<T>(&graph, &self.parameters(), &inputs.of_graph(&integers))?;
        let sizes = self.sizes(&call)?;
        let (output, weights) = super::run::take_outputs(&graph, &mut outputs, sizes.num_heads)?;
        Ok([output, weights.expect("weights were asked for, so the graph should have them")])
    }

    /// The parameters by their names in the graph.
    pub(super) fn parameters(&self) -> Inputs<'_> {
        let mut parameters = BTreeMap::new();
        if let Some(weights) = &self.parts.weights {
            let linears = [
                (["W_q", "b_q"], &weights.w_q),
                (["W_k", "b_k"], &weights.w_k),
                (["W_v", "b_v"], &weights.w_v),
                (["W_o", "b_o"], &weights.w_o),
            ];
            for ([weight, bias], linear) in linears {
                parameters.insert(weight, Some(&linear.weight));
                parameters.insert(bias, linear.bias.as_ref());
            }
            parameters.insert("bias_k", weights.bias_k.as_ref());
            parameters.insert("bias_v", weights.bias_v.as_ref());
        }
        let given = parameters.into_iter().filter_map(|(name, tensor)| Some((name, tensor?)));
        given.fold(Inputs::new(), |inputs, (name, tensor)| inputs.with(name, tensor))
    }
}
