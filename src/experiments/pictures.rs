//! What the reports look like: a picture, and a page that answers to the pointer.

mod charts;
mod maps;
mod survey;

use std::fmt;

use crate::error::Error;
use crate::plot::{Page, Picture, Section, Theme};

/// A report that can be looked at.
pub trait Pictured: fmt::Display {
    /// What the page is about.
    fn title(&self) -> &'static str;

    /// The picture, 600 points wide.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] where it would be too large to be opened.
    fn picture(&self, theme: Theme) -> Result<Picture, Error>;

    /// What stands on the page above the table: by default the picture.
    ///
    /// # Errors
    /// As [`picture`](Self::picture).
    fn sections(&self) -> Result<Vec<Section>, Error> {
        Ok(vec![drawing(self)?])
    }

    /// One HTML file, opened offline: pictures or maps with values under the pointer, then the table.
    ///
    /// # Errors
    /// As [`picture`](Self::picture).
    fn page(&self) -> Result<String, Error> {
        let mut sections = self.sections()?;
        sections.push(Section::Text(self.to_string()));
        Page { title: self.title(), sections }.html()
    }
}

/// The picture in both themes.
fn drawing(report: &(impl Pictured + ?Sized)) -> Result<Section, Error> {
    Ok(Section::Drawing { light: report.picture(Theme::Light)?, dark: report.picture(Theme::Dark)? })
}
