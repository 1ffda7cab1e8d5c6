//! A program that has a wgpu device of its own.

use wgpu::BufferUsages as Usage;

/// A device that the library has nothing to do with, at WebGPU's default limits.
pub fn users_device() -> (wgpu::Device, wgpu::Queue) {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).unwrap();
    pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor::default())).unwrap()
}

pub fn users_buffer(device: &wgpu::Device, bytes: u64, usage: Usage) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some("user's"),
        size: bytes,
        usage,
        mapped_at_creation: false,
    })
}

/// What is in a buffer.
pub fn words(device: &wgpu::Device, queue: &wgpu::Queue, buffer: &wgpu::Buffer) -> Vec<f32> {
    let readable = users_buffer(device, buffer.size(), Usage::MAP_READ | Usage::COPY_DST);
    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    encoder.copy_buffer_to_buffer(buffer, 0, &readable, 0, buffer.size());
    queue.submit([encoder.finish()]);
    readable.map_async(wgpu::MapMode::Read, .., |mapped| mapped.unwrap());
    device.poll(wgpu::PollType::wait_indefinitely()).unwrap();
    let view = readable.get_mapped_range(..).unwrap();
    bytemuck::pod_collect_to_vec(&view)
}
