//! Running a compiled call, on the GPU or on the CPU.

use std::collections::BTreeMap;

use super::{AttentionInputs, CallShape, MultiHeadAttention, on_cpu};
use crate::device::Device;
use crate::error::Error;
use crate::graph::{Graph, KeyBand};
use crate::plan::{Plan, PlanOptions, Profile, Progress, RunOutput, RunTiming};
use crate::reference::Real;
use crate::shape::HostTensor;

/// What a call gives back.
#[derive(Clone, Debug)]
pub struct AttentionOutput {
    /// (B, Lq, E), or (B, Lq, H·dv) without projections.
    pub output: HostTensor,
    /// (B, H, Lq, Lk), or Lk + 1 columns with a learned key; each row with a visible key sums to 1, others are zeros.
    pub attention_weights: Option<HostTensor>,
    /// Where the time went.
    pub timing: RunTiming,
}

/// A call compiled for a device.
#[derive(Debug)]
pub struct AttentionPlan {
    engine: Engine,
    num_heads: usize,
    band: KeyBand,
    training: bool,
    returns_dropped: bool,
}

#[derive(Debug)]
enum Engine {
    Gpu(Box<Plan>),
    /// The CPU keeps the layer: its parameters are read where they are.
    Cpu {
        graph: Graph,
        layer: MultiHeadAttention,
    },
}

impl AttentionPlan {
    pub(super) async fn new(
        layer: &MultiHeadAttention,
        device: &Device,
        call: &CallShape,
        graph: Graph,
        options: &PlanOptions,
    ) -> Result<Self, Error> {
        check_no_tensors(options, "compile it with MultiHeadAttention::plan")?;
        let engine = match device {
            Device::Gpu(gpu) => {
                let plan = Plan::new(gpu, &graph, &layer.parameters(), options).await?;
                Engine::Gpu(Box::new(plan))
            }
            Device::Cpu(_) => Engine::Cpu { graph, layer: layer.clone() },
        };
        let CallShape { training, returns_dropped, .. } = *call;
        Ok(Self { engine, num_heads: layer.sizes(call)?.num_heads, band: call.band(), training, returns_dropped })
    }

    /// Whether attention streams: its scores are never stored.
    #[must_use]
    pub fn streams(&self) -> bool {
        match &self.engine {
            Engine::Gpu(plan) => plan.graph().streams(),
            Engine::Cpu { .. } => false,
        }
    }

    /// How many dispatches a run records; on the CPU, how many nodes it works off.
    #[must_use]
    pub fn num_dispatches(&self) -> usize {
        match &self.engine {
            Engine::Gpu(plan) => plan.num_dispatches(),
            Engine::Cpu { graph, .. } => graph.nodes().len(),
        }
    }

    /// Computes a call with inputs of the shapes and masks of the kinds that were compiled.
    ///
    /// # Errors
    /// [`Error::WrongShape`] and its like for other inputs; those of the device.
    pub async fn run(&self, inputs: &AttentionInputs) -> Result<AttentionOutput, Error> {
        self.run_with_progress(inputs, |_| ()).await
    }

    /// As [`run`](Self::run), and says again and again how far it has come; the last time, that all is done.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_with_progress(
        &self,
        inputs: &AttentionInputs,
        progress: impl FnMut(Progress),
    ) -> Result<AttentionOutput, Error> {
        self.check(inputs)?;
        let integers = inputs.integers()?;
        let given = inputs.of_graph(&integers);
        let run = match &self.engine {
            Engine::Gpu(plan) => plan.run_with_progress(&given, progress).await?,
            Engine::Cpu { graph, layer } => on_cpu::run(graph, layer, &given, progress)?,
        };
        self.answer(run)
    }

    /// As [`run`](Self::run), and says what each dispatch took; on the CPU, each node.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn profile(&self, inputs: &AttentionInputs) -> Result<(AttentionOutput, Profile), Error> {
        self.check(inputs)?;
        let integers = inputs.integers()?;
        let given = inputs.of_graph(&integers);
        let (run, profile) = match &self.engine {
            Engine::Gpu(plan) => plan.profile(&given).await?,
            Engine::Cpu { graph, layer } => on_cpu::profile(graph, layer, &given)?,
        };
        Ok((self.answer(run)?, profile))
    }

    /// Whether inputs fit what was compiled, beyond what the graph says.
    fn check(&self, inputs: &AttentionInputs) -> Result<(), Error> {
        let call = inputs.call_shape();
        let band = call.band();
        if (call.training, call.returns_dropped) != (self.training, self.returns_dropped) {
            let told = |[training, dropped]: [bool; 2]| match (training, dropped) {
                (false, _) => "evaluation",
                (true, false) => "training that returns weights before dropout",
                (true, true) => "training that returns weights after dropout",
            };
            return Err(Error::Invalid(format!(
                "the plan was compiled for {}, but the inputs want {}; compile a plan for them",
                told([self.training, self.returns_dropped]),
                told([call.training, call.returns_dropped])
            )));
        }
        if band != self.band {
            return Err(Error::Invalid(format!(
                "the plan was compiled for {}, but the inputs want {}; compile a plan for them",
                self.band, band
            )));
        }
        inputs.check_lens()
    }

    fn answer(&self, mut run: RunOutput) -> Result<AttentionOutput, Error> {
        let graph = match &self.engine {
            Engine::Gpu(plan) => plan.graph(),
            Engine::Cpu { graph, .. } => graph,
        };
        let (output, attention_weights) = take_outputs(graph, &mut run.outputs, self.num_heads)?;
        Ok(AttentionOutput { output, attention_weights, timing: run.timing })
    }
}

/// Refuses tensors of the caller's for a plan that has no place for them; `advice` says what to do.
pub(super) fn check_no_tensors(options: &PlanOptions, advice: &str) -> Result<(), Error> {
    if options.tensors.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = options.tensors.keys().map(String::as_str).collect();
    Err(Error::Invalid(format!(
        "{} would lie in buffers of the caller's, but this plan takes inputs from the host and gives outputs back; {advice}",
        names.join(", ")
    )))
}

/// The output, and the weights (B·H, Lq, Lk) as (B, H, Lq, Lk) without the mark of hidden keys.
pub(super) fn take_outputs<T: Real>(
    graph: &Graph,
    outputs: &mut BTreeMap<String, HostTensor<T>>,
    num_heads: usize,
) -> Result<(HostTensor<T>, Option<HostTensor<T>>), Error> {
    let mut taken = graph.outputs().iter().filter_map(|&id| outputs.remove(&graph.value(id).name));
    let output = taken.next().ok_or_else(|| Error::Invalid("the graph has no output".into()))?;
    let weights = taken.next().map(|weights| {
        let axes = weights.shape().axes();
        let shape = [axes[0] / num_heads, num_heads, axes[1], axes[2]];
        // −0 + 0 is 0; every other number stays what it is.
        let data = weights.into_data().into_iter().map(|weight| weight + T::zero()).collect();
        HostTensor::new(shape, data)
    });
    Ok((output, weights.transpose()?))
}
