//! How long a product takes on a device with a tile.

use std::time::Duration;

use web_time::Instant;

use super::products::Product;
use crate::error::Error;
use crate::gpu::Gpu;
use crate::graph::{Inputs, Rewriting};
use crate::kernels::{Tile, Tiles};
use crate::plan::{Plan, PlanOptions};

/// Of so many samples the median counts.
const SAMPLES: usize = 5;

/// A sample is as many runs as take about this long, so that submitting and waiting are a small part of it.
const SAMPLE: Duration = Duration::from_millis(2);

/// Not more runs than this in one submission.
const MOST_RUNS: u32 = 64;

/// Wall time of one run, of zeros: the median of some samples, after one run to warm up. No sample is begun once all of it
/// has taken as long as `allowed`.
pub(super) async fn time(gpu: &Gpu, product: &Product, tile: Tile, allowed: Duration) -> Result<Duration, Error> {
    let start = Instant::now();
    let options = PlanOptions {
        preferred_kernels: vec!["matmul_tiled"],
        tiles: Tiles::all(tile),
        rewriting: Rewriting::OFF,
        ..PlanOptions::default()
    };
    let plan = Plan::new(gpu, &product.graph()?, &Inputs::new(), &options).await?;
    // Drivers finish compiling, and clear new buffers, when they are first used.
    run(gpu, &plan, 1).await?;
    let once = run(gpu, &plan, 1).await?;
    let runs = runs_of(once);
    let mut samples = vec![once];
    while samples.len() < SAMPLES && start.elapsed() < allowed {
        let took = run(gpu, &plan, runs).await? / runs;
        // Of short runs, one alone is mostly waiting.
        if samples.len() == 1 && runs > 1 {
            samples.clear();
        }
        samples.push(took);
    }
    samples.sort_unstable();
    Ok(samples[samples.len() / 2])
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
