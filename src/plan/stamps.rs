//! Times that the device itself notes before and after each dispatch.

use super::{BoundStep, MOST_DISPATCHES, dispatch};
use crate::error::Error;
use crate::gpu::Gpu;

/// Bytes of one time.
const STAMP_BYTES: u64 = 8;

/// Room for two times of each dispatch of a submission.
pub(super) struct Stamps {
    queries: wgpu::QuerySet,
    resolved: wgpu::Buffer,
    readable: wgpu::Buffer,
}

impl Stamps {
    /// `None` where the device has no such clock.
    pub(super) async fn new(gpu: &Gpu, num_steps: usize) -> Result<Option<Self>, Error> {
        if !gpu.device().features().contains(wgpu::Features::TIMESTAMP_QUERY) {
            return Ok(None);
        }
        let count =
            u32::try_from(2 * num_steps.clamp(1, MOST_DISPATCHES)).expect("an encoder's dispatches should be few");
        let label = format!("mha.timestamps {count}");
        let create = |device: &wgpu::Device| {
            let (label, ty) = (Some(label.as_str()), wgpu::QueryType::Timestamp);
            let buffer = |usage| {
                let size = u64::from(count) * STAMP_BYTES;
                device.create_buffer(&wgpu::BufferDescriptor { label, size, usage, mapped_at_creation: false })
            };
            Self {
                queries: device.create_query_set(&wgpu::QuerySetDescriptor { label, ty, count }),
                resolved: buffer(wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC),
                readable: buffer(wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST),
            }
        };
        gpu.guarded(&label, create).await.map(Some)
    }

    /// Records dispatches as one compute pass each: where a device notes times, it does so where a pass begins and ends.
    pub(super) fn record(&self, encoder: &mut wgpu::CommandEncoder, steps: &[BoundStep]) {
        let mut written = 0;
        for step in steps {
            let timestamp_writes = Some(wgpu::ComputePassTimestampWrites {
                query_set: &self.queries,
                beginning_of_pass_write_index: Some(written),
                end_of_pass_write_index: Some(written + 1),
            });
            let descriptor = wgpu::ComputePassDescriptor { label: Some(&step.label), timestamp_writes };
            dispatch(&mut encoder.begin_compute_pass(&descriptor), step);
            written += 2;
        }
        if written > 0 {
            encoder.resolve_query_set(&self.queries, 0..written, &self.resolved, 0);
            encoder.copy_buffer_to_buffer(&self.resolved, 0, &self.readable, 0, u64::from(written) * STAMP_BYTES);
        }
    }

    /// Beginning and end of each dispatch that was recorded last, in nanoseconds of the device's own clock.
    pub(super) async fn read(&self, gpu: &Gpu, num_steps: usize) -> Result<Vec<[f64; 2]>, Error> {
        if num_steps == 0 {
            return Ok(Vec::new());
        }
        let bytes = 2 * num_steps as u64 * STAMP_BYTES;
        let asked = gpu.scoped("reading the times", |_| gpu.ask_for(&self.readable, bytes)).await?;
        let ticks = asked.wait().await?.ticks()?;
        let period = f64::from(gpu.queue().get_timestamp_period());
        let (pairs, _) = ticks.as_chunks::<2>();
        Ok(pairs.iter().map(|pair| pair.map(|ticks| ticks as f64 * period)).collect())
    }
}
