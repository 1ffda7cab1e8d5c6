//! Just enough SVG: numbers, shapes and text, appended to a string.

use std::fmt::Write as _;

use super::text::escape;

/// An SVG document in the making.
#[derive(Debug)]
pub(super) struct Svg(String);

/// Where a text's place is: at its beginning, its middle or its end.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) size: f64,
    pub(super) fill: &'static str,
    pub(super) bold: bool,
    pub(super) anchor: Anchor,
    /// Degrees clockwise, around the text's place.
    pub(super) turn: f64,
}

/// A rectangle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rect {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Svg {
    /// Opens a document of the given size. `name` is for readers who do not see the picture.
    pub(super) fn new(width: f64, height: f64, name: &str) -> Self {
        let mut svg = Self(String::new());
        svg.raw(&format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"'DejaVu Sans', Verdana, sans-serif\">\n<title>{}</title>\n",
            escape(name)
        ));
        svg
    }

    /// Appends markup as it is.
    pub(super) fn raw(&mut self, markup: &str) {
        self.0.push_str(markup);
    }

    /// Appends a filled rectangle; `fill` may be a colour or `url(#…)`.
    pub(super) fn rect(&mut self, rect: Rect, fill: &str, attributes: &str) {
        let Rect { x, y, width, height } = rect;
        self.raw(&format!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\" {attributes}/>\n",
            short(x),
            short(y),
            short(width),
            short(height)
        ));
    }

    /// Appends one line of text whose middle line passes through (x, y).
    pub(super) fn text(&mut self, (x, y): (f64, f64), content: &str, style: Style) {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        // `dominant-baseline` is drawn differently by different viewers; half the height of a capital is not.
        let shift = short(0.36 * style.size);
        let (x, y) = (short(x), short(y));
        let weight = if style.bold { " font-weight=\"bold\"" } else { "" };
        let turn = style.turn;
        let place = format!("translate({x} {y}) rotate({turn})");
        let _ = writeln!(
            self.0, // writing into a String cannot fail
            "<text transform=\"{place}\" y=\"{shift}\" font-size=\"{}\"{weight} fill=\"{}\" \
             text-anchor=\"{anchor}\">{}</text>",
            short(style.size),
            style.fill,
            escape(content)
        );
    }

    /// Appends what `draw` draws, with words that a viewer shows when pointed at it.
    pub(super) fn tipped(&mut self, tip: &str, draw: impl FnOnce(&mut Self)) {
        self.raw(&format!("<g><title>{}</title>\n", escape(tip)));
        draw(self);
        self.raw("</g>\n");
    }

    /// Appends a whole document, scaled into a place.
    pub(super) fn nested(&mut self, document: &str, place: Rect) {
        let Rect { x, y, width, height } = place;
        // Of two attributes of one name XML allows only one: the document's own size stands in its `viewBox`.
        let inner = document.find("viewBox").map_or(document, |start| &document[start..]);
        let (x, y, width, height) = (short(x), short(y), short(width), short(height));
        self.raw(&format!("<svg x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {inner}"));
    }

    /// Closes the document.
    pub(super) fn finish(mut self) -> String {
        self.raw("</svg>\n");
        self.0
    }
}

/// A length to a hundredth of a point, without trailing zeros.
pub(super) fn short(length: f64) -> f64 {
    (length * 100.0).round() / 100.0
}
