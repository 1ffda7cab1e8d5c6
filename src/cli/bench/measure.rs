//! Timing a plan that has run before.

use std::ops::RangeInclusive;
use std::time::Duration;

use multihead::{Error, Gpu, Plan};
use web_time::Instant;

use super::scenario::{Scenario, Work};

/// What a plan takes, as medians.
pub(super) struct Timing {
    pub(super) median_ms: f64,
    pub(super) with_io_ms: f64,
    pub(super) spread_ms: f64,
    pub(super) record_us: f64,
}

/// Enough runs to see the spread, not so many that a slow scenario takes minutes.
const RUNS: RangeInclusive<usize> = 3..=25;
const RUNS_OF_LARGE: RangeInclusive<usize> = 1..=1;
const ENOUGH: Duration = Duration::from_millis(1500);

pub(super) async fn time(gpu: &Gpu, plan: &Plan, work: &Work, scenario: &Scenario) -> Result<Timing, Error> {
    let (mut computing, mut recording, mut with_io) = (Vec::new(), Vec::new(), Vec::new());
    let start = Instant::now();
    let runs = if scenario.large { RUNS_OF_LARGE } else { RUNS };
    while computing.len() < *runs.start() || (computing.len() < *runs.end() && start.elapsed() < ENOUGH) {
        let [record, done] = submit(gpu, plan)?;
        recording.push(record);
        computing.push(done);
        if with_io.len() < *runs.start() {
            let before = Instant::now();
            plan.run(&work.inputs()).await?;
            with_io.push(before.elapsed().as_secs_f64());
        }
    }
    let spread = computing.iter().copied().fold(0.0, f64::max) - computing.iter().copied().fold(f64::MAX, f64::min);
    Ok(Timing {
        median_ms: median(&mut computing) * 1e3,
        with_io_ms: median(&mut with_io) * 1e3,
        spread_ms: spread * 1e3,
        record_us: median(&mut recording) * 1e6,
    })
}

/// Median seconds of a computation, of a burst as long as that of a peer (peers/peer.py).
pub(super) fn burst(gpu: &Gpu, plan: &Plan) -> Result<f64, Error> {
    const BURST_SECONDS: f64 = 0.05;
    const FEWEST: usize = 2;
    let mut took = Vec::new();
    while took.len() < FEWEST || took.iter().sum::<f64>() < BURST_SECONDS {
        took.push(submit(gpu, plan)?[1]);
    }
    Ok(median(&mut took))
}

/// Seconds until a ready plan is submitted, and until it is done.
pub(super) fn submit(gpu: &Gpu, plan: &Plan) -> Result<[f64; 2], Error> {
    let start = Instant::now();
    let mut encoder = gpu.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    plan.encode(&mut encoder)?;
    gpu.queue().submit([encoder.finish()]);
    let submitted = start.elapsed();
    let waited = gpu.device().poll(wgpu::PollType::wait_indefinitely());
    gpu.check()?;
    waited.map_err(|error| Error::Invalid(format!("the device did not finish: {error}")))?;
    Ok([submitted.as_secs_f64(), start.elapsed().as_secs_f64()])
}

pub(super) fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}
