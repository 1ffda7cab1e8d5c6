//! What stands at a number's place in a chart.

use super::super::figure::{LABEL_FONT, label};
use super::super::svg::{Anchor, Rect, Style, Svg, short};
use super::super::text;
use super::super::theme::Palette;

/// Half of a marker.
const MARKER: f64 = 3.6;

/// A number on a patch of background, so that no line crosses it.
pub(super) fn number_beside(svg: &mut Svg, (x, y): (f64, f64), number: &str, palette: Palette) {
    let width = text::width(number, LABEL_FONT);
    let patch = Rect { x: x - width / 2.0 - 1.0, y: y - 5.5, width: width + 2.0, height: 11.0 };
    svg.rect(patch, palette.background, "opacity=\"0.85\"");
    svg.text((x, y), number, Style { anchor: Anchor::Middle, ..label(LABEL_FONT, palette.text) });
}

/// A mark that differs from the others in colour and in form.
pub(super) fn marker(svg: &mut Svg, (x, y): (f64, f64), index: usize, palette: Palette) {
    let color = palette.series[index % palette.series.len()];
    let (x, y, r) = (short(x), short(y), MARKER);
    let path = match index % 6 {
        0 => format!("M{} {y}a{r} {r} 0 1 0 {} 0a{r} {r} 0 1 0 -{} 0z", x - r, 2.0 * r, 2.0 * r),
        1 => format!("M{} {}h{}v{}h-{}z", x - r, y - r, 2.0 * r, 2.0 * r, 2.0 * r),
        2 => format!("M{x} {}l{} {}h-{}z", y - 1.2 * r, 1.2 * r, 2.1 * r, 2.4 * r),
        3 => {
            format!("M{x} {}l{} {}l-{} {}l-{} -{}z", y - 1.3 * r, 1.3 * r, 1.3 * r, 1.3 * r, 1.3 * r, 1.3 * r, 1.3 * r)
        }
        4 => format!("M{x} {}l{} -{}h-{}z", y + 1.2 * r, 1.2 * r, 2.1 * r, 2.4 * r),
        _ => format!("M{} {}l{} {}m0 -{}l-{} {}", x - r, y - r, 2.0 * r, 2.0 * r, 2.0 * r, 2.0 * r, 2.0 * r),
    };
    let stroke = if index % 6 == 5 { format!("stroke=\"{color}\" stroke-width=\"2\"") } else { String::new() };
    svg.raw(&format!("<path fill=\"{color}\" {stroke} d=\"{path}\"/>\n"));
}
