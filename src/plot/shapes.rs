//! The values of a graph below each other, each with the op that makes it and its shape.

use super::figure::{LABEL_FONT, PANEL_TITLE, label, panel_title};
use super::svg::{Anchor, Rect, Style, Svg};
use super::text;
use super::theme::Palette;

const BOX: f64 = 22.0;
const HOW_FONT: f64 = 9.0;
const HOW_LINE: f64 = 13.0;
const GAP: f64 = 5.0;

/// The values of one call.
#[derive(Clone, Debug, Default)]
pub struct ShapeColumn {
    /// What is called.
    pub title: String,
    /// From first to last.
    pub values: Vec<ShapeBox>,
}

/// One value.
#[derive(Clone, Debug, Default)]
pub struct ShapeBox {
    /// The op.
    pub op: String,
    /// The value's name.
    pub name: String,
    /// Its shape, as it prints.
    pub shape: String,
    /// Small print below; empty = none.
    pub how: String,
    /// Whether it is given, not computed.
    pub given: bool,
}

impl ShapeColumn {
    pub(super) fn height(&self) -> f64 {
        PANEL_TITLE + self.values.iter().map(|value| value.height() + GAP).sum::<f64>()
    }

    pub(super) fn draw(&self, svg: &mut Svg, place: Rect, palette: Palette) {
        panel_title(svg, &self.title, place, palette);
        let mut y = place.y + PANEL_TITLE;
        for value in &self.values {
            value.draw(svg, Rect { y, height: value.height(), ..place }, palette);
            y += value.height() + GAP;
        }
    }
}

impl ShapeBox {
    fn height(&self) -> f64 {
        BOX + if self.how.is_empty() { 0.0 } else { HOW_LINE }
    }

    fn draw(&self, svg: &mut Svg, place: Rect, palette: Palette) {
        let dashes = if self.given { " stroke-dasharray=\"3 3\"" } else { "" };
        svg.rect(place, "none", &format!("rx=\"4\" stroke=\"{}\"{dashes}", palette.line));
        let middle = place.y + BOX / 2.0;
        svg.text((place.x + 7.0, middle), &self.op, label(LABEL_FONT, palette.muted));
        svg.text(
            (place.x + 0.4 * place.width, middle),
            &self.name,
            Style { bold: true, ..label(LABEL_FONT, palette.text) },
        );
        let end = Style { anchor: Anchor::End, ..label(LABEL_FONT, palette.text) };
        svg.text((place.x + place.width - 7.0, middle), &self.shape, end);
        if !self.how.is_empty() {
            let how = text::shorten(&self.how, HOW_FONT, place.width - 14.0);
            svg.text((place.x + 7.0, place.y + BOX + 0.3 * HOW_LINE), &how, label(HOW_FONT, palette.muted));
        }
    }
}
