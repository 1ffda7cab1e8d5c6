//! `multihead bench`: verifies every scenario against the f64 reference, then times it. A figure stands beside its own error.

mod against;
mod cached;
mod ceiling;
mod measure;
mod once;
mod peer;
mod scenario;
mod verify;

use std::collections::BTreeMap;

use multihead::tuning::Choice;
use multihead::{Device, Error, Gpu, Plan, PlanSummary};
use serde::Serialize;

use super::args::BenchArguments;
use super::tune::{self, Tuner};
use super::{Outcome, print};
use against::{Against, against};
use measure::Timing;
use peer::Peer;
pub(super) use peer::PeerCommand;
use scenario::{Scenario, Work};
use verify::{Expected, Verdict};

/// What is said of one scenario.
#[derive(Debug, Serialize)]
struct Line<'a> {
    scenario: &'a str,
    device: &'a str,
    /// The kernels, in the order of their dispatches.
    variant: String,
    dispatches: usize,
    /// What `--tune` chose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tiles: Vec<Choice>,
    /// From submitting to done: inputs on the device, nothing read back.
    median_ms: f64,
    /// With inputs uploaded and outputs read back.
    with_io_ms: f64,
    /// Slowest less fastest.
    spread_ms: f64,
    gflops: f64,
    /// The mul+add loop of this run, for products.
    #[serde(skip_serializing_if = "Option::is_none")]
    ceiling_gflops: Option<f64>,
    /// All buffers alive at once.
    peak_bytes: u64,
    /// Compiling and the first run, on a device that is open, with whatever the driver's shader cache holds; what `--tune`
    /// measures is part of it.
    cold_ms: f64,
    /// CPU time to record and submit a ready plan.
    record_us: f64,
    #[serde(flatten)]
    verdict: Verdict,
    /// The same scenario at other programs, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    peers: BTreeMap<String, Against>,
}

impl Line<'_> {
    /// Whether every answer, ours and the peers', is within the yardstick.
    fn outcome(&self) -> Outcome {
        let wrong = self.peers.values().any(|against| matches!(against, Against::Wrong { .. }));
        if self.verdict.agrees() && !wrong { Outcome::Done } else { Outcome::Differs }
    }
}

pub(super) async fn bench(arguments: &BenchArguments) -> Result<Outcome, Error> {
    if arguments.once {
        return once::once(arguments).await;
    }
    let scenarios = scenario::chosen(&arguments.only)?;
    let gpu = open(arguments).await?;
    let tuner = Tuner::new(arguments.tune.is_on(), Some(&gpu), arguments.plan_options());
    let mut peers = arguments.peers.iter().map(Peer::start).collect::<Result<Vec<_>, _>>()?;
    if !arguments.json {
        print::text(&heading(&gpu))?;
    }
    let mut worst = Outcome::Done;
    for scenario in &scenarios {
        let line = one(&gpu, scenario, &tuner, &mut peers).await?;
        if arguments.json {
            print::json(&line)?;
        } else {
            print::text(&told(&line))?;
        }
        worst = worst.max(line.outcome());
    }
    Ok(worst)
}

async fn open(arguments: &BenchArguments) -> Result<Gpu, Error> {
    match super::open(&arguments.device).await? {
        Device::Gpu(gpu) => Ok(gpu),
        Device::Cpu(_) => Err(Error::Invalid(
            "bench times a GPU's kernels; name an adapter with --device, `multihead devices` lists them".into(),
        )),
    }
}

async fn one<'a>(
    gpu: &'a Gpu,
    scenario: &'a Scenario,
    tuner: &Tuner<'_>,
    peers: &mut [Peer],
) -> Result<Line<'a>, Error> {
    let work = Work::new(scenario)?;
    if scenario.is_step() {
        return cached::line(gpu, scenario, &work, peers).await;
    }
    let cold = web_time::Instant::now();
    let (options, tiles) = tuner.tuned(&work.graph).await?;
    let summary = PlanSummary::with_options(&work.graph, gpu.profile(), &options)?;
    let plan = Plan::new(gpu, &work.graph, &work.parameters(), &options).await?;
    let first = plan.run(&work.inputs()).await?;
    let cold_ms = cold.elapsed().as_secs_f64() * 1e3;
    let expected = Expected::of(scenario, &work)?;
    let verdict = expected.judge(&first)?;
    let Timing { median_ms, with_io_ms, spread_ms, record_us } = measure::time(gpu, &plan, &work, scenario).await?;
    let peers = against(gpu, &plan, scenario, &work, &expected, peers)?;
    let variants: Vec<_> = summary.steps.iter().map(|step| step.variant.as_str()).collect();
    Ok(Line {
        scenario: &scenario.name,
        device: &gpu.profile().name,
        variant: variants.join("+"),
        dispatches: plan.num_dispatches(),
        tiles,
        median_ms,
        with_io_ms,
        spread_ms,
        gflops: work.graph.flops() as f64 / median_ms / 1e6,
        ceiling_gflops: scenario.is_product().then(|| ceiling::gflops(gpu)),
        peak_bytes: plan.peak_bytes(),
        cold_ms,
        record_us,
        verdict,
        peers,
    })
}

fn heading(gpu: &Gpu) -> String {
    format!(
        "{}\n\n{:<12} {:>10} {:>10} {:>8} {:>9} {:>6} {:>10} {:>9} {:>9} {:>10}\n",
        gpu.profile().name,
        "scenario",
        "median ms",
        "with io",
        "spread",
        "GFLOP/s",
        "steps",
        "cold ms",
        "record us",
        "MiB",
        "max error"
    )
}

fn told(line: &Line<'_>) -> String {
    let ceiling = line.ceiling_gflops.map(|ceiling| format!("  {:.2} of the mul+add loop", line.gflops / ceiling));
    let peers: Vec<_> = line.peers.iter().map(|(name, against)| beside(name, against)).collect();
    format!(
        "{:<12} {:>10.2} {:>10.2} {:>8.2} {:>9.2} {:>6} {:>10.0} {:>9.1} {:>9.1} {:>10}{}\n{}",
        line.scenario,
        line.median_ms,
        line.with_io_ms,
        line.spread_ms,
        line.gflops,
        line.dispatches,
        line.cold_ms,
        line.record_us,
        line.peak_bytes as f64 / f64::from(1 << 20),
        error_of(line.verdict),
        ceiling.unwrap_or_default(),
        peers.concat()
    ) + &tune::told(&line.tiles)
}

/// A peer's line under ours.
fn beside(name: &str, against: &Against) -> String {
    match against {
        Against::Cannot { cannot } => format!("  {name:<10} {:>10}  {cannot}\n", ""),
        Against::Wrong { wrong } => format!("  {name:<10} {:>10}  not timed; its max error {}\n", "", error_of(*wrong)),
        Against::Timed { median_ms, speed, verdict } => {
            let error = error_of(*verdict);
            format!("  {name:<10} {median_ms:>10.2}  our speed is {speed:.2} of its; its max error {error}\n")
        }
    }
}

/// The error, and where it is too large, what is allowed.
fn error_of(verdict: Verdict) -> String {
    let Verdict { max_error, allowed_error } = verdict;
    let wrong = if verdict.agrees() { String::new() } else { format!(" WRONG, at most {allowed_error:.1e}") };
    format!("{max_error:.1e}{wrong}")
}
