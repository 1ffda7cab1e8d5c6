//! `multihead plan`: prints the graph of a case and what a device would do; runs nothing of it.
//!
//! The profile is that of the adapter a run would use, otherwise the portable one; the print says which.

use multihead::tuning::Choice;
use multihead::{Case, Device, DeviceProfile, Error, Graph, PlanSummary};
use serde::Serialize;

use super::args::PlanArguments;
use super::tune::{self, Tuner};
use super::{Outcome, print};

/// What is said of a plan.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    summary: PlanSummary,
    /// What `--tune` chose.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tiles: Vec<Choice>,
}

pub(super) async fn plan(arguments: &PlanArguments) -> Result<Outcome, Error> {
    let case = Case::open(&arguments.case, &arguments.how.case_options())?;
    let in_case = |error: Error| error.in_file(&arguments.case);
    let attention = case.attention().map_err(in_case)?;
    attention.check(&case.inputs).map_err(in_case)?;
    let graph = attention.graph(&case.inputs.call_shape(), arguments.with_weights).map_err(in_case)?;
    let device = Device::open(&arguments.how.device).await?;
    let tuner = Tuner::new(arguments.tune.is_on(), device.gpu(), arguments.how.plan_options());
    let (options, tiles) = tuner.tuned(&graph).await.map_err(in_case)?;
    let summary = PlanSummary::with_options(&graph, &profile(&device), &options).map_err(in_case)?;
    let report = Report { summary, tiles };
    if arguments.how.json {
        print::json(&report)?;
    } else {
        print::text(&told(&graph, &report))?;
    }
    Ok(Outcome::Done)
}

/// The profile of the adapter that a run would use; without one, and for the CPU, what WebGPU guarantees to everyone.
fn profile(device: &Device) -> DeviceProfile {
    match device {
        Device::Gpu(gpu) => gpu.profile().clone(),
        Device::Cpu(_) => DeviceProfile::portable(),
    }
}

fn told(graph: &Graph, Report { summary, tiles }: &Report) -> String {
    let tiles = tune::told(tiles);
    let gap = if tiles.is_empty() { "" } else { "\n" };
    format!("{graph}\n{summary}{gap}{tiles}")
}
