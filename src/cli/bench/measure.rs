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

/// Enough runs to see the spread, and a short plan at the pace of a program that runs it all the time; not so many that a
/// slow scenario takes minutes.
const RUNS: RangeInclusive<usize> = 3..=200;
const RUNS_OF_LARGE: RangeInclusive<usize> = 1..=1;
const ENOUGH: Duration = Duration::from_millis(1500);

pub(super) async fn time(gpu: &Gpu, plan: &Plan, work: &Work, scenario: &Scenario) -> Result<Timing, Error> {
    let mut samples = Samples::new(scenario);
    while samples.are_too_few() {
        samples.submit(gpu, plan)?;
        if samples.with_io.len() < *samples.runs.start() {
            let before = Instant::now();
            plan.run(&work.inputs()).await?;
            samples.with_io.push(before.elapsed().as_secs_f64());
        }
    }
    Ok(samples.timing())
}

/// Seconds of runs so far.
pub(super) struct Samples {
    start: Instant,
    runs: RangeInclusive<usize>,
    computing: Vec<f64>,
    recording: Vec<f64>,
    pub(super) with_io: Vec<f64>,
}

impl Samples {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let runs = if scenario.large { RUNS_OF_LARGE } else { RUNS };
        let (computing, recording, with_io) = (Vec::new(), Vec::new(), Vec::new());
        Self { start: Instant::now(), runs, computing, recording, with_io }
    }

    pub(super) fn are_too_few(&self) -> bool {
        let count = self.computing.len();
        count < *self.runs.start() || (count < *self.runs.end() && self.start.elapsed() < ENOUGH)
    }

    /// Runs a ready plan.
    pub(super) fn submit(&mut self, gpu: &Gpu, plan: &Plan) -> Result<(), Error> {
        let [record, done] = submit(gpu, plan)?;
        self.recording.push(record);
        self.computing.push(done);
        Ok(())
    }

    pub(super) fn timing(mut self) -> Timing {
        let [least, most] = [f64::min, f64::max].map(|of| self.computing.iter().copied().reduce(of).unwrap_or(0.0));
        Timing {
            median_ms: median(&mut self.computing) * 1e3,
            with_io_ms: median(&mut self.with_io) * 1e3,
            spread_ms: (most - least) * 1e3,
            record_us: median(&mut self.recording) * 1e6,
        }
    }
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
fn submit(gpu: &Gpu, plan: &Plan) -> Result<[f64; 2], Error> {
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
