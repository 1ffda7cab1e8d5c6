//! `multihead heads`: every head of one or more layers.

use multihead::experiments::survey;
use multihead::{Case, Error};

use super::args::LayerArguments;
use super::{Outcome, show};

pub(super) async fn heads(arguments: &LayerArguments) -> Result<Outcome, Error> {
    let cases = cases(arguments)?;
    let device = super::open(&arguments.report.device).await?;
    show::show(&survey::run(&device, &cases).await?, &arguments.report)?;
    Ok(Outcome::Done)
}

/// The cases in all files with their names; whatever is wrong with one, or with a path to write, is found before a
/// device is opened.
pub(super) fn cases(arguments: &LayerArguments) -> Result<Vec<(String, Case)>, Error> {
    show::check(&arguments.report, &arguments.read())?;
    let mut all = Vec::new();
    for path in &arguments.cases {
        let cases = Case::open_all(path, &arguments.case_options())?;
        for (_, case) in &cases {
            let checked = case.attention().and_then(|attention| attention.check(&case.inputs));
            checked.map_err(|error| error.in_file(path))?;
        }
        all.extend(cases);
    }
    Ok(all)
}
