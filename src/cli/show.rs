//! What experiments and surveys have in common: print, draw, write a page.

use std::path::Path;

use multihead::experiments::Pictured;
use multihead::plot::PictureFormat;
use multihead::{Error, io};
use serde::Serialize;

use super::args::DrawArguments;
use super::{outputs, print};

/// Refuses, before anything is computed, what could not be written in the end.
pub(super) fn check(draw: &DrawArguments, read: &[(&str, Option<&Path>)]) -> Result<(), Error> {
    if let Some(path) = &draw.picture {
        PictureFormat::from_path(path)?;
    }
    if let Some(path) = &draw.html
        && !path
            .extension()
            .is_some_and(|extension| ["html", "htm"].iter().any(|known| extension.eq_ignore_ascii_case(known)))
    {
        return Err(Error::Invalid("a page's name should end in .html".into()).in_file(path));
    }
    outputs::check_places(read, &[("the picture", draw.picture.as_deref()), ("the page", draw.html.as_deref())])
}

/// Writes what was asked for, then prints.
pub(super) fn show(report: &(impl Pictured + Serialize), draw: &DrawArguments, json: bool) -> Result<(), Error> {
    let picture =
        draw.picture.as_deref().map(|path| picture(report, draw, path).map(|bytes| (path, bytes))).transpose()?;
    let page = draw.html.as_deref().map(|path| report.page().map(|page| (path, page.into_bytes()))).transpose()?;
    let mut text = report.to_string();
    for (path, bytes) in [picture, page].into_iter().flatten() {
        io::write_atomically(path, |writer| writer.write_all(&bytes))?;
        text += &format!("wrote {}\n", path.display());
    }
    if json { print::json(report) } else { print::text(&text) }
}

fn picture(report: &impl Pictured, draw: &DrawArguments, path: &Path) -> Result<Vec<u8>, Error> {
    let format = PictureFormat::from_path(path)?;
    report.picture(draw.theme.into()).and_then(|picture| picture.encode(format)).map_err(|error| error.in_file(path))
}
