//! Where everything stands. All lengths are points of the SVG; the maps lie in a grid, each with room for its labels.

use super::axis::{Axis, SLANT, Turn};
use super::svg::Rect;
use super::text;
use crate::error::Error;

/// White around the picture.
pub(super) const MARGIN: f64 = 24.0;
/// From the labels to their map.
pub(super) const LABEL_GAP: f64 = 5.0;
/// Room for one axis title.
pub(super) const AXIS_TITLE: f64 = 18.0;
/// Room for a head's title above its map.
const HEAD_TITLE: f64 = 20.0;
/// Font size of the heads' titles.
pub(super) const HEAD_FONT: f64 = 11.5;
/// Font size of the notes beside them, the caption and the legend.
pub(super) const NOTE_FONT: f64 = 10.5;
/// Font size of the figure's title.
pub(super) const TITLE_FONT: f64 = 17.0;
/// One line of the figure's title.
pub(super) const TITLE_LINE: f64 = 23.0;
/// One line of the caption.
pub(super) const CAPTION_LINE: f64 = 15.0;
const BAR_WIDTH: f64 = 13.0;

const BAR_GAP: f64 = 30.0;
/// Tick labels and title of the colour bar.
const BAR_LABELS: f64 = 58.0;
const MIN_BODY_HEIGHT: f64 = 110.0;
const MAX_BAR_HEIGHT: f64 = 260.0;
const COLUMN_GAP: f64 = 22.0;
const ROW_GAP: f64 = 22.0;
const MIN_WIDTH: f64 = 380.0;
const MAX_TITLE_LINES: usize = 3;
const MAX_CAPTION_LINES: usize = 8;
const MAX_CELL: f64 = 36.0;
/// A single row of many keys is still this high.
const MIN_SIDE: f64 = 18.0;
/// Up to so many tokens each gets a label, if the heads are few.
const LABELLED: usize = 32;
const LABELLED_CELL: f64 = 11.0;
/// What a map without cells measures.
const EMPTY_SIDE: f64 = 96.0;

/// More than a viewer can open.
const MAX_AREA: f64 = 24e6;
/// More than an SVG can hold.
const MAX_CELLS: usize = 1 << 22;

/// What the layout must know of the picture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request<'request> {
    pub(super) num_heads: usize,
    pub(super) num_queries: usize,
    pub(super) num_keys: usize,
    pub(super) query_tokens: &'request [String],
    pub(super) key_tokens: &'request [String],
    /// Width of the widest line above a map.
    pub(super) head_title_width: f64,
    pub(super) title: &'request str,
    pub(super) caption: &'request str,
    /// Whether there are cells to explain below the maps.
    pub(super) has_legend: bool,
    /// Cells are made smaller, as long as their labels allow it, until the picture is not wider than this.
    pub(super) max_width: f64,
}

/// One map and the room that its labels take.
#[derive(Clone, Debug)]
pub(super) struct Panel {
    pub(super) cell: (f64, f64),
    /// Width and height of the map.
    pub(super) map: (f64, f64),
    pub(super) label_font: f64,
    pub(super) queries: Axis,
    pub(super) keys: Axis,
    pub(super) key_turn: Turn,
    /// Height of the labels below the map.
    pub(super) key_labels: f64,
    /// Width of the labels left of the map.
    pub(super) query_labels: f64,
    /// Width of the map or, if that is wider, of the line above it.
    pub(super) width: f64,
}

impl Panel {
    fn new(request: &Request<'_>, shrink: f64) -> Self {
        let cell = cell_size(request.num_heads, request.num_queries, request.num_keys, shrink);
        let label_font = (0.68 * cell.0.min(cell.1)).clamp(8.0, 10.0);
        let queries = Axis::new(request.query_tokens, request.num_queries, cell.1, label_font);
        let keys = Axis::new(request.key_tokens, request.num_keys, cell.0, label_font);
        let key_turn = keys.turn(cell.0, label_font);
        let (key_labels, overhang) = turned_extent(key_turn, keys.width, label_font);
        let query_labels = (queries.width + LABEL_GAP).max(overhang - cell.0 / 2.0);
        let map = (side(cell.0, request.num_keys), side(cell.1, request.num_queries));
        let width = map.0.max(request.head_title_width);
        Self { cell, map, label_font, queries, keys, key_turn, key_labels, query_labels, width }
    }

    /// From one map to the next, across and down. Whole numbers keep the edges of cells on the edges of pixels.
    fn pitch(&self) -> (f64, f64) {
        let across = self.query_labels + self.width + COLUMN_GAP;
        let down = HEAD_TITLE + self.map.1 + LABEL_GAP + self.key_labels + ROW_GAP;
        (across.ceil(), down.ceil())
    }
}

/// The answer: sizes and places.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    /// What every map looks like.
    pub(super) panel: Panel,
    pub(super) columns: usize,
    pub(super) title: Vec<String>,
    pub(super) caption: Vec<String>,
    /// Top left of the first map.
    first: (f64, f64),
    /// From one map to the next.
    pitch: (f64, f64),
    /// The colour bar.
    pub(super) bar: Rect,
    /// Top of what stands below the maps.
    pub(super) footer: f64,
}

impl Layout {
    /// Places everything.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] when the picture would be too large to be opened.
    pub(super) fn new(request: Request<'_>) -> Result<Self, Error> {
        check_cells(&request)?;
        let smaller = [0.85, 0.7, 0.6, 0.5, 0.42, 0.35];
        let mut layout = Self::shrunk(request, 1.0);
        for shrink in smaller {
            if layout.width <= request.max_width {
                break;
            }
            layout = Self::shrunk(request, shrink);
        }
        layout.check_area(&request)
    }

    /// Places everything, with cells of so much of their usual size.
    fn shrunk(request: Request<'_>, shrink: f64) -> Self {
        let panel = Panel::new(&request, shrink);
        let pitch = panel.pitch();
        let columns = best_columns(request.num_heads, pitch);
        let rows = request.num_heads.div_ceil(columns) as f64;

        let bar_left = MARGIN + AXIS_TITLE + columns as f64 * pitch.0 - COLUMN_GAP + BAR_GAP;
        let width = (bar_left + BAR_WIDTH + BAR_LABELS + MARGIN).max(MIN_WIDTH).ceil();
        let text_width = width - 2.0 * MARGIN;
        // Bold letters are wider.
        let title = text::wrap(request.title, 1.2 * TITLE_FONT, text_width, MAX_TITLE_LINES);
        let caption = text::wrap(request.caption, NOTE_FONT, text_width, MAX_CAPTION_LINES);

        let left = (MARGIN + AXIS_TITLE + panel.query_labels).ceil();
        let top = MARGIN + title.len() as f64 * TITLE_LINE + HEAD_TITLE + 8.0;
        let body = (rows * pitch.1 - ROW_GAP - HEAD_TITLE + AXIS_TITLE).max(MIN_BODY_HEIGHT);
        let bar_height = ((rows - 1.0) * pitch.1 + panel.map.1).clamp(MIN_BODY_HEIGHT, MAX_BAR_HEIGHT);
        let footer = top + body + 14.0;
        let footer_lines = caption.len() + usize::from(request.has_legend);
        Self {
            width,
            height: (footer + footer_lines as f64 * CAPTION_LINE + MARGIN - 10.0).ceil(),
            panel,
            columns,
            title,
            caption,
            first: (left, top),
            pitch,
            bar: Rect { x: bar_left, y: top, width: BAR_WIDTH, height: bar_height },
            footer,
        }
    }

    /// Top left of a head's map.
    pub(super) fn origin(&self, head: usize) -> (f64, f64) {
        let column = (head % self.columns) as f64;
        let row = (head / self.columns) as f64;
        (self.first.0 + column * self.pitch.0, self.first.1 + row * self.pitch.1)
    }

    fn check_area(self, request: &Request<'_>) -> Result<Self, Error> {
        let area = self.width * self.height;
        if area <= MAX_AREA {
            return Ok(self);
        }
        Err(too_large(request, area, MAX_AREA, "points"))
    }
}

fn check_cells(request: &Request<'_>) -> Result<(), Error> {
    let cells = request.num_heads.saturating_mul(request.num_queries).saturating_mul(request.num_keys);
    if cells <= MAX_CELLS {
        return Ok(());
    }
    Err(too_large(request, cells as f64, MAX_CELLS as f64, "cells"))
}

fn too_large(request: &Request<'_>, need: f64, have: f64, unit: &'static str) -> Error {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "areas and counts are positive, and the cast saturates"
    )]
    let whole = |number: f64| number.ceil() as u64;
    Error::LimitExceeded {
        what: format!("a picture of {} maps of {}×{}", request.num_heads, request.num_queries, request.num_keys),
        need: whole(need),
        have: whole(have),
        unit,
        limit: "the most that a viewer opens".into(),
        hint: "draw fewer heads, or fewer queries and keys".into(),
    }
}

/// Width and height of a cell: square, unless one axis is so short that it would be a line.
fn cell_size(num_heads: usize, num_queries: usize, num_keys: usize, shrink: f64) -> (f64, f64) {
    let target = shrink
        * match num_heads {
            0..=1 => 440.0,
            2..=4 => 340.0,
            5..=16 => 256.0,
            17..=64 => 160.0,
            _ => 96.0,
        };
    let fitting = |count: usize| {
        let least = if count <= LABELLED && num_heads <= 16 { LABELLED_CELL } else { 1.0 };
        (target / count.max(1) as f64).round().clamp(least, (shrink * MAX_CELL).max(least))
    };
    let square = fitting(num_queries).min(fitting(num_keys));
    let stretched = |count: usize| square.max((MIN_SIDE / count.max(1) as f64).ceil());
    (stretched(num_keys), stretched(num_queries))
}

fn side(cell: f64, count: usize) -> f64 {
    if count == 0 { EMPTY_SIDE } else { cell * count as f64 }
}

/// How far turned labels reach down, and how far left of their column's centre.
fn turned_extent(turn: Turn, width: f64, font_size: f64) -> (f64, f64) {
    let (sin, cos) = SLANT.to_radians().sin_cos();
    match turn {
        Turn::Level => (font_size, 0.0),
        Turn::Slanted => (width * sin + font_size * cos, width * cos + font_size * sin),
        Turn::Upright => (width, 0.0),
    }
}

/// How many maps stand side by side: a picture a bit wider than high, with few holes in its last row.
fn best_columns(num_heads: usize, pitch: (f64, f64)) -> usize {
    let cost = |columns: usize| {
        let rows = num_heads.div_ceil(columns);
        let aspect = (columns as f64 * pitch.0) / (rows as f64 * pitch.1);
        let holes = (rows * columns - num_heads) as f64 / columns as f64;
        (aspect / 1.4).ln().abs() + holes
    };
    (1..=num_heads).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_fill_their_grid() {
        for (num_heads, columns) in [(1, 1), (2, 2), (4, 2), (6, 3), (8, 4), (12, 4), (16, 4), (32, 8)] {
            assert_eq!(best_columns(num_heads, (340.0, 330.0)), columns, "{num_heads} heads");
        }
        for num_heads in [5, 7, 11, 13, 17, 23] {
            let columns = best_columns(num_heads, (340.0, 330.0));
            let rows = num_heads.div_ceil(columns);
            assert!((2..=6).contains(&rows), "{num_heads} heads in {rows} rows of {columns}");
        }
    }

    #[test]
    fn cells_are_square_and_whole_unless_they_would_be_lines() {
        assert_eq!(cell_size(12, 16, 16, 1.0), (16.0, 16.0));
        assert_eq!(cell_size(12, 129, 129, 1.0), (2.0, 2.0));
        assert_eq!(cell_size(1, 3, 5, 1.0), (36.0, 36.0));
        assert_eq!(cell_size(1, 1, 1000, 1.0), (1.0, 18.0));
        assert_eq!(cell_size(1, 0, 0, 1.0), (36.0, 36.0));
    }
}
