//! One HTML file that needs nothing else: drawings with values under the pointer, maps with a picker of heads.

use serde::Serialize;

use super::picture::Picture;
use super::scale;
use super::text::escape;
use super::theme::{INVALID, Palette, Theme};
use crate::error::Error;

const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/viewer.js");

/// More weights make a file that no browser likes.
const MOST_CELLS: usize = 1 << 22;
/// Weights are stored in ten-thousandths.
const PARTS: f32 = 10_000.0;

/// What the page holds.
#[derive(Clone, Debug)]
pub struct Page<'a> {
    /// The heading.
    pub title: &'a str,
    /// The parts, in order.
    pub sections: Vec<Section>,
}

/// A part of a page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Section {
    /// The same drawing for both themes; the page shows the one that fits.
    Drawing {
        /// For [`Theme::Light`](super::Theme::Light).
        light: Picture,
        /// For [`Theme::Dark`](super::Theme::Dark).
        dark: Picture,
    },
    /// Attention maps to look around in.
    Maps(MapViewer),
    /// Text in columns, as a terminal shows it.
    Text(String),
}

/// Attention maps in groups, chosen by one or more pickers.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MapViewer {
    /// What the pickers choose: "layer", "sentence".
    pub pickers: Vec<String>,
    /// Every combination that there is.
    pub groups: Vec<MapGroup>,
}

/// The maps of all heads of one layer for one sentence.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MapGroup {
    /// One choice for each picker.
    pub path: Vec<String>,
    /// Lq words for the rows.
    pub queries: Vec<String>,
    /// Lk words for the columns.
    pub keys: Vec<String>,
    /// The heads.
    pub heads: Vec<HeadMap>,
}

/// One head's map.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HeadMap {
    /// "head 3".
    pub name: String,
    /// What stands below its small picture.
    pub note: String,
    /// (Lq, Lk), row-major.
    #[serde(serialize_with = "in_parts")]
    pub weights: Vec<f32>,
}

impl Page<'_> {
    /// The file's text. It starts in the reader's own theme and has a button for the other.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] for more weights than a browser likes, [`Error::Invalid`] where a map has more or fewer
    /// weights than its words say.
    pub fn html(&self) -> Result<String, Error> {
        self.check()?;
        let mut html = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        html += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
        html += &format!("<title>{}</title>\n<style>\n{}{STYLE}</style>\n", escape(self.title), themes());
        html += "</head>\n<body>\n";
        html +=
            &format!("<header><h1>{}</h1><button id=\"theme\">light / dark</button></header>\n", escape(self.title));
        html.extend(self.sections.iter().map(Section::html));
        html += &format!("<script>\n\"use strict\";\n{}{SCRIPT}</script>\n</body>\n</html>\n", constants());
        Ok(html)
    }

    fn check(&self) -> Result<(), Error> {
        let viewers = self.sections.iter().filter_map(|section| match section {
            Section::Maps(viewer) => Some(viewer),
            _ => None,
        });
        let groups: Vec<&MapGroup> = viewers.flat_map(|viewer| &viewer.groups).collect();
        let mut cells = 0_usize;
        for group in groups {
            let size = group.queries.len() * group.keys.len();
            if let Some(head) = group.heads.iter().find(|head| head.weights.len() != size) {
                let (got, words) =
                    (head.weights.len(), format!("{} and {} words", group.queries.len(), group.keys.len()));
                return Err(Error::Invalid(format!("the map of {} has {got} weights, but {words}", head.name)));
            }
            cells = cells.saturating_add(size.saturating_mul(group.heads.len()));
        }
        if cells <= MOST_CELLS {
            return Ok(());
        }
        Err(Error::LimitExceeded {
            what: "the page".into(),
            need: cells as u64,
            have: MOST_CELLS as u64,
            unit: "weights",
            limit: "the most that a browser opens well".into(),
            hint: "give fewer or shorter cases".into(),
        })
    }
}

impl Section {
    fn html(&self) -> String {
        match self {
            Self::Text(text) => format!("<pre>{}</pre>\n", escape(text)),
            Self::Maps(viewer) => {
                let json = serde_json::to_string(viewer).expect("our own maps should have keys and texts of Unicode");
                // No text in it can end the script or begin a comment.
                let json = json.replace('<', "\\u003c");
                format!("<section class=\"maps\"><script type=\"application/json\">{json}</script></section>\n")
            }
            Self::Drawing { light, dark } => {
                let [light, dark] = [("light", light), ("dark", dark)]
                    .map(|(theme, picture)| format!("<div class=\"{theme}\">{}</div>\n", picture.svg()));
                format!("<section class=\"drawing\">\n{light}{dark}</section>\n")
            }
        }
    }
}

/// What the script should know: the colours of all levels, that of what is no weight, the parts of a weight.
fn constants() -> String {
    let colors: Vec<String> = (0..=u8::MAX).map(|level| format!("\"{}\"", scale::color(level))).collect();
    format!("const COLORS = [{}];\nconst INVALID = \"{INVALID}\";\nconst PARTS = {PARTS};\n", colors.join(","))
}

/// The themes' colours as properties: the reader's own unless the button has chosen.
fn themes() -> String {
    let [light, dark] = [(Theme::Light, "light"), (Theme::Dark, "dark")].map(|(theme, scheme)| {
        let Palette { background, text, muted, line, series } = theme.palette();
        let colors = [("back", background), ("text", text), ("muted", muted), ("line", line), ("mark", series[1])];
        let properties: String = colors.map(|(name, color)| format!("--{name}: {color}; ")).concat();
        format!("{properties}color-scheme: {scheme};")
    });
    let system = format!("@media (prefers-color-scheme: dark) {{ :root:not([data-theme=\"light\"]) {{ {dark} }} }}");
    format!(":root {{ {light} }}\n{system}\n:root[data-theme=\"dark\"] {{ {dark} }}\n")
}

/// In ten-thousandths; −1 for what is no weight.
fn in_parts<S: serde::Serializer>(weights: &[f32], serializer: S) -> Result<S::Ok, S::Error> {
    #[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
    let part = |&weight: &f32| if scale::is_weight(weight) { (weight * PARTS).round() as i32 } else { -1 };
    serializer.collect_seq(weights.iter().map(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(words: &str, weights: Vec<f32>) -> Result<String, Error> {
        let head = HeadMap { name: "head 0".into(), note: words.into(), weights };
        let group = MapGroup {
            path: vec![words.into()],
            queries: vec![words.into()],
            keys: vec!["b".into()],
            heads: vec![head],
        };
        let viewer = MapViewer { pickers: vec!["layer".into()], groups: vec![group] };
        Page { title: words, sections: vec![Section::Maps(viewer), Section::Text(words.into())] }.html()
    }

    #[test]
    fn a_page_needs_nothing_from_elsewhere() {
        let html = page("word", vec![0.25]).unwrap();
        for elsewhere in ["http://", "https://", "src=", "@import", "<link"] {
            assert!(!html.contains(elsewhere), "{elsewhere}");
        }
        assert!(html.contains("[2500]"));
        for theme in [Theme::Light, Theme::Dark] {
            assert!(html.contains(&format!("--back: {}; ", theme.palette().background)), "as in pictures: {theme:?}");
        }
    }

    #[test]
    fn words_stay_words() {
        let html = page("</script><b>&\"", vec![f32::NAN]).unwrap();
        assert_eq!(html.matches("</script>").count(), 2, "of the data and of the code");
        assert!(!html.contains("<b>") && html.contains("[-1]"));
    }

    #[test]
    fn a_map_of_another_size_is_refused() {
        insta::assert_snapshot!(page("a", vec![0.1; 3]).unwrap_err(), @"the map of head 0 has 3 weights, but 1 and 1 words");
    }
}
