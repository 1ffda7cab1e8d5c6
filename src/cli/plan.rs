//! `multihead plan`: prints the graph of a case and what a device would do; runs nothing.
//!
//! The profile is that of the adapter a run would use, otherwise the portable one; the print says which.

use multihead::{Case, Device, DeviceChoice, DeviceProfile, Error, PlanSummary};

use super::args::PlanArguments;
use super::{Outcome, print};

pub(super) async fn plan(arguments: &PlanArguments) -> Result<Outcome, Error> {
    let case = Case::open(&arguments.case, &arguments.how.case_options())?;
    let in_case = |error: Error| error.in_file(&arguments.case);
    let attention = case.attention().map_err(in_case)?;
    attention.check(&case.inputs).map_err(in_case)?;
    let graph = attention.graph(&case.inputs.call_shape(), arguments.with_weights).map_err(in_case)?;
    let profile = profile(&arguments.how.device).await?;
    let summary = PlanSummary::with_options(&graph, &profile, &arguments.how.plan_options()).map_err(in_case)?;
    if arguments.how.json {
        print::json(&summary)?;
    } else {
        print::text(&format!("{graph}\n{summary}"))?;
    }
    Ok(Outcome::Done)
}

/// The profile of the adapter that a run would use; without one, and for the CPU, what WebGPU guarantees to everyone.
async fn profile(choice: &DeviceChoice) -> Result<DeviceProfile, Error> {
    Ok(match Device::open(choice).await? {
        Device::Gpu(gpu) => gpu.profile().clone(),
        Device::Cpu(_) => DeviceProfile::portable(),
    })
}
