//! The layer: checked sizes and weights, from which graphs and answers come.

use std::collections::BTreeMap;

use super::build::Call;
use super::run::AttentionPlan;
use super::sizes::{HeadSizes, check_sequences, check_width};
use super::{AttentionConfig, AttentionInputs, AttentionOutput, Weights};
use crate::device::Device;
use crate::error::Error;
use crate::graph::{Graph, Inputs};
use crate::plan::PlanOptions;
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
    config: AttentionConfig,
    weights: Option<Weights>,
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
        Ok(Self { config, weights: Some(weights) })
    }

    /// Attention alone: query, key and value are used as projected heads side by side.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::NotDivisible`] for a configuration that contradicts itself.
    pub fn core(config: AttentionConfig) -> Result<Self, Error> {
        config.validate()?;
        Ok(Self { config, weights: None })
    }

    /// Heads and widths of a call with these inputs.
    ///
    /// # Errors
    /// [`Error::WrongShape`], [`Error::NotDivisible`], [`Error::OutOfRange`] where inputs, masks and layer do not
    /// agree, naming both sides.
    pub fn sizes(&self, inputs: &AttentionInputs) -> Result<HeadSizes, Error> {
        check_sequences(inputs)?;
        inputs.mask.check(inputs.key().shape().axes()[1])?;
        let Some(weights) = &self.weights else {
            return HeadSizes::of_inputs(&self.config, inputs);
        };
        check_width("W_q", &weights.w_q, "query", inputs.query())?;
        check_width("W_k", &weights.w_k, "key", inputs.key())?;
        check_width("W_v", &weights.w_v, "value", inputs.value())?;
        HeadSizes::of_weights(&self.config, weights)
    }

    /// The dispatch graph of a call with inputs of these shapes and masks of these kinds; its outputs are `output` (or
    /// `joined`, without projections) and, if asked for, `weights` (B·H, Lq, Lk).
    ///
    /// # Errors
    /// As [`sizes`](Self::sizes).
    pub fn graph(&self, inputs: &AttentionInputs, with_weights: bool) -> Result<Graph, Error> {
        let sizes = self.sizes(inputs)?;
        let scale = self.config.scale.unwrap_or_else(|| 1.0 / (sizes.head_dim as f64).sqrt());
        Call { sizes, scale, weights: self.weights.as_ref(), inputs, with_weights }.graph()
    }

    /// Compiles a call once, to be run again and again with inputs of the same shapes and masks of the same kinds.
    ///
    /// # Errors
    /// As [`sizes`](Self::sizes), and those of the device.
    pub async fn compile(
        &self,
        device: &Device,
        inputs: &AttentionInputs,
        with_weights: bool,
    ) -> Result<AttentionPlan, Error> {
        self.compile_with(device, inputs, with_weights, &PlanOptions::default()).await
    }

    /// As [`compile`](Self::compile), with a say in how the graph is computed on a GPU.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub async fn compile_with(
        &self,
        device: &Device,
        inputs: &AttentionInputs,
        with_weights: bool,
        options: &PlanOptions,
    ) -> Result<AttentionPlan, Error> {
        let graph = self.graph(inputs, with_weights)?;
        AttentionPlan::new(self, device, inputs, graph, options).await
    }

    /// Computes one call.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub async fn run(&self, device: &Device, inputs: &AttentionInputs) -> Result<AttentionOutput, Error> {
        self.compile(device, inputs, false).await?.run(inputs).await
    }

    /// Computes one call and returns the attention weights too.
    ///
    /// # Errors
    /// As [`compile`](Self::compile).
    pub async fn run_with_weights(&self, device: &Device, inputs: &AttentionInputs) -> Result<AttentionOutput, Error> {
        self.compile(device, inputs, true).await?.run(inputs).await
    }

    /// Computes one call with the CPU reference in the arithmetic of `T`: output (B, Lq, E) and weights (B, H, Lq, Lk).
    ///
    /// # Errors
    /// As [`sizes`](Self::sizes).
    pub fn reference<T: Real>(&self, inputs: &AttentionInputs) -> Result<[HostTensor<T>; 2], Error> {
        let graph = self.graph(inputs, true)?;
        let lens = inputs.mask.lens();
        let mut outputs = reference::interpret::<T>(&graph, &self.parameters(), &inputs.of_graph(lens.as_ref()))?;
        let sizes = self.sizes(inputs)?;
        let (output, weights) = super::run::take_outputs(&graph, &mut outputs, sizes.num_heads)?;
        Ok([output, weights.expect("weights were asked for, so the graph should have them")])
    }

    /// The parameters by their names in the graph.
    pub(super) fn parameters(&self) -> Inputs<'_> {
        let mut parameters = BTreeMap::new();
        if let Some(weights) = &self.weights {
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
