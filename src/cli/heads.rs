//! `multihead heads`: every head of one or more layers.

use std::path::Path;

use multihead::experiments::survey;
use multihead::{Case, Error};

use super::args::{DrawArguments, HeadsArguments, LayerArguments};
use super::{Outcome, show};

pub(super) async fn heads(arguments: &HeadsArguments) -> Result<Outcome, Error> {
    let cases = cases(&arguments.layers, &arguments.draw)?;
    let device = super::open(&arguments.place.device).await?;
    let report = survey::run(&device, &cases).await?;
    show::show(&report, &arguments.draw, arguments.place.json)?;
    Ok(Outcome::Done)
}

/// The cases in all files with their names; whatever is wrong with one, or with a path to write, is found before a
/// device is opened.
pub(super) fn cases(layers: &LayerArguments, draw: &DrawArguments) -> Result<Vec<(String, Case)>, Error> {
    show::check(draw, &layers.read())?;
    let mut cases = Vec::new();
    for path in &layers.cases {
        for case in Case::open_all(path, &layers.case_options())? {
            let attention = case.attention().map_err(|error| error.in_file(path))?;
            attention.check(&case.inputs).map_err(|error| error.in_file(path))?;
            cases.push((name(path, &case), case));
        }
    }
    Ok(cases)
}

/// A layer of a model's file has its own name; a case has its file's.
fn name(path: &Path, case: &Case) -> String {
    let stem = || path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
    let layer =
        case.about.clone().filter(|about| about.strip_prefix("layer ").is_some_and(|rest| rest.parse::<u32>().is_ok()));
    layer.unwrap_or_else(stem)
}
