//! Making a plan's buffers and binding every dispatch to them.

use std::collections::BTreeMap;

use super::program::{Binding, Dispatch, Home, Places, Program, SMALLEST_BUFFER, readback_bytes};
use super::texels::Texels;
use super::{BoundStep, Tensor, summary};
use crate::error::Error;
use crate::gpu::{Gpu, PipelineSource, UNIFORM_STRIDE};
use crate::graph::{Graph, ValueId};
use crate::kernels::{self, Chosen, Slot};

/// How far apart the parameters of two dispatches lie.
const PARAMS_STRIDE: usize = UNIFORM_STRIDE as usize;

/// A binding of nothing is an error in WebGPU.
const SMALLEST_PARAMS: usize = 4;

/// All buffers of a plan.
pub(super) struct Buffers {
    /// Of inputs, parameters and outputs, the user's among them.
    pub(super) own: BTreeMap<ValueId, wgpu::Buffer>,
    /// Of intermediate values, taken in turns.
    pub(super) shared: Vec<wgpu::Buffer>,
    pub(super) readback: wgpu::Buffer,
    pub(super) texels: Texels,
    params: wgpu::Buffer,
    /// Bound where a kernel's slot stays empty: one to read, one to write.
    absent: [wgpu::Buffer; 2],
}

/// The user's tensors by the values they hold.
pub(super) type Tensors = BTreeMap<ValueId, Tensor>;

impl Buffers {
    pub(super) async fn new(
        gpu: &Gpu,
        graph: &Graph,
        program: &Program,
        tensors: &Tensors,
        places: &Places,
    ) -> Result<Self, Error> {
        use wgpu::BufferUsages as Usage;
        let mut own: BTreeMap<_, _> = tensors.iter().map(|(&id, tensor)| (id, tensor.buffer().clone())).collect();
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
            texels: Texels::new(gpu, &program.textures).await?,
            absent: [
                buffer(gpu, "mha.absent", SMALLEST_BUFFER, Usage::STORAGE).await?,
                buffer(gpu, "mha.absent output", SMALLEST_BUFFER, Usage::STORAGE).await?,
            ],
            readback: buffer(gpu, "mha.readback", readback_bytes(graph, places), Usage::MAP_READ | Usage::COPY_DST)
                .await?,
        };
        gpu.guarded("mha.params", |_| gpu.queue().write_buffer(&buffers.params, 0, &params)).await?;
        Ok(buffers)
    }

    /// Compiles the kernel of a dispatch, if nobody has, and binds its operands.
    pub(super) async fn bind(
        &self,
        gpu: &Gpu,
        graph: &Graph,
        index: usize,
        dispatch: &Dispatch,
    ) -> Result<BoundStep, Error> {
        self.check_aliases(graph, dispatch)?;
        let constants: Vec<_> =
            dispatch.launch.constants.iter().map(|&(name, value)| (name, f64::from(u8::from(value)))).collect();
        let on = dispatch.launch.constants.iter().filter(|(_, on)| *on).map(|&(name, _)| name);
        let name: Vec<_> = std::iter::once(dispatch.launch.kernel.name()).chain(on).collect();
        let wgsl = match &dispatch.launch.kernel {
            Chosen::Ours(name) => kernels::named(name).text(&dispatch.launch.text_constants),
            Chosen::Users(kernel) => kernel.wgsl.as_str().into(),
        };
        let slots: Vec<_> = dispatch.bindings.iter().map(|(slot, _)| binding_type(*slot)).collect();
        let label = format!("mha.{}", name.join(" "));
        let source = PipelineSource { label, wgsl: &wgsl, slots: &slots, constants: &constants };
        let pipeline = gpu.pipeline(&source).await?;
        let output = graph.value(graph.nodes()[dispatch.node].output);
        let block = [dispatch.block.batches.len(), dispatch.block.rows.len(), dispatch.block.cols.len()];
        let label =
            format!("mha.{} {} {}×{}×{}", dispatch.launch.kernel.name(), output.name, block[0], block[1], block[2]);
        let bind_group = gpu
            .guarded(&label, |device| {
                device.create_bind_group(&wgpu::BindGroupDescriptor {
                    label: Some(&label),
                    layout: &pipeline.layout,
                    entries: &self.entries(index, dispatch),
                })
            })
            .await?;
        let node = &graph.nodes()[dispatch.node];
        let step = BoundStep {
            label,
            about: summary::step(graph, dispatch),
            work: graph.block_work(node, &dispatch.block),
            pipeline,
            bind_group,
            workgroups: dispatch.launch.workgroups,
        };
        if let Chosen::Users(_) = &dispatch.launch.kernel {
            rehearse(gpu, &step).await?;
        }
        Ok(step)
    }

    /// WebGPU has one dispatch write no buffer that it also reads, wherever in the buffer.
    fn check_aliases(&self, graph: &Graph, dispatch: &Dispatch) -> Result<(), Error> {
        let node = &graph.nodes()[dispatch.node];
        let Some(output) = self.own.get(&node.output) else {
            return Ok(());
        };
        let mut operands = node.op.operands().into_iter().flatten();
        match operands.find(|id| self.own.get(id) == Some(output)) {
            None => Ok(()),
            Some(id) => Err(Error::Invalid(format!(
                "{} and {} lie in one buffer, but one dispatch would read the one and write the other; give them a buffer each",
                graph.value(id).name,
                graph.value(node.output).name
            ))),
        }
    }

    fn entries(&self, index: usize, dispatch: &Dispatch) -> Vec<wgpu::BindGroupEntry<'_>> {
        let params_bytes = dispatch.launch.params.len().max(SMALLEST_PARAMS) as u64;
        let params = entry(0, &self.params, (index * PARAMS_STRIDE) as u64, params_bytes);
        let operands = dispatch.bindings.iter().zip(1..).map(|((slot, binding), place)| {
            let written = matches!(slot, Slot::Write | Slot::WriteTexels);
            match (binding, slot) {
                (Binding::Buffer(home, bytes), _) => {
                    let buffer = match home {
                        Home::Own(id) => &self.own[id],
                        Home::Shared(index) => &self.shared[*index],
                    };
                    entry(place, buffer, bytes.start, bytes.end - bytes.start)
                }
                (Binding::Texels(texture), _) => texels_entry(place, self.texels.view(*texture)),
                (Binding::Absent, Slot::Read(_) | Slot::Write) => {
                    entry(place, &self.absent[usize::from(written)], 0, SMALLEST_BUFFER)
                }
                (Binding::Absent, Slot::ReadTexels(_) | Slot::WriteTexels) => {
                    texels_entry(place, self.texels.absent(written))
                }
            }
        });
        std::iter::once(params).chain(operands).collect()
    }
}

/// Records a dispatch once for nothing: whether a user's types fit the bytes that are bound to them is seen no earlier.
async fn rehearse(gpu: &Gpu, step: &BoundStep) -> Result<(), Error> {
    gpu.guarded(&step.label, |device| {
        let descriptor = wgpu::CommandEncoderDescriptor { label: Some(&step.label) };
        let mut encoder = device.create_command_encoder(&descriptor);
        super::record(&mut encoder, std::slice::from_ref(step));
        encoder.finish();
    })
    .await
}

fn entry(binding: u32, buffer: &wgpu::Buffer, offset: u64, bytes: u64) -> wgpu::BindGroupEntry<'_> {
    let resource =
        wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset, size: std::num::NonZeroU64::new(bytes) });
    wgpu::BindGroupEntry { binding, resource }
}

fn texels_entry(binding: u32, view: &wgpu::TextureView) -> wgpu::BindGroupEntry<'_> {
    wgpu::BindGroupEntry { binding, resource: wgpu::BindingResource::TextureView(view) }
}

/// What a pipeline's layout says of a slot.
fn binding_type(slot: Slot) -> wgpu::BindingType {
    let buffer = |read_only| wgpu::BindingType::Buffer {
        ty: wgpu::BufferBindingType::Storage { read_only },
        has_dynamic_offset: false,
        min_binding_size: None,
    };
    let texels = |access| wgpu::BindingType::StorageTexture {
        access,
        format: wgpu::TextureFormat::Rgba32Float,
        view_dimension: wgpu::TextureViewDimension::D2,
    };
    match slot {
        Slot::Read(_) => buffer(true),
        Slot::Write => buffer(false),
        Slot::ReadTexels(_) => texels(wgpu::StorageTextureAccess::ReadOnly),
        Slot::WriteTexels => texels(wgpu::StorageTextureAccess::WriteOnly),
    }
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
