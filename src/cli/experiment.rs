//! `multihead experiment NAME`: the book's experiments.

use multihead::Error;
use multihead::experiments::{alignment, copy_both, grouped_query, heads_are_free, self_and_cross, shapes};

use super::args::{DrawArguments, Experiment, GroupedQueryArguments, WhereArguments};
use super::{Outcome, heads, show};

pub(super) async fn experiment(experiment: &Experiment) -> Result<Outcome, Error> {
    match experiment {
        Experiment::CopyBoth(arguments) => {
            let device = prepared(&arguments.place, &arguments.draw).await?;
            let report = copy_both::run(&device, &arguments.options()).await?;
            show::show(&report, &arguments.draw, arguments.place.json)?;
        }
        Experiment::Shapes(arguments) => {
            let device = prepared(&arguments.place, &arguments.draw).await?;
            let report = shapes::run(&device, &arguments.options()).await?;
            show::show(&report, &arguments.draw, arguments.place.json)?;
        }
        Experiment::HeadsAreFree(arguments) => {
            let device = prepared(&arguments.place, &arguments.draw).await?;
            let report = heads_are_free::run(&device, &arguments.options()).await?;
            show::show(&report, &arguments.draw, arguments.place.json)?;
        }
        Experiment::Alignment(arguments) => {
            let device = prepared(&arguments.place, &arguments.draw).await?;
            let report = alignment::run(&device, &arguments.options()).await?;
            show::show(&report, &arguments.draw, arguments.place.json)?;
        }
        Experiment::SelfAndCross(arguments) => {
            let device = prepared(&arguments.place, &arguments.draw).await?;
            let report = self_and_cross::run(&device, &arguments.options()).await?;
            show::show(&report, &arguments.draw, arguments.place.json)?;
        }
        Experiment::GroupedQuery(arguments) => grouped_query(arguments).await?,
    }
    Ok(Outcome::Done)
}

/// The device, once it is known that what is asked for could be written.
async fn prepared(place: &WhereArguments, draw: &DrawArguments) -> Result<multihead::Device, Error> {
    show::check(draw, &[])?;
    super::open(&place.device).await
}

async fn grouped_query(arguments: &GroupedQueryArguments) -> Result<(), Error> {
    let cases = heads::cases(&arguments.layers, &arguments.draw)?;
    let device = super::open(&arguments.place.device).await?;
    let report = grouped_query::run(&device, &cases).await?;
    show::show(&report, &arguments.draw, arguments.place.json)
}
