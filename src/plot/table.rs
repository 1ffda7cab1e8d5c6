//! Numbers as colours, in rows and columns, each with a word in it.

use super::figure::{LABEL_FONT, PANEL_TITLE, label, panel_title};
use super::scale::{self, ColorScale};
use super::svg::{Anchor, Rect, Style, Svg, short};
use super::text;
use super::theme::{INVALID, Palette};

const ROW: f64 = 27.0;
const WORD_FONT: f64 = 9.0;
const WORD_LINE: f64 = 10.5;
/// Room for the labels of the columns and their title.
const HEADER: f64 = 28.0;
/// Colour bar, ticks and title, right of the table.
const BAR: f64 = 66.0;
const BAR_WIDTH: f64 = 11.0;
/// No row's label is wider.
const MOST_LABEL: f64 = 110.0;
/// Above this level of viridis, dark letters are read more easily than white ones.
const BRIGHT: u8 = 112;

/// A table of numbers, drawn on one colour scale from 0.
#[derive(Clone, Debug, Default)]
pub struct HeatTable {
    /// What stands above.
    pub title: String,
    /// What the columns are.
    pub column_title: String,
    /// One for each column.
    pub columns: Vec<String>,
    /// One for each row.
    pub rows: Vec<String>,
    /// What the colours are.
    pub bar_title: String,
    /// Row by row; a place without a number stays empty.
    pub cells: Vec<Option<HeatCell>>,
}

/// One number.
#[derive(Clone, Debug, Default)]
pub struct HeatCell {
    /// What the colour says.
    pub number: f64,
    /// What stands in the cell, where it fits; a line break starts a second line.
    pub words: String,
    /// What a viewer shows when pointed at it.
    pub tip: String,
}

impl HeatTable {
    pub(super) fn height(&self) -> f64 {
        PANEL_TITLE + HEADER + (self.rows.len() as f64 * ROW).max(70.0)
    }

    pub(super) fn draw(&self, svg: &mut Svg, place: Rect, palette: Palette) {
        panel_title(svg, &self.title, place, palette);
        let widest = self.rows.iter().map(|row| text::width(row, LABEL_FONT)).fold(0.0, f64::max).min(MOST_LABEL);
        let left = place.x + widest + 7.0;
        let top = place.y + PANEL_TITLE + HEADER;
        let width = place.x + place.width - BAR - left;
        let grid = Rect { x: left, y: top, width, height: self.rows.len() as f64 * ROW };
        let colors = ColorScale::for_numbers(self.cells.iter().flatten().map(|cell| cell.number));
        self.labels(svg, grid, palette);
        let columns = self.columns.len().max(1);
        let cells = self.cells.iter().enumerate().filter_map(|(index, cell)| Some((index, cell.as_ref()?)));
        for (index, cell) in cells {
            let size = (grid.width / columns as f64, ROW);
            let corner = (grid.x + (index % columns) as f64 * size.0, grid.y + (index / columns) as f64 * size.1);
            draw_cell(svg, cell, Rect { x: corner.0, y: corner.1, width: size.0, height: size.1 }, &colors);
        }
        self.color_bar(svg, place, grid, &colors, palette);
    }

    fn labels(&self, svg: &mut Svg, grid: Rect, palette: Palette) {
        let end = Style { anchor: Anchor::End, ..label(LABEL_FONT, palette.text) };
        for (row, name) in self.rows.iter().enumerate() {
            let name = text::shorten(name, LABEL_FONT, MOST_LABEL);
            svg.text((grid.x - 6.0, grid.y + (row as f64 + 0.5) * ROW), &name, end);
        }
        let middle = Style { anchor: Anchor::Middle, ..label(LABEL_FONT, palette.text) };
        let room = grid.width / self.columns.len().max(1) as f64;
        let widest = self.columns.iter().map(|name| text::width(name, LABEL_FONT) + 4.0).fold(0.0, f64::max);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a small positive ratio")]
        let step = ((widest / room).ceil() as usize).max(1);
        for (column, name) in self.columns.iter().enumerate().step_by(step) {
            svg.text((grid.x + (column as f64 + 0.5) * room, grid.y - 8.0), name, middle);
        }
        let muted = Style { anchor: Anchor::Middle, ..label(LABEL_FONT, palette.muted) };
        svg.text((grid.x + grid.width / 2.0, grid.y - 21.0), &self.column_title, muted);
    }

    fn color_bar(&self, svg: &mut Svg, place: Rect, grid: Rect, colors: &ColorScale, palette: Palette) {
        let x = place.x + place.width - BAR + 14.0;
        let bar = Rect { x, y: grid.y, width: BAR_WIDTH, height: grid.height.max(70.0) };
        scale::draw_bar(svg, bar);
        let right = bar.x + bar.width;
        for (share, tick) in colors.ticks() {
            let y = short(bar.y + (1.0 - share) * bar.height);
            svg.raw(&format!("<path stroke=\"{}\" d=\"M{right} {y}h3\"/>\n", palette.line));
            // The first and the last stay within the bar's height.
            let inside = y.clamp(bar.y + 4.0, bar.y + bar.height - 4.0);
            svg.text((right + 5.0, inside), &tick, label(9.0, palette.text));
        }
        let muted = Style { anchor: Anchor::Middle, turn: -90.0, ..label(LABEL_FONT, palette.muted) };
        svg.text((place.x + place.width - 5.0, bar.y + bar.height / 2.0), &self.bar_title, muted);
    }
}

fn draw_cell(svg: &mut Svg, cell: &HeatCell, place: Rect, colors: &ColorScale) {
    #[expect(clippy::cast_possible_truncation, reason = "a colour is less exact than a float")]
    let level = colors.level(cell.number as f32);
    let (fill, letters) = match level {
        Some(level) => (scale::color(level), if level > BRIGHT { "#101418" } else { "#ffffff" }),
        None => (INVALID.to_owned(), "#ffffff"),
    };
    svg.tipped(&cell.tip, |svg| {
        let inner = Rect {
            x: place.x + 0.5,
            y: place.y + 0.5,
            width: (place.width - 1.0).max(0.5),
            height: place.height - 1.0,
        };
        svg.rect(inner, &fill, "");
        let lines: Vec<&str> = cell.words.split('\n').collect();
        if lines.iter().all(|line| text::width(line, WORD_FONT) + 2.0 <= place.width) {
            let first = place.y + place.height / 2.0 - (lines.len() as f64 - 1.0) / 2.0 * WORD_LINE;
            for (index, line) in lines.iter().enumerate() {
                let style = Style { anchor: Anchor::Middle, ..label(WORD_FONT, letters) };
                svg.text((place.x + place.width / 2.0, first + index as f64 * WORD_LINE), line, style);
            }
        }
    });
}
