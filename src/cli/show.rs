//! What experiments and surveys have in common: print, draw, write a page.

use std::path::Path;

use multihead::experiments::Pictured;
use multihead::plot::{PictureFormat, Theme};
use multihead::{Error, io};
use serde::Serialize;

use super::args::ReportArguments;
use super::{outputs, print};

/// Refuses, before anything is computed, what could not be written in the end.
pub(super) fn check(arguments: &ReportArguments, read: &[(&str, Option<&Path>)]) -> Result<(), Error> {
    if let Some(path) = &arguments.picture {
        PictureFormat::from_path(path)?;
    }
    if let Some(path) = &arguments.html
        && !path
            .extension()
            .is_some_and(|extension| ["html", "htm"].iter().any(|known| extension.eq_ignore_ascii_case(known)))
    {
        return Err(Error::Invalid("a page's name should end in .html".into()).in_file(path));
    }
    let written = [("the picture", arguments.picture.as_deref()), ("the page", arguments.html.as_deref())];
    outputs::check_places(read, &written)
}

/// Writes what was asked for, then prints.
pub(super) fn show(report: &(impl Pictured + Serialize), arguments: &ReportArguments) -> Result<(), Error> {
    let picture = |path| picture(report, arguments.theme.into(), path).map(|bytes| (path, bytes));
    let picture = arguments.picture.as_deref().map(picture).transpose()?;
    let page = |path| report.page().map(|page| (path, page.into_bytes()));
    let page = arguments.html.as_deref().map(page).transpose()?;
    let mut text = report.to_string();
    for (path, bytes) in [picture, page].into_iter().flatten() {
        io::write_atomically(path, |writer| writer.write_all(&bytes))?;
        text += &format!("wrote {}\n", io::printable(&path.display().to_string()));
    }
    if arguments.json { print::json(report) } else { print::text(&text) }
}

fn picture(report: &impl Pictured, theme: Theme, path: &Path) -> Result<Vec<u8>, Error> {
    let format = PictureFormat::from_path(path)?;
    report.picture(theme).and_then(|picture| picture.encode(format)).map_err(|error| error.in_file(path))
}
