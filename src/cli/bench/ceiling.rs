//! What the device's shaders can do at most: a loop of nothing but multiplications and additions.

use multihead::Gpu;
use wgpu::util::DeviceExt;

use super::measure::median;

/// Rounds of the loop, about 0.1 s of two cores; operations of one round of one invocation: 4 vectors × 4 words × 4 times × 2.
const ROUNDS: u32 = 1024;
const OPERATIONS: u64 = 128;
const WORKGROUPS: u32 = 1024;
const WORKGROUP: u64 = 64;
/// What counts; two before it only warm up.
const TIMED: usize = 9;
const WARM_UP: usize = 2;

/// Billions of operations a second, a median.
pub(super) fn gflops(gpu: &Gpu) -> f64 {
    let device = gpu.device();
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("bench.ceiling"),
        source: wgpu::ShaderSource::Wgsl(include_str!("ceiling.wgsl").into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some("bench.ceiling"),
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions::default(),
        cache: None,
    });
    let rounds = device.create_buffer_init(&wgpu::util::BufferInitDescriptor {
        label: Some("bench.rounds"),
        contents: bytemuck::bytes_of(&ROUNDS),
        usage: wgpu::BufferUsages::STORAGE,
    });
    let out = device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("bench.out"),
        size: u64::from(WORKGROUPS) * WORKGROUP * 16,
        usage: wgpu::BufferUsages::STORAGE,
        mapped_at_creation: false,
    });
    let bind_group = device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: Some("bench.ceiling"),
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[
            wgpu::BindGroupEntry { binding: 0, resource: rounds.as_entire_binding() },
            wgpu::BindGroupEntry { binding: 1, resource: out.as_entire_binding() },
        ],
    });
    let once = || {
        let start = web_time::Instant::now();
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(&pipeline);
            pass.set_bind_group(0, &bind_group, &[]);
            pass.dispatch_workgroups(WORKGROUPS, 1, 1);
        }
        gpu.queue().submit([encoder.finish()]);
        // A device that is lost shows in the scenario's own check.
        let _ = device.poll(wgpu::PollType::wait_indefinitely());
        start.elapsed().as_secs_f64()
    };
    let mut seconds: Vec<f64> = (0..WARM_UP + TIMED).map(|_| once()).skip(WARM_UP).collect();
    let operations = u64::from(ROUNDS) * OPERATIONS * u64::from(WORKGROUPS) * WORKGROUP;
    operations as f64 / median(&mut seconds) / 1e9
}
