//! How long a product takes on a device with a tile.

use std::collections::BTreeMap;
use std::time::Duration;

use web_time::Instant;

use super::products::Product;
use crate::error::Error;
use crate::gpu::Gpu;
use crate::graph::{Graph, Inputs, Rewriting};
use crate::kernels::{Tile, Tiles};
use crate::plan::{Plan, PlanOptions, Tensor};

/// A sample is as many runs as take about this long, so that submitting and waiting are a small part of it.
pub(super) const SAMPLE: Duration = Duration::from_millis(2);

/// Not more runs than this in one submission.
const MOST_RUNS: u32 = 64;

/// Trials of one product, of zeros, with a tile each. All use the same buffers, and read nothing back.
pub(super) struct Trials<'a> {
    gpu: &'a Gpu,
    graph: Graph,
    tensors: BTreeMap<String, Tensor>,
    /// With how many runs make a sample.
    ready: BTreeMap<Tile, (Plan, u32)>,
}

impl<'a> Trials<'a> {
    pub(super) async fn new(gpu: &'a Gpu, product: &Product) -> Result<Self, Error> {
        let graph = product.graph()?;
        let mut tensors = BTreeMap::new();
        for (_, value) in graph.values() {
            let label = format!("mha.tuning {} {}", value.name, value.shape);
            let (size, usage) = (value.bytes(), wgpu::BufferUsages::STORAGE);
            let descriptor = wgpu::BufferDescriptor { label: Some(&label), size, usage, mapped_at_creation: false };
            let buffer = gpu.guarded(&label, |device| device.create_buffer(&descriptor)).await?;
            tensors.insert(value.name.clone(), Tensor::new(&buffer));
        }
        Ok(Self { gpu, graph, tensors, ready: BTreeMap::new() })
    }

    /// Wall time of one run: the first time alone, once all is compiled and warm, then the mean of a sample.
    pub(super) async fn time(&mut self, tile: Tile) -> Result<Duration, Error> {
        if let Some((plan, runs)) = self.ready.get(&tile) {
            return Ok(run(self.gpu, plan, *runs).await? / *runs);
        }
        let options = PlanOptions {
            preferred_kernels: vec!["matmul_tiled"],
            tiles: Tiles::all(tile),
            tensors: self.tensors.clone(),
            rewriting: Rewriting::OFF,
            ..PlanOptions::default()
        };
        let plan = Plan::new(self.gpu, &self.graph, &Inputs::new(), &options).await?;
        // Drivers finish compiling, and clear new buffers, when they are first used.
        run(self.gpu, &plan, 1).await?;
        let once = run(self.gpu, &plan, 1).await?;
        self.ready.insert(tile, (plan, runs_of(once)));
        Ok(once)
    }
}

/// How many runs make a sample.
fn runs_of(once: Duration) -> u32 {
    let runs = SAMPLE.as_nanos() / once.as_nanos().max(1);
    u32::try_from(runs).unwrap_or(MOST_RUNS).clamp(1, MOST_RUNS)
}

/// Wall time from recording to done.
async fn run(gpu: &Gpu, plan: &Plan, times: u32) -> Result<Duration, Error> {
    let start = Instant::now();
    let submit = |device: &wgpu::Device| {
        let descriptor = wgpu::CommandEncoderDescriptor { label: Some("multihead.tuning") };
        let mut encoder = device.create_command_encoder(&descriptor);
        (0..times).try_for_each(|_| plan.encode(&mut encoder))?;
        gpu.queue().submit([encoder.finish()]);
        Ok(())
    };
    gpu.scoped("a measurement", submit).await??;
    gpu.finished().await?;
    Ok(start.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_runs_are_taken_together_and_long_ones_alone() {
        let runs = [0, 1, 20_000, 900_000, 2_000_000, 50_000_000].map(|nanos| runs_of(Duration::from_nanos(nanos)));
        assert_eq!(runs, [MOST_RUNS, MOST_RUNS, MOST_RUNS, 2, 1, 1]);
    }
}
