//! A call whose output comes apart into what each head adds.

use std::collections::BTreeMap;

use super::run::take_outputs;
use super::{AttentionInputs, MultiHeadAttention, Weights};
use crate::device::Device;
use crate::error::Error;
use crate::graph::{Graph, GraphBuilder, Inputs, Matmul, ValueId};
use crate::plan::{Plan, PlanOptions};
use crate::reference;
use crate::shape::HostTensor;

/// The output projection once for each batch entry: more bytes than this are refused.
const MOST_BYTES: u64 = 1 << 30;

/// The graph's names of what is added to it.
const W_O_BY_HEAD: &str = "W_o_by_head";
const CONTRIBUTIONS: &str = "contributions";

/// An output, and the parts that it is the sum of.
#[derive(Clone, Debug)]
pub struct OutputByHead {
    /// (B, Lq, E), or (B, Lq, H·dv) without projections.
    pub output: HostTensor,
    /// (B, H, Lq, Lk), as in [`AttentionOutput`](super::AttentionOutput).
    pub attention_weights: HostTensor,
    /// (B, H, Lq, E): each head's values times its columns of `W_o`. With the bias of `W_o` they sum to the output.
    /// Without projections (B, H, Lq, dv): the heads themselves, which stand side by side in the output.
    pub contributions: HostTensor,
    /// Whether the contributions are summed (there is a `W_o`) or stand side by side.
    pub summed: bool,
}

impl MultiHeadAttention {
    /// Computes one call together with what each head adds to its output: one graph, one run, all heads in one batch.
    ///
    /// # Errors
    /// As [`compile`](Self::compile); [`Error::LimitExceeded`] where `W_o`, repeated for each batch entry, would take
    /// more than a gibibyte.
    ///
    /// # Example
    /// ```
    /// use multihead::{AttentionConfig, AttentionInputs, Device, DeviceChoice, HostTensor, MultiHeadAttention};
    /// let attention = MultiHeadAttention::core(AttentionConfig::new(2))?;
    /// let query = HostTensor::new([1, 1, 4], vec![1.0, 2.0, 3.0, 4.0])?; // one token, two heads of width 2
    /// # pollster::block_on(async {
    /// let device = Device::open(&DeviceChoice::Cpu).await?;
    /// let by_head = attention.run_by_head(&device, &AttentionInputs::self_attention(query)).await?;
    /// assert_eq!(by_head.contributions.shape(), &[1, 2, 1, 2]); // (B, H, Lq, dv)
    /// assert_eq!(by_head.contributions.data(), [1.0, 2.0, 3.0, 4.0]);
    /// # Ok::<(), multihead::Error>(()) })?;
    /// # Ok::<(), multihead::Error>(())
    /// ```
    pub async fn run_by_head(&self, device: &Device, inputs: &AttentionInputs) -> Result<OutputByHead, Error> {
        self.check(inputs)?;
        let call = inputs.call_shape();
        let sizes = self.sizes(&call)?;
        let batch = call.query.axes()[0];
        let by_head =
            self.weights().map(|weights| output_weight_by_head(weights, sizes.num_heads, batch)).transpose()?;
        let graph = with_contributions(self.graph(&call, true)?, by_head.as_ref())?;
        let parameters = by_head.iter().fold(self.parameters(), |given, weight| given.with(W_O_BY_HEAD, weight));
        let integers = inputs.integers()?;
        let mut outputs = computed(device, &graph, &parameters, &inputs.of_graph(&integers)).await?;
        let (output, attention_weights) = take_outputs(&graph, &mut outputs, sizes.num_heads)?;
        let parts = outputs.into_values().next().expect("the graph should have a third output");
        let [rows, width] = [parts.shape().axes()[1], parts.shape().axes()[2]];
        Ok(OutputByHead {
            output,
            attention_weights: attention_weights.expect("the graph's second output should be the weights"),
            contributions: HostTensor::new([batch, sizes.num_heads, rows, width], parts.into_data())?,
            summed: by_head.is_some(),
        })
    }
}

async fn computed(
    device: &Device,
    graph: &Graph,
    parameters: &Inputs<'_>,
    inputs: &Inputs<'_>,
) -> Result<BTreeMap<String, HostTensor>, Error> {
    match device {
        Device::Gpu(gpu) => {
            let plan = Plan::new(gpu, graph, parameters, &PlanOptions::default()).await?;
            Ok(plan.run(inputs).await?.outputs)
        }
        Device::Cpu(_) => reference::interpret(graph, parameters, inputs),
    }
}

/// The call's graph with a third output: (B·H, Lq, E), or the heads (B·H, Lq, dv) where there is no `W_o`.
fn with_contributions(graph: Graph, by_head: Option<&HostTensor>) -> Result<Graph, Error> {
    let outputs = graph.outputs().to_vec();
    let heads = value_named(&graph, "heads");
    let mut builder = GraphBuilder::continuing(graph);
    let parts = match by_head {
        None => heads,
        Some(weight) => {
            let rhs = builder.parameter(W_O_BY_HEAD, weight.shape().clone())?;
            let op = Matmul { transpose_rhs: true, ..Matmul::of(heads, rhs) };
            builder.matmul(CONTRIBUTIONS, op)?
        }
    };
    Ok(builder.finish(&[outputs[0], outputs[1], parts]))
}

fn value_named(graph: &Graph, name: &str) -> ValueId {
    let found = graph.values().find(|(_, value)| value.name == name);
    found.expect("the graph of a call should have its heads").0
}

/// `W_o` (E, H·dv) as (B·H, E, dv), the same for each batch entry: `out[b·H + h][e][j] = W_o[e][h·dv + j]`.
fn output_weight_by_head(weights: &Weights, num_heads: usize, batch: usize) -> Result<HostTensor, Error> {
    let weight = &weights.w_o.weight;
    let &[num_hiddens, width] = weight.shape().axes() else {
        unreachable!("the layer should have checked W_o");
    };
    let need = (weight.data().len() as u64).saturating_mul(4 * batch as u64);
    if need > MOST_BYTES {
        return Err(Error::LimitExceeded {
            what: format!("W_o {} for each of {batch} batch entries", weight.shape()),
            need,
            have: MOST_BYTES,
            unit: "bytes",
            limit: "the most for what each head adds".into(),
            hint: "give fewer batch entries at once".into(),
        });
    }
    let value_dim = width / num_heads;
    let mut one = Vec::with_capacity(weight.data().len());
    for head in 0..num_heads {
        for row in weight.data().chunks_exact(width.max(1)) {
            one.extend_from_slice(&row[head * value_dim..(head + 1) * value_dim]);
        }
    }
    HostTensor::new([batch * num_heads, num_hiddens, value_dim], one.repeat(batch))
}
