//! `multihead experiment NAME`: the book's experiments.

use multihead::experiments::{Pictured, alignment, copy_both, grouped_query, heads_are_free, self_and_cross, shapes};
use multihead::{Device, Error};
use serde::Serialize;

use super::args::{Experiment, LayerArguments, ReportArguments};
use super::{Outcome, heads, show};

pub(super) async fn experiment(experiment: &Experiment) -> Result<Outcome, Error> {
    match experiment {
        Experiment::CopyBoth(arguments) => {
            let run = async |device: &Device| copy_both::run(device, &arguments.options()).await;
            told(&arguments.report, run).await?;
        }
        Experiment::Shapes(arguments) => {
            let run = async |device: &Device| shapes::run(device, &arguments.options()).await;
            told(&arguments.report, run).await?;
        }
        Experiment::HeadsAreFree(arguments) => {
            let run = async |device: &Device| heads_are_free::run(device, &arguments.options()).await;
            told(&arguments.report, run).await?;
        }
        Experiment::Alignment(arguments) => {
            let run = async |device: &Device| alignment::run(device, &arguments.options()).await;
            told(&arguments.report, run).await?;
        }
        Experiment::SelfAndCross(arguments) => {
            let run = async |device: &Device| self_and_cross::run(device, &arguments.options()).await;
            told(&arguments.report, run).await?;
        }
        Experiment::GroupedQuery(arguments) => grouped_query(arguments).await?,
    }
    Ok(Outcome::Done)
}

/// Opens the device, once it is known that what is asked for could be written; runs, and shows what came out.
async fn told<R: Pictured + Serialize>(
    arguments: &ReportArguments,
    run: impl AsyncFnOnce(&Device) -> Result<R, Error>,
) -> Result<(), Error> {
    show::check(arguments, &[])?;
    let device = super::open(&arguments.device).await?;
    show::show(&run(&device).await?, arguments)
}

async fn grouped_query(arguments: &LayerArguments) -> Result<(), Error> {
    let cases = heads::cases(arguments)?;
    let device = super::open(&arguments.report.device).await?;
    show::show(&grouped_query::run(&device, &cases).await?, &arguments.report)
}
