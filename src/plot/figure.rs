//! A figure of several panels: charts, tables and pictures below each other or side by side, made for 600 points.

use super::chart::LineChart;
use super::picture::Picture;
use super::shapes::ShapeColumn;
use super::svg::{Anchor, Rect, Style, Svg};
use super::table::HeatTable;
use super::text;
use super::theme::{Palette, Theme};
use crate::error::Error;

/// White around the figure.
const MARGIN: f64 = 18.0;
/// Between panels.
const GAP: f64 = 18.0;
const TITLE_FONT: f64 = 15.0;
const TITLE_LINE: f64 = 20.0;
const CAPTION_FONT: f64 = 10.5;
const CAPTION_LINE: f64 = 15.0;
/// Font size of a panel's title.
pub(super) const PANEL_FONT: f64 = 11.5;
/// Room for a panel's title.
pub(super) const PANEL_TITLE: f64 = 20.0;
/// Font size of labels and numbers.
pub(super) const LABEL_FONT: f64 = 10.0;
/// More than a viewer can open.
const MOST_POINTS: f64 = 20_000.0;

/// What to draw.
#[derive(Clone, Debug)]
pub struct Figure<'a> {
    /// The title; empty = none.
    pub title: &'a str,
    /// Small print below; empty = none.
    pub caption: &'a str,
    /// The panels, in reading order.
    pub panels: Vec<Panel>,
    /// How many panels stand side by side; at least 1.
    pub columns: usize,
    /// The colours around the data.
    pub theme: Theme,
}

/// A part of a figure.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Panel {
    /// Series over labelled places.
    Lines(LineChart),
    /// Numbers as colours, in rows and columns.
    Table(HeatTable),
    /// The values of a graph with their shapes.
    Shapes(ShapeColumn),
    /// A picture drawn before, in the same theme; it is not wider than its column, or is scaled down to it.
    Picture(Picture),
}

impl Figure<'_> {
    /// Points from edge to edge.
    pub const WIDTH: f64 = 600.0;

    /// Points that a panel has when it stands alone in its row.
    pub const INNER_WIDTH: f64 = Self::WIDTH - 2.0 * MARGIN;

    /// Draws the figure.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] when it would be too high to be opened.
    pub fn draw(&self) -> Result<Picture, Error> {
        let palette = self.theme.palette();
        let columns = self.columns.clamp(1, self.panels.len().max(1));
        let inner = Self::INNER_WIDTH;
        let panel_width = (inner - GAP * (columns as f64 - 1.0)) / columns as f64;
        let title = text::wrap(self.title, 1.2 * TITLE_FONT, inner, 3);
        let caption = text::wrap(self.caption, CAPTION_FONT, inner, 10);
        let rows: Vec<&[Panel]> = self.panels.chunks(columns).collect();
        let heights: Vec<f64> =
            rows.iter().map(|row| row.iter().map(|panel| panel.height(panel_width)).fold(0.0, f64::max)).collect();
        let top = MARGIN + title.len() as f64 * TITLE_LINE + if title.is_empty() { 0.0 } else { 6.0 };
        let body: f64 = heights.iter().map(|height| height + GAP).sum();
        let height = (top + body + caption.len() as f64 * CAPTION_LINE + MARGIN - 6.0).ceil();
        check_height(height)?;

        let mut svg = Svg::new(Self::WIDTH, height, self.title);
        svg.rect(Rect { x: 0.0, y: 0.0, width: Self::WIDTH, height }, palette.background, "");
        lines(
            &mut svg,
            &title,
            MARGIN + 0.4 * TITLE_LINE,
            TITLE_LINE,
            Style { bold: true, ..label(TITLE_FONT, palette.text) },
        );
        let mut y = top;
        for (row, height) in rows.iter().zip(&heights) {
            for (column, panel) in row.iter().enumerate() {
                let x = MARGIN + column as f64 * (panel_width + GAP);
                panel.draw(&mut svg, Rect { x, y, width: panel_width, height: *height }, palette);
            }
            y += height + GAP;
        }
        lines(&mut svg, &caption, y + 0.4 * CAPTION_LINE, CAPTION_LINE, label(CAPTION_FONT, palette.muted));
        Ok(Picture { svg: svg.finish(), width: Self::WIDTH, height })
    }
}

fn check_height(height: f64) -> Result<(), Error> {
    if height <= MOST_POINTS {
        return Ok(());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "heights are positive, and the cast saturates"
    )]
    let [need, have] = [height, MOST_POINTS].map(|points| points as u64);
    Err(Error::LimitExceeded {
        what: "the figure".into(),
        need,
        have,
        unit: "points in height",
        limit: "the most that a viewer opens".into(),
        hint: "give fewer cases at once".into(),
    })
}

impl Panel {
    fn height(&self, width: f64) -> f64 {
        match self {
            Self::Lines(chart) => chart.height(width),
            Self::Table(table) => table.height(),
            Self::Shapes(column) => column.height(),
            Self::Picture(picture) => picture.height * (width / picture.width).min(1.0),
        }
    }

    fn draw(&self, svg: &mut Svg, place: Rect, palette: Palette) {
        match self {
            Self::Lines(chart) => chart.draw(svg, place, palette),
            Self::Table(table) => table.draw(svg, place, palette),
            Self::Shapes(column) => column.draw(svg, place, palette),
            Self::Picture(picture) => {
                let scale = (place.width / picture.width).min(1.0);
                let (width, height) = (picture.width * scale, picture.height * scale);
                svg.nested(&picture.svg, Rect { x: place.x, y: place.y, width, height });
            }
        }
    }
}

fn lines(svg: &mut Svg, lines: &[String], top: f64, line_height: f64, style: Style) {
    for (line, words) in lines.iter().enumerate() {
        svg.text((MARGIN, top + line as f64 * line_height), words, style);
    }
}

/// A panel's title.
pub(super) fn panel_title(svg: &mut Svg, title: &str, place: Rect, palette: Palette) {
    let title = text::shorten(title, 1.2 * PANEL_FONT, place.width);
    svg.text((place.x, place.y + 0.35 * PANEL_TITLE), &title, Style { bold: true, ..label(PANEL_FONT, palette.text) });
}

/// Plain text that begins at its place.
pub(super) fn label(size: f64, fill: &'static str) -> Style {
    Style { size, fill, bold: false, anchor: Anchor::Start, turn: 0.0 }
}
