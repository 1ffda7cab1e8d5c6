//! The first result: how long a person waits who has just started the program.

use multihead::{Error, Plan};
use serde::Serialize;
use web_time::Instant;

use super::super::args::BenchArguments;
use super::super::tune::Tuner;
use super::super::{Outcome, print};
use super::scenario::{self, Work};
use super::verify::{Expected, Verdict};

/// What is said of it.
#[derive(Debug, Serialize)]
struct Line<'a> {
    scenario: &'a str,
    device: &'a str,
    /// From the command's start to the first result: random numbers made, device opened, kernels compiled, run, read back.
    first_ms: f64,
    #[serde(flatten)]
    verdict: Verdict,
}

/// Computes one scenario once.
///
/// # Errors
/// Where more than one is chosen: the second result in a process is no first one.
pub(super) async fn once(arguments: &BenchArguments) -> Result<Outcome, Error> {
    let start = Instant::now();
    let scenarios = scenario::chosen(&arguments.only)?;
    let [scenario] = scenarios.as_slice() else {
        return Err(Error::Invalid(format!(
            "--once is about the first result of a process, so about one scenario, not {}; name it with --only",
            scenarios.len()
        )));
    };
    let work = Work::new(scenario)?;
    let gpu = super::open(arguments).await?;
    let tuner = Tuner::new(arguments.tune.is_on(), Some(&gpu), arguments.plan_options());
    let (options, _) = tuner.tuned(&work.graph).await?;
    let plan = Plan::new(&gpu, &work.graph, &work.parameters(), &options).await?;
    let got = plan.run(&work.inputs()).await?;
    let first_ms = start.elapsed().as_secs_f64() * 1e3;
    let verdict = Expected::of(scenario, &work)?.judge(&got)?;
    let line = Line { scenario: &scenario.name, device: &gpu.profile().name, first_ms, verdict };
    if arguments.json {
        print::json(&line)?;
    } else {
        let (name, error) = (&scenario.name, super::error_of(verdict));
        print::text(&format!("{name}: first result after {first_ms:.0} ms on {}, max error {error}\n", line.device))?;
    }
    Ok(if verdict.agrees() { Outcome::Done } else { Outcome::Differs })
}
