//! A graph compiled for a device: kernels chosen, buffers made, everything bound; then run as often as you like.

mod program;
mod summary;
mod upload;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

pub use summary::{PlanStep, PlanSummary};
use web_time::Instant;

use crate::error::Error;
use crate::gpu::{Gpu, Pipeline, PipelineSource};
use crate::graph::{Graph, Inputs, Source, ValueId};
use crate::kernels;
use crate::shape::HostTensor;
use program::{Dispatch, Home, Program, SMALLEST_BUFFER, readback_bytes};

/// How far apart the parameters of two dispatches lie: WebGPU's guaranteed alignment of uniform bindings.
const PARAMS_STRIDE: usize = 256;

/// How to compile a graph.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Names of kernels to take wherever they apply, whatever the device's profile would choose: for tests and
    /// comparisons.
    pub preferred_kernels: Vec<&'static str>,
}

/// A graph compiled for a device: kernels chosen, buffers made, everything bound; then run as often as you like.
///
/// A run uploads the inputs, records one compute pass, submits once and reads back once; it makes no buffer, bind group
/// or pipeline.
#[derive(Debug)]
pub struct Plan {
    gpu: Gpu,
    graph: Graph,
    own: BTreeMap<ValueId, wgpu::Buffer>,
    shared: Vec<wgpu::Buffer>,
    steps: Vec<BoundStep>,
    readback: wgpu::Buffer,
    peak_bytes: u64,
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
    pipeline: Arc<Pipeline>,
    bind_group: wgpu::BindGroup,
    workgroups: [u32; 2],
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
    /// Compiles `graph` for `gpu` and uploads its parameters.
    ///
    /// # Errors
    /// Those of missing or misshapen parameters; [`Error::LimitExceeded`] with the numbers where the graph does not
    /// fit the device, found before anything is allocated; [`Error::Gpu`] where the driver refuses an object.
    pub async fn new(gpu: &Gpu, graph: &Graph, parameters: &Inputs<'_>, options: &PlanOptions) -> Result<Self, Error> {
        let parameters = parameters.of(graph, Source::Parameter)?;
        let program = Program::new(graph, gpu.profile(), &options.preferred_kernels)?;
        let buffers = Buffers::new(gpu, graph, &program).await?;
        let mut steps = Vec::with_capacity(program.dispatches.len());
        for (index, dispatch) in program.dispatches.iter().enumerate() {
            steps.push(buffers.bind(gpu, graph, index, dispatch).await?);
        }
        let Buffers { own, shared, readback, .. } = buffers;
        for (id, _, value) in parameters {
            upload::write(gpu.queue(), &own[&id], value);
        }
        gpu.check()?;
        let peak_bytes = program.peak_bytes();
        Ok(Self {
            gpu: gpu.clone(),
            graph: graph.clone(),
            own,
            shared,
            steps,
            readback,
            peak_bytes,
            running: AtomicBool::new(false),
        })
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

    /// Bytes of the buffers of parameters, inputs, outputs and intermediates together.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Computes the graph's outputs for new inputs.
    ///
    /// # Errors
    /// Those of missing or misshapen inputs; [`Error::Invalid`] while another run of this plan is not
    /// over; [`Error::DeviceLost`] and [`Error::Gpu`] where the device failed.
    pub async fn run(&self, inputs: &Inputs<'_>) -> Result<RunOutput, Error> {
        let inputs = inputs.of(&self.graph, Source::Input)?;
        let _turn = Turn::take(&self.running)?;
        let start = Instant::now();
        for (id, _, value) in inputs {
            upload::write(self.gpu.queue(), &self.own[&id], value);
        }
        let uploaded = Instant::now();
        let mut encoder =
            self.gpu.device().create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("multihead.run") });
        self.encode(&mut encoder);
        let bytes = self.encode_readback(&mut encoder);
        self.gpu.queue().submit([encoder.finish()]);
        let mapped = self.gpu.map(&self.readback, bytes).await?;
        let computed = Instant::now();
        let outputs = self.split_outputs(&mapped.words()?)?;
        let timing = RunTiming { upload: uploaded - start, gpu: computed - uploaded, readback: computed.elapsed() };
        Ok(RunOutput { outputs, timing })
    }

    /// Fills every buffer that a run writes with NaN, so that a test sees whatever a run forgets to write.
    pub fn poison(&self) {
        let outputs = self.graph.outputs().iter().filter_map(|id| self.own.get(id));
        for buffer in outputs.chain(&self.shared) {
            upload::fill(self.gpu.queue(), buffer, f32::NAN.to_bits());
        }
    }

    fn encode(&self, encoder: &mut wgpu::CommandEncoder) {
        let mut pass = encoder
            .begin_compute_pass(&wgpu::ComputePassDescriptor { label: Some("multihead"), timestamp_writes: None });
        for step in &self.steps {
            pass.insert_debug_marker(&step.label);
            pass.set_pipeline(&step.pipeline.pipeline);
            pass.set_bind_group(0, &step.bind_group, &[]);
            let [across, down] = step.workgroups;
            pass.dispatch_workgroups(across, down, 1);
        }
    }

    /// Copies all outputs one after the other; says how many bytes they are.
    fn encode_readback(&self, encoder: &mut wgpu::CommandEncoder) -> u64 {
        let mut offset = 0;
        for id in self.graph.outputs() {
            let bytes = self.graph.value(*id).bytes();
            if bytes > 0 {
                encoder.copy_buffer_to_buffer(&self.own[id], 0, &self.readback, offset, bytes);
            }
            offset += bytes;
        }
        offset.max(SMALLEST_BUFFER)
    }

    /// The outputs, which lie one after the other.
    fn split_outputs(&self, mut rest: &[f32]) -> Result<BTreeMap<String, HostTensor>, Error> {
        let mut outputs = BTreeMap::new();
        for &id in self.graph.outputs() {
            let value = self.graph.value(id);
            let (data, behind) = rest.split_at(value.len());
            rest = behind;
            outputs.insert(value.name.clone(), HostTensor::new(value.shape.clone(), data.to_vec())?);
        }
        Ok(outputs)
    }
}

/// All buffers of a plan.
struct Buffers {
    own: BTreeMap<ValueId, wgpu::Buffer>,
    shared: Vec<wgpu::Buffer>,
    params: wgpu::Buffer,
    absent: wgpu::Buffer,
    readback: wgpu::Buffer,
}

impl Buffers {
    async fn new(gpu: &Gpu, graph: &Graph, program: &Program) -> Result<Self, Error> {
        use wgpu::BufferUsages as Usage;
        let mut own = BTreeMap::new();
        for &(id, bytes) in &program.own {
            let value = graph.value(id);
            let label = format!("mha.{} {}", value.name, value.shape);
            own.insert(id, buffer(gpu, &label, bytes, Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC).await?);
        }
        let mut shared = Vec::new();
        for (index, &bytes) in program.shared.iter().enumerate() {
            let label = format!("mha.shared {index} {bytes} bytes");
            shared.push(buffer(gpu, &label, bytes, Usage::STORAGE | Usage::COPY_DST).await?);
        }
        let params = params(program);
        let buffers = Self {
            own,
            shared,
            params: buffer(gpu, "mha.params", params.len() as u64, Usage::UNIFORM | Usage::COPY_DST).await?,
            absent: buffer(gpu, "mha.absent", SMALLEST_BUFFER, Usage::STORAGE).await?,
            readback: buffer(gpu, "mha.readback", readback_bytes(graph), Usage::MAP_READ | Usage::COPY_DST).await?,
        };
        gpu.queue().write_buffer(&buffers.params, 0, &params);
        Ok(buffers)
    }

    async fn bind(&self, gpu: &Gpu, graph: &Graph, index: usize, dispatch: &Dispatch) -> Result<BoundStep, Error> {
        let kernel = kernels::named(dispatch.launch.kernel);
        let constants: Vec<_> =
            dispatch.launch.constants.iter().map(|&(name, value)| (name, f64::from(u8::from(value)))).collect();
        let on = dispatch.launch.constants.iter().filter(|(_, on)| *on).map(|&(name, _)| name);
        let name: Vec<_> = std::iter::once(kernel.name).chain(on).collect();
        let pipeline = gpu
            .pipeline(&PipelineSource {
                label: format!("mha.{}", name.join(" ")),
                wgsl: kernel.wgsl,
                num_reads: kernel.num_reads,
                constants: &constants,
            })
            .await?;
        let output = graph.value(graph.nodes()[dispatch.node].output);
        let block = [dispatch.block.batches.len(), dispatch.block.rows.len(), dispatch.block.cols.len()];
        let label = format!("mha.{} {} {}×{}×{}", kernel.op, output.name, block[0], block[1], block[2]);
        let bind_group = gpu
            .guarded(&label, |device| {
                device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: Some(&label),
                    layout: &pipeline.layout,
                    entries: &self.entries(index, dispatch),
                })
            })
            .await?;
        Ok(BoundStep { label, pipeline, bind_group, workgroups: dispatch.launch.workgroups })
    }

    fn entries(&self, index: usize, dispatch: &Dispatch) -> Vec<wgpu::BindGroupEntry<'_>> {
        let params = entry(0, &self.params, (index * PARAMS_STRIDE) as u64, dispatch.launch.params.len() as u64);
        let operands = dispatch.bindings.iter().zip(1..).map(|(binding, place)| {
            let buffer = match binding.home {
                None => &self.absent,
                Some(Home::Own(id)) => &self.own[&id],
                Some(Home::Shared(index)) => &self.shared[index],
            };
            entry(place, buffer, binding.bytes.start, binding.bytes.end - binding.bytes.start)
        });
        std::iter::once(params).chain(operands).collect()
    }
}

fn entry(binding: u32, buffer: &wgpu::Buffer, offset: u64, bytes: u64) -> wgpu::BindGroupEntry<'_> {
    let resource =
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size: std::num::NonZeroU64::new(bytes) });
    wgpu::BindGroupEntry { binding, resource }
}

async fn buffer(gpu: &Gpu, label: &str, size: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer, Error> {
    let descriptor = wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false };
    gpu.guarded(label, |device| device.create_buffer(&descriptor)).await
}

/// The parameters of all dispatches, each at its own multiple of the stride.
fn params(program: &Program) -> Vec<u8> {
    let mut bytes = vec![0; (program.dispatches.len().max(1)) * PARAMS_STRIDE];
    for (slot, dispatch) in bytes.chunks_exact_mut(PARAMS_STRIDE).zip(&program.dispatches) {
        slot[..dispatch.launch.params.len()].copy_from_slice(&dispatch.launch.params);
    }
    bytes
}
