//! A graph compiled for a device: kernels chosen, buffers made, everything bound; then run as often as you like.

mod bind;
mod overlap;
mod pace;
mod profile;
mod program;
mod rewriting;
mod run;
mod stamps;
mod summary;
mod tensor;
mod texels;
mod trace;
mod upload;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pace::Pace;
pub use pace::Progress;
pub use profile::{Clock, Profile, ProfileStep};
pub use summary::{PlanStep, PlanSummary};
pub use tensor::Tensor;

use crate::error::Error;
use crate::gpu::{DeviceProfile, Gpu, Pipeline};
use crate::graph::{Fuse, Graph, Inputs, Rewriting, Source, ValueId};
use crate::kernels::Tiles;
use crate::shape::HostTensor;
use bind::{Buffers, Tensors};
use overlap::Laid;
use program::{Place, Places, Program, SMALLEST_BUFFER};
use texels::Texels;

/// More dispatches than this are not recorded into one encoder, and not submitted at once.
const MOST_DISPATCHES: usize = 1024;

/// How to compile a graph.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Names of kernels to take wherever they apply, whatever the device's profile would choose: for tests and
    /// comparisons.
    pub preferred_kernels: Vec<&'static str>,
    /// Whether weights that only products of up to eight rows are multiplied with, as a step of decoding has them, are
    /// stored as 16-bit floats, rounded to the nearest: half as much to load, which is what such a product waits for. On
    /// GPUs; elsewhere nothing changes. A weight beyond 65,504 becomes infinite, one below 2⁻¹⁴ may become 0. By default
    /// nothing is rounded.
    pub half_weights: bool,
    /// Which tile `matmul_tiled` takes for which products: the same bits, sooner or later. By default
    /// [`Tile::usual`](crate::kernels::Tile::usual); [`Tuning`](crate::tuning::Tuning) measures.
    pub tiles: Tiles,
    /// Inputs, parameters and outputs, by name, that lie in buffers of the user's.
    pub tensors: BTreeMap<String, Tensor>,
    /// What of the graph may be computed in another way.
    pub rewriting: Rewriting,
    /// The most operations of products in one dispatch, and in a plan's first submission: a matrix product, an attention
    /// or a softmax with more is worked on in pieces. By default [`DeviceProfile::dispatch_flops`].
    pub dispatch_flops: Option<u64>,
}

impl PlanOptions {
    /// The most work of one dispatch on a device.
    fn dispatch_work(&self, profile: &DeviceProfile) -> u64 {
        self.dispatch_flops.unwrap_or(profile.dispatch_flops())
    }
}

/// A graph compiled for a device: kernels chosen, buffers made, everything bound; then run as often as you like.
///
/// A run uploads the inputs, records one compute pass, submits once (more often what takes longer than about 100 ms) and
/// reads back once; it makes no buffer, bind group or pipeline.
#[derive(Debug)]
pub struct Plan {
    gpu: Gpu,
    graph: Graph,
    /// Of inputs, parameters and outputs, the user's among them.
    own: BTreeMap<ValueId, wgpu::Buffer>,
    /// Values in buffers of the user's.
    users: BTreeSet<ValueId>,
    shared: Vec<wgpu::Buffer>,
    texels: Texels,
    steps: Vec<BoundStep>,
    readback: wgpu::Buffer,
    peak_bytes: u64,
    pace: Pace,
    running: AtomicBool,
}

/// The right to use a plan's buffers, given back when dropped.
struct Turn<'a>(&'a AtomicBool);

impl<'a> Turn<'a> {
    fn take(running: &'a AtomicBool) -> Result<Self, Error> {
        if running.swap(true, Ordering::Acquire) {
            let sentence = "the plan is running already; await that run first, or compile a plan for each";
            return Err(Error::Invalid(sentence.into()));
        }
        Ok(Self(running))
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

#[derive(Debug)]
struct BoundStep {
    label: String,
    about: PlanStep,
    /// How long it takes, in operations of a matrix product.
    work: u64,
    pipeline: Arc<Pipeline>,
    bind_group: wgpu::BindGroup,
    workgroups: [u32; 3],
}

/// What a run gives back.
#[derive(Clone, Debug)]
pub struct RunOutput {
    /// The graph's outputs, by name.
    pub outputs: BTreeMap<String, HostTensor>,
    /// Where the time went.
    pub timing: RunTiming,
}

/// Wall time of a run's three parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTiming {
    /// Handing the inputs to the queue.
    pub upload: Duration,
    /// From recording to the last byte in a readable buffer.
    pub gpu: Duration,
    /// Copying out of that buffer.
    pub readback: Duration,
}

impl Plan {
    /// Compiles `graph` for `gpu` and uploads its parameters, those in buffers of the user's left out.
    ///
    /// # Errors
    /// Those of missing or misshapen parameters and tensors; [`Error::LimitExceeded`] with the numbers where the graph
    /// does not fit the device, found before anything is allocated; [`Error::Invalid`] where tensors lie on each other
    /// and a run would need what it has written over; [`Error::Gpu`] where the driver refuses an object.
    pub async fn new(gpu: &Gpu, graph: &Graph, parameters: &Inputs<'_>, options: &PlanOptions) -> Result<Self, Error> {
        let Lowered { graph, laid, places, program } = lowered(graph, gpu.profile(), options)?;
        let tensors: Tensors = laid.iter().map(|laid| (laid.id, laid.tensor.clone())).collect();
        let users: BTreeSet<ValueId> = places.keys().copied().collect();
        let parameters = parameters.of(&graph, Source::Parameter, &users)?;
        overlap::check(&graph, &program.dispatches, &laid)?;
        let buffers = Buffers::new(gpu, &graph, &program, &tensors, &places).await?;
        let mut steps = Vec::with_capacity(program.dispatches.len());
        for (index, dispatch) in program.dispatches.iter().enumerate() {
            steps.push(buffers.bind(gpu, &graph, index, dispatch).await?);
        }
        let Buffers { own, shared, readback, texels, .. } = buffers;
        let constants = upload::constants(&graph, &parameters);
        let write = |_: &wgpu::Device| {
            for (id, value) in &constants {
                if let Some(buffer) = own.get(id) {
                    upload::write_constant(gpu.queue(), buffer, graph.value(*id).dtype, value);
                }
                texels.write(gpu.queue(), *id, value);
            }
        };
        gpu.guarded("the parameters", write).await?;
        let (peak_bytes, running) = (program.peak_bytes(), AtomicBool::new(false));
        let pace = Pace::new(options.dispatch_work(gpu.profile()));
        Ok(Self { gpu: gpu.clone(), graph, own, users, shared, texels, steps, readback, peak_bytes, pace, running })
    }

    /// The graph it was compiled from.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How many dispatches a run records.
    #[must_use]
    pub fn num_dispatches(&self) -> usize {
        self.steps.len()
    }

    /// Bytes of the plan's own buffers of parameters, inputs, outputs and intermediates together; those of the user's
    /// are not counted.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Hands new inputs to the queue, for a later [`encode`](Self::encode): what is submitted after this reads them, until
    /// the next `upload` or [`run`](Self::run), which writes its own inputs to the same buffers. Before the first the
    /// inputs are zeros.
    ///
    /// Outside a browser the future is ready at once.
    ///
    /// # Errors
    /// Those of missing or misshapen inputs; [`Error::Invalid`] while a run of this plan is not over; [`Error::Gpu`] and
    /// [`Error::DeviceLost`] where the device refuses them.
    pub async fn upload(&self, inputs: &Inputs<'_>) -> Result<(), Error> {
        let _turn = Turn::take(&self.running)?;
        let given = inputs.of(&self.graph, Source::Input, &self.users)?;
        self.gpu.guarded("the inputs", |_| upload::write_all(self.gpu.queue(), &self.own, &given)).await
    }

    /// Records the work into the user's encoder, as one compute pass: nothing is submitted, nothing read back.
    ///
    /// The encoder has to be of the plan's device, and buffers have to be there and not mapped when it is submitted.
    /// WebGPU tells of either in `finish` and `submit`, which are the caller's; of an encoder of another wgpu instance
    /// wgpu panics.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] for more dispatches than one encoder should hold; [`run`](Self::run) submits in parts.
    pub fn encode(&self, encoder: &mut wgpu::CommandEncoder) -> Result<(), Error> {
        if self.steps.len() > MOST_DISPATCHES {
            return Err(Error::LimitExceeded {
                what: "the plan".into(),
                need: self.steps.len() as u64,
                have: MOST_DISPATCHES as u64,
                unit: "dispatches",
                limit: "the most for one encoder".into(),
                hint: "use Plan::run, which submits in parts".into(),
            });
        }
        self.stage(encoder);
        record(encoder, &self.steps);
        Ok(())
    }

    /// The buffer of an input, a parameter or an output: the plan's own or the user's. Of the plan's own the tensor
    /// starts at byte 0.
    #[must_use]
    pub fn buffer(&self, name: &str) -> Option<&wgpu::Buffer> {
        self.own.iter().find(|(id, _)| self.graph.value(**id).name == name).map(|(_, buffer)| buffer)
    }

    /// Fills every buffer of the plan's own that a run writes with NaN, so that whatever a kernel forgets to write
    /// shows: for tests of kernels, one's own among them.
    ///
    /// # Errors
    /// [`Error::Gpu`] and [`Error::DeviceLost`] where the device refuses.
    pub async fn poison(&self) -> Result<(), Error> {
        let _turn = Turn::take(&self.running)?;
        let outputs = self.returned().filter_map(|id| self.own.get(&id));
        let fill = |_: &wgpu::Device| {
            for buffer in outputs.chain(&self.shared) {
                upload::fill(self.gpu.queue(), buffer, f32::NAN.to_bits());
            }
            self.texels.poison(self.gpu.queue(), &self.graph);
        };
        self.gpu.guarded("NaN in every buffer", fill).await
    }

    /// Copies the inputs that kernels read from textures there.
    fn stage(&self, encoder: &mut wgpu::CommandEncoder) {
        for (id, _) in self.graph.sources(Source::Input) {
            self.texels.stage(encoder, id, &self.own[&id], self.graph.value(id).bytes());
        }
    }

    /// The outputs that a run gives back: those in the plan's own buffers.
    fn returned(&self) -> impl Iterator<Item = ValueId> {
        self.graph.outputs().iter().copied().filter(|id| !self.users.contains(id))
    }

    /// Copies all outputs one after the other; says how many bytes they are.
    fn encode_readback(&self, encoder: &mut wgpu::CommandEncoder) -> u64 {
        let mut offset = 0;
        for id in self.returned() {
            let bytes = self.graph.value(id).bytes();
            if bytes > 0 {
                encoder.copy_buffer_to_buffer(&self.own[&self.graph.resident(id)], 0, &self.readback, offset, bytes);
            }
            offset += bytes;
        }
        offset.max(SMALLEST_BUFFER)
    }

    /// The outputs, which lie one after the other.
    fn split_outputs(&self, mut rest: &[f32]) -> Result<BTreeMap<String, HostTensor>, Error> {
        let mut outputs = BTreeMap::new();
        for id in self.returned() {
            let value = self.graph.value(id);
            let (data, behind) = rest.split_at(value.len());
            rest = behind;
            outputs.insert(value.name.clone(), HostTensor::new(value.shape.clone(), data.to_vec())?);
        }
        Ok(outputs)
    }
}

/// A graph as it is computed, where the user's tensors lie, and what is dispatched.
struct Lowered<'a> {
    graph: Graph,
    laid: Vec<Laid<'a>>,
    places: Places,
    program: Program,
}

/// Copies what has gaps and rewrites the rest as the device gains by it. What does not fit the device streaming may fit it
/// with stored scores.
fn lowered<'a>(source: &'a Graph, profile: &DeviceProfile, options: &'a PlanOptions) -> Result<Lowered<'a>, Error> {
    for (name, tensor) in &options.tensors {
        tensor.check(tensor::value_named(source, name)?.1)?;
    }
    let streamed = lowered_by(source, profile, options, options.rewriting);
    if options.rewriting.fuse == Fuse::Off || !matches!(streamed, Err(Error::LimitExceeded { .. })) {
        return streamed;
    }
    lowered_by(source, profile, options, Rewriting { fuse: Fuse::Off, ..options.rewriting }).or(streamed)
}

fn lowered_by<'a>(
    source: &'a Graph,
    profile: &DeviceProfile,
    options: &'a PlanOptions,
    rewriting: Rewriting,
) -> Result<Lowered<'a>, Error> {
    let strided = options.tensors.iter().filter_map(|(name, tensor)| Some((name.clone(), tensor.strides()?.clone())));
    let source_strided = source.with_strides(&strided.collect())?;
    let graph = rewriting::rewritten(&source_strided, profile, options, rewriting)?;
    let halves = rewriting::halves(&graph, profile, options);
    let graph = graph.with_halves(&halves);
    let laid = |(name, tensor): (&String, &'a Tensor)| {
        let (id, value) = (tensor::value_named(&graph, name)?.0, tensor::value_named(source, name)?.1);
        Ok(Laid { id, tensor, value })
    };
    let laid: Vec<_> = options.tensors.iter().map(laid).collect::<Result<_, Error>>()?;
    let place = |tensor: &Tensor| Place { offset: tensor.offset(), end: tensor.end() };
    let places = laid.iter().map(|laid| (laid.id, place(laid.tensor))).collect();
    let program = Program::new(&graph, profile, options, &places)?;
    Ok(Lowered { graph, laid, places, program })
}

/// Records dispatches as one compute pass.
fn record(encoder: &mut wgpu::CommandEncoder, steps: &[BoundStep]) {
    let descriptor = wgpu::ComputePassDescriptor { label: Some("multihead"), timestamp_writes: None };
    let mut pass = encoder.begin_compute_pass(&descriptor);
    for step in steps {
        dispatch(&mut pass, step);
    }
}

fn dispatch(pass: &mut wgpu::ComputePass<'_>, step: &BoundStep) {
    pass.set_pipeline(&step.pipeline.pipeline);
    pass.set_bind_group(0, &step.bind_group, &[]);
    let [across, down, deep] = step.workgroups;
    pass.dispatch_workgroups(across, down, deep);
}
