//! The picture itself: background, heads, colour bar, words around them.

use super::axis::{SLANT, Turn};
use super::cells;
use super::layout::{
    AXIS_TITLE, CAPTION_LINE, HEAD_FONT, LABEL_GAP, Layout, MARGIN, NOTE_FONT, TITLE_FONT, TITLE_LINE,
};
use super::scale::{self, ColorScale};
use super::svg::{Anchor, Rect, Style, Svg, short};
use super::text;
use super::theme::{INVALID, Palette};
use crate::maps::AttentionMap;

/// Width of an axis title's letters.
const AXIS_FONT: f64 = 10.5;
/// Font size of the colour bar's ticks.
const BAR_FONT: f64 = 9.5;
/// From a map to the end of a tick.
const TICK: f64 = 3.5;

/// What is drawn, all of it decided.
#[derive(Debug)]
pub(super) struct Drawing<'drawing> {
    pub(super) maps: &'drawing [AttentionMap<'drawing>],
    pub(super) notes: &'drawing [String],
    pub(super) layout: &'drawing Layout,
    pub(super) scale: &'drawing ColorScale,
    pub(super) palette: Palette,
    /// How many cells hold no weight.
    pub(super) num_invalid: usize,
}

impl Drawing<'_> {
    /// The whole picture as an SVG document.
    pub(super) fn svg(&self) -> String {
        let layout = self.layout;
        let name = if layout.title.is_empty() { "Attention maps".into() } else { layout.title.join(" ") };
        let mut svg = Svg::new(layout.width, layout.height, &name);
        let page = Rect { x: 0.0, y: 0.0, width: layout.width, height: layout.height };
        svg.rect(page, self.palette.background, "");
        self.title(&mut svg);
        for (head, map) in self.maps.iter().enumerate() {
            self.head(&mut svg, head, map);
        }
        self.color_bar(&mut svg);
        self.footer(&mut svg);
        svg.finish()
    }

    fn title(&self, svg: &mut Svg) {
        let style = Style { bold: true, ..style(TITLE_FONT, self.palette.text) };
        for (line, words) in self.layout.title.iter().enumerate() {
            let y = MARGIN + (line as f64 + 0.4) * TITLE_LINE;
            svg.text((MARGIN, y), words, style);
        }
    }

    fn head(&self, svg: &mut Svg, head: usize, map: &AttentionMap<'_>) {
        let (x, y) = self.layout.origin(head);
        let (width, height) = self.layout.panel.map;
        let bold = Style { bold: true, ..style(HEAD_FONT, self.palette.text) };
        svg.text((x, y - 11.0), &head_title(head), bold);
        if let Some(note) = self.notes.get(head) {
            let end = x + self.layout.panel.width;
            svg.text((end, y - 11.0), note, self.note(Anchor::End));
        }
        if map.num_queries() == 0 || map.num_keys() == 0 {
            let nothing = if map.num_queries() == 0 { "no queries" } else { "no keys" };
            let middle = (x + width / 2.0, y + height / 2.0);
            svg.text(middle, nothing, self.note(Anchor::Middle));
        } else {
            cells::draw(svg, map, self.scale, (x, y), self.layout.panel.cell);
        }
        self.frame(svg, Rect { x, y, width, height });
        self.query_axis(svg, (x, y), head.is_multiple_of(self.layout.columns));
        self.key_axis(svg, (x, y), head + self.layout.columns >= self.maps.len());
    }

    /// Labels left of the map and, at the outermost maps, the axis title.
    fn query_axis(&self, svg: &mut Svg, (x, y): (f64, f64), is_outer: bool) {
        let layout = self.layout;
        let style = Style { anchor: Anchor::End, ..style(layout.panel.label_font, self.palette.text) };
        for (query, label) in &layout.panel.queries.labels {
            let middle = y + (*query as f64 + 0.5) * layout.panel.cell.1;
            svg.text((x - LABEL_GAP, middle), label, style);
        }
        if layout.panel.queries.step > 1 {
            let tick = |query: usize| format!("M{x} {}h-{TICK}", y + (query as f64 + 0.5) * layout.panel.cell.1);
            self.ticks(svg, layout.panel.queries.labels.iter().map(|(query, _)| tick(*query)));
        }
        if is_outer {
            let style = Style { turn: -90.0, ..self.axis_title() };
            let place = (x - layout.panel.query_labels - 10.0, y + layout.panel.map.1 / 2.0);
            svg.text(place, "query", style);
        }
    }

    /// Labels below the map and, at the outermost maps, the axis title.
    fn key_axis(&self, svg: &mut Svg, (x, y): (f64, f64), is_outer: bool) {
        let layout = self.layout;
        let bottom = y + layout.panel.map.1;
        let (turn, anchor, drop) = match layout.panel.key_turn {
            Turn::Level => (0.0, Anchor::Middle, 0.5 * layout.panel.label_font),
            Turn::Slanted => (-SLANT, Anchor::End, 0.3 * layout.panel.label_font),
            Turn::Upright => (-90.0, Anchor::End, 0.0),
        };
        let style = Style { anchor, turn, ..style(layout.panel.label_font, self.palette.text) };
        for (key, label) in &layout.panel.keys.labels {
            let middle = x + (*key as f64 + 0.5) * layout.panel.cell.0;
            svg.text((middle, bottom + LABEL_GAP + drop), label, style);
        }
        if layout.panel.keys.step > 1 {
            let tick = |key: usize| format!("M{} {bottom}v{TICK}", x + (key as f64 + 0.5) * layout.panel.cell.0);
            self.ticks(svg, layout.panel.keys.labels.iter().map(|(key, _)| tick(*key)));
        }
        if is_outer {
            let below = bottom + LABEL_GAP + layout.panel.key_labels + AXIS_TITLE / 2.0;
            svg.text((x + layout.panel.map.0 / 2.0, below), "key", self.axis_title());
        }
    }

    fn color_bar(&self, svg: &mut Svg) {
        let bar = self.layout.bar;
        scale::draw_bar(svg, bar);
        self.frame(svg, bar);
        let right = bar.x + bar.width;
        let ticks = self.scale.ticks();
        let height_of = |share: f64| short(bar.y + (1.0 - share) * bar.height);
        for (share, label) in &ticks {
            let place = (right + TICK + 3.5, height_of(*share));
            svg.text(place, label, style(BAR_FONT, self.palette.text));
        }
        let tick = |share: f64| format!("M{right} {}h{TICK}", height_of(share));
        self.ticks(svg, ticks.iter().map(|(share, _)| tick(*share)));
        let style = Style { turn: -90.0, ..self.axis_title() };
        let widest = ticks.iter().map(|(_, label)| text::width(label, BAR_FONT)).fold(0.0, f64::max);
        let place = (right + TICK + 3.5 + widest + 13.0, bar.y + bar.height / 2.0);
        svg.text(place, "attention weight", style);
    }

    /// The legend of cells that hold no weight, then the caption.
    fn footer(&self, svg: &mut Svg) {
        let mut y = self.layout.footer + CAPTION_LINE / 2.0;
        if self.num_invalid > 0 {
            let side = 10.0;
            let swatch = Rect { x: MARGIN, y: y - side / 2.0, width: side, height: side };
            svg.rect(swatch, INVALID, "");
            let cross = cells::cross((MARGIN + 3.0, y - 2.0), (4.0, 4.0));
            svg.raw(&format!("<path stroke=\"#ffffff\" d=\"{cross}\"/>\n"));
            let words = match self.num_invalid {
                1 => "1 cell is not a weight: NaN, infinite or negative".into(),
                many => format!("{many} cells are not weights: NaN, infinite or negative"),
            };
            let style = style(NOTE_FONT, self.palette.text);
            svg.text((MARGIN + side + 6.0, y), &words, style);
            y += CAPTION_LINE;
        }
        for line in &self.layout.caption {
            svg.text((MARGIN, y), line, self.note(Anchor::Start));
            y += CAPTION_LINE;
        }
    }

    fn frame(&self, svg: &mut Svg, rect: Rect) {
        let line = self.palette.line;
        // Outside the rectangle, so that it covers no part of a cell.
        let around = Rect { x: rect.x - 0.5, y: rect.y - 0.5, width: rect.width + 1.0, height: rect.height + 1.0 };
        svg.rect(around, "none", &format!("stroke=\"{line}\" stroke-width=\"1\""));
    }

    fn ticks(&self, svg: &mut Svg, ticks: impl Iterator<Item = String>) {
        let path: String = ticks.collect();
        svg.raw(&format!("<path stroke=\"{}\" stroke-width=\"1\" d=\"{path}\"/>\n", self.palette.line));
    }

    fn note(&self, anchor: Anchor) -> Style {
        Style { anchor, ..style(NOTE_FONT, self.palette.muted) }
    }

    fn axis_title(&self) -> Style {
        Style { anchor: Anchor::Middle, ..style(AXIS_FONT, self.palette.muted) }
    }
}

/// What stands above a map.
pub(super) fn head_title(head: usize) -> String {
    format!("head {head}")
}

/// Plain text that begins at its place.
fn style(size: f64, fill: &'static str) -> Style {
    Style { size, fill, bold: false, anchor: Anchor::Start, turn: 0.0 }
}
