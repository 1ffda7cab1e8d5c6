//! Pictures of attention maps: all heads of one batch entry side by side, on one colour scale.
//!
//! [`AttentionMaps`] says what to draw, [`AttentionMaps::draw`] draws it, [`Picture::encode`] makes a file's bytes of
//! it. [`Figure`] does the same for charts, tables of colours and several pictures at once, and [`Page`] is one HTML
//! file in which drawings and maps answer to the pointer. There is one drawing model, SVG; a PNG is the same SVG,
//! rasterised with a font that comes with this crate.
//!
//! Queries are rows and keys are columns. The colours are viridis, from 0 to the next round number above the largest
//! weight of all maps. Cells that hold no weight (NaN, infinite, negative) are red with a white cross, and a legend
//! counts them. Labels are thinned and shortened until they fit.
//!
//! ```
//! use multihead::HostTensor;
//! use multihead::plot::{AttentionMaps, PictureFormat};
//!
//! let weights = HostTensor::new([1, 1, 2, 2], vec![0.9, 0.1, 0.4, 0.6])?; // (B, H, Lq, Lk)
//! let tokens = ["the".to_owned(), "trophy".to_owned()];
//! let picture = AttentionMaps {
//!     query_tokens: &tokens,
//!     key_tokens: &tokens,
//!     title: "Two words",
//!     ..AttentionMaps::new(&weights)
//! }
//! .draw()?;
//! let png = picture.encode(PictureFormat::Png)?;
//! assert!(png.starts_with(b"\x89PNG"));
//! # Ok::<(), multihead::Error>(())
//! ```

mod axis;
mod cells;
mod chart;
mod draw;
mod figure;
mod format;
mod layout;
mod page;
mod picture;
mod scale;
mod shapes;
mod svg;
mod table;
mod text;
mod theme;

pub use chart::{LineChart, Series};
pub use figure::{Figure, Panel};
pub use format::PictureFormat;
pub use page::{HeadMap, MapGroup, MapViewer, Page, Section};
pub use picture::Picture;
pub use shapes::{ShapeBox, ShapeColumn};
pub use table::{HeatCell, HeatTable};
pub use theme::Theme;

use crate::error::Error;
use crate::maps::AttentionMap;
use crate::shape::HostTensor;
use draw::Drawing;
use layout::{HEAD_FONT, Layout, NOTE_FONT, Request};
use scale::ColorScale;

/// What to draw: the attention maps of one batch entry, and the words around them.
#[derive(Clone, Copy, Debug)]
pub struct AttentionMaps<'maps> {
    /// (B, H, Lq, Lk).
    pub weights: &'maps HostTensor,
    /// The batch entry.
    pub batch: usize,
    /// Lq labels for the rows; empty = indices.
    pub query_tokens: &'maps [String],
    /// Lk labels for the columns; empty = indices.
    pub key_tokens: &'maps [String],
    /// Draw only the first so many queries, for instance those that are no padding. `None` = all.
    pub num_queries: Option<usize>,
    /// Draw only the first so many keys. `None` = all.
    pub num_keys: Option<usize>,
    /// The figure's title; empty = none.
    pub title: &'maps str,
    /// Small print below: device, case, what to look at; empty = none.
    pub caption: &'maps str,
    /// H short notes, one beside each head's title ("1.32 bits"); empty = none.
    pub head_notes: &'maps [String],
    /// The colours around the maps.
    pub theme: Theme,
    /// Cells are made smaller, as long as their labels allow it, until the picture is not wider than so many points.
    pub max_width: f64,
}

impl<'maps> AttentionMaps<'maps> {
    /// All of batch entry 0, without words, on white.
    #[must_use]
    pub fn new(weights: &'maps HostTensor) -> Self {
        Self {
            weights,
            batch: 0,
            query_tokens: &[],
            key_tokens: &[],
            num_queries: None,
            num_keys: None,
            title: "",
            caption: "",
            head_notes: &[],
            theme: Theme::default(),
            max_width: f64::INFINITY,
        }
    }

    /// Draws the maps.
    ///
    /// # Errors
    /// When `weights` does not have four axes or has no head, `batch` is not below B, tokens or notes are not as many as
    /// what they name, more queries or keys are asked for than there are, or the picture would be too large to open.
    pub fn draw(&self) -> Result<Picture, Error> {
        let whole = AttentionMap::of_batch_entry(self.weights, self.batch)?;
        let (num_queries, num_keys) = self.check(&whole)?;
        let cropped: Vec<Vec<f32>> = whole.iter().map(|map| crop(map, num_queries, num_keys)).collect();
        let maps: Vec<AttentionMap<'_>> =
            cropped.iter().map(|cells| AttentionMap::new(cells, num_queries, num_keys)).collect::<Result<_, _>>()?;

        let num_invalid = cropped.iter().flatten().filter(|weight| !scale::is_weight(**weight)).count();
        let layout = Layout::new(Request {
            num_heads: maps.len(),
            num_queries,
            num_keys,
            query_tokens: self.query_tokens,
            key_tokens: self.key_tokens,
            head_title_width: self.head_title_width(maps.len()),
            title: self.title,
            caption: self.caption,
            has_legend: num_invalid > 0,
            max_width: self.max_width,
        })?;
        let drawing = Drawing {
            maps: &maps,
            notes: self.head_notes,
            layout: &layout,
            scale: &ColorScale::for_maps(&maps),
            palette: self.theme.palette(),
            num_invalid,
        };
        Ok(Picture { svg: drawing.svg(), width: layout.width, height: layout.height })
    }

    /// How many queries and keys to draw, once everything is known to fit together.
    fn check(&self, maps: &[AttentionMap<'_>]) -> Result<(usize, usize), Error> {
        let Some(map) = maps.first() else {
            return Err(Error::WrongShape {
                what: "attention_weights".into(),
                got: self.weights.shape().clone(),
                expected: "at least one head is needed for a picture".into(),
            });
        };
        let labels = [
            ("query tokens", self.query_tokens, map.num_queries(), "queries"),
            ("key tokens", self.key_tokens, map.num_keys(), "keys"),
            ("head notes", self.head_notes, maps.len(), "heads"),
        ];
        for (what, given, count, named) in labels {
            if !given.is_empty() && given.len() != count {
                let sentence = format!("{} {what} cannot label {count} {named}", given.len());
                return Err(Error::Invalid(sentence));
            }
        }
        let num_queries = at_most("num_queries", self.num_queries, map.num_queries())?;
        let num_keys = at_most("num_keys", self.num_keys, map.num_keys())?;
        Ok((num_queries, num_keys))
    }

    fn head_title_width(&self, num_heads: usize) -> f64 {
        let width_of = |head: usize| {
            let title = text::bold_width(&draw::head_title(head), HEAD_FONT);
            let note = self.head_notes.get(head);
            title + note.map_or(0.0, |note| 10.0 + text::width(note, NOTE_FONT))
        };
        (0..num_heads).map(width_of).fold(0.0, f64::max)
    }
}

fn at_most(what: &str, wanted: Option<usize>, available: usize) -> Result<usize, Error> {
    match wanted {
        Some(wanted) if wanted > available => Err(Error::OutOfRange {
            what: what.into(),
            value: wanted.to_string(),
            allowed: format!("there are {available}"),
        }),
        _ => Ok(wanted.unwrap_or(available)),
    }
}

/// The first `num_queries` rows and `num_keys` columns.
fn crop(map: &AttentionMap<'_>, num_queries: usize, num_keys: usize) -> Vec<f32> {
    let rows = map.rows().take(num_queries);
    rows.flat_map(|row| &row[..num_keys]).copied().collect()
}

#[cfg(test)]
mod tests;
