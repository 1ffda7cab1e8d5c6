//! Attention inside another wgpu program: its device, its buffers, its encoder, between its own passes.
//!
//! The program fills a buffer on the GPU, attention reads it where it lies, and a pass of the program adds the result
//! to what it had (a residual connection): one encoder, one submission, nothing read back in between.
//! `cargo run --release --example your_device`

use std::error::Error;

use multihead::{
    AttentionConfig, CallShape, Gpu, HostTensor, Linear, MultiHeadAttention, PlanOptions, Tensor, Weights,
};

const BATCH: usize = 2;
const LENGTH: usize = 16;
const WIDTH: usize = 32;

/// The program's own shaders: one before attention, one after.
const WAVES: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] = sin(f32(id.x) * 0.37); }
    }";
const RESIDUAL: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> attended: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&x) { x[id.x] += attended[id.x]; }
    }";

fn main() -> Result<(), Box<dyn Error>> {
    // The program's own device, buffers and pipelines.
    let (device, queue) = pollster::block_on(open())?;
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
    let [x, attended] = ["x", "attended"].map(|label| buffer(&device, label, usage));
    let (waves, residual) = (pipeline(&device, WAVES), pipeline(&device, RESIDUAL));

    // Attention on it: `x` is its query, `attended` its output. Nothing is installed on the device.
    let gpu = Gpu::adopt(&device, &queue)?;
    let tensors = [("query".into(), Tensor::new(&x)), ("output".into(), Tensor::new(&attended))].into();
    let options = PlanOptions { tensors, ..PlanOptions::default() };
    let call = CallShape { causal: true, ..CallShape::self_attention([BATCH, LENGTH, WIDTH]) };
    let plan = pollster::block_on(layer()?.plan(&gpu, &call, false, &options))?;

    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: Some("a frame") });
    dispatch(&device, &mut encoder, &waves, &[&x]);
    plan.encode(&mut encoder)?;
    dispatch(&device, &mut encoder, &residual, &[&x, &attended]);
    queue.submit([encoder.finish()]);

    println!("on {}, {} dispatches of attention", gpu.profile().name, plan.num_dispatches());
    println!("x + attention(x), first row: {:.3?} …", &read(&device, &queue, &x)?[..8]);
    Ok(())
}

async fn open() -> Result<(wgpu::Device, wgpu::Queue), Box<dyn Error>> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = instance.request_adapter(&wgpu::RequestAdapterOptions::default()).await?;
    Ok(adapter.request_device(&wgpu::DeviceDescriptor::default()).await?)
}

/// Four heads with weights that are waves too.
fn layer() -> Result<MultiHeadAttention, multihead::Error> {
    let linear = |phase: f32| {
        let weight = (0..WIDTH * WIDTH).map(|i| (i as f32 * 0.73 + phase).sin() / (WIDTH as f32).sqrt()).collect();
        Ok(Linear { weight: HostTensor::new([WIDTH, WIDTH], weight)?, bias: None })
    };
    let [w_q, w_k, w_v, w_o] = [linear(0.1)?, linear(0.2)?, linear(0.3)?, linear(0.4)?];
    let weights = Weights { w_q, w_k, w_v, w_o, bias_k: None, bias_v: None };
    MultiHeadAttention::new(AttentionConfig::new(4), weights)
}

fn buffer(device: &wgpu::Device, label: &str, usage: wgpu::BufferUsages) -> wgpu::Buffer {
    let size = (BATCH * LENGTH * WIDTH * 4) as u64;
    device.create_buffer(&wgpu::BufferDescriptor { label: Some(label), size, usage, mapped_at_creation: false })
}

fn pipeline(device: &wgpu::Device, wgsl: &str) -> wgpu::ComputePipeline {
    let source = wgpu::ShaderSource::Wgsl(wgsl.into());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    })
}

/// One of the program's own passes over all elements.
fn dispatch(
    device: &wgpu::Device,
    encoder: &mut wgpu::CommandEncoder,
    pipeline: &wgpu::ComputePipeline,
    buffers: &[&wgpu::Buffer],
) {
    let entries: Vec<_> = (0..)
        .zip(buffers)
        .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
        .collect();
    let layout = pipeline.get_bind_group_layout(0);
    let group =
        device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &layout, entries: &entries });
    let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
    pass.set_pipeline(pipeline);
    pass.set_bind_group(0, &group, &[]);
    pass.dispatch_workgroups(16, 1, 1); // 16 · 64 invocations for 2·16·32 elements
}

/// Brings a buffer's numbers to the host.
fn read(device: &wgpu::Device, queue: &wgpu::Queue, source: &wgpu::Buffer) -> Result<Vec<f32>, Box<dyn Error>> {
    let readable = buffer(device, "readable", wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST);
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    encoder.copy_buffer_to_buffer(source, 0, &readable, 0, source.size());
    queue.submit([encoder.finish()]);
    readable.map_async(wgpu::MapMode::Read, .., |_| {});
    device.poll(wgpu::PollType::wait_indefinitely())?;
    let view = readable.get_mapped_range(..)?;
    Ok(bytemuck::pod_collect_to_vec(&view))
}
