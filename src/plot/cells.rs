//! The cells of one map as SVG paths: one path per colour, runs of equal cells joined, so that large maps stay small.

use std::fmt::Write as _;

use super::scale::{self, ColorScale, NUM_LEVELS};
use super::svg::Svg;
use super::theme::INVALID;
use crate::maps::AttentionMap;

/// Below this size a cross in a cell would be a blot.
const MIN_CROSSED_CELL: f64 = 6.0;

/// Draws the cells with the map's top left at `origin`.
pub(super) fn draw(svg: &mut Svg, map: &AttentionMap<'_>, scale: &ColorScale, origin: (f64, f64), cell: (f64, f64)) {
    let (num_keys, num_queries) = (map.num_keys(), map.num_queries());
    svg.raw(&format!(
        "<g shape-rendering=\"crispEdges\" transform=\"translate({} {}) scale({} {})\">\n",
        origin.0, origin.1, cell.0, cell.1
    ));
    // Most weights of a large map are about 0: one rectangle for all of them.
    svg.raw(&format!("<path fill=\"{}\" d=\"M0 0h{num_keys}v{num_queries}h-{num_keys}z\"/>\n", scale::color(0)));
    let runs = Runs::of(map, scale);
    for (level, path) in (0..=u8::MAX).zip(&runs.levels).filter(|(_, path)| !path.is_empty()) {
        svg.raw(&format!("<path fill=\"{}\" d=\"{path}\"/>\n", scale::color(level)));
    }
    if !runs.invalid.is_empty() {
        svg.raw(&format!("<path fill=\"{INVALID}\" d=\"{}\"/>\n", runs.invalid));
    }
    svg.raw("</g>\n");
    if cell.0.min(cell.1) >= MIN_CROSSED_CELL {
        draw_crosses(svg, map, scale, origin, cell);
    }
}

/// Path data in cells: what to fill with each level's colour, and what holds no weight.
struct Runs {
    levels: Vec<String>,
    invalid: String,
}

impl Runs {
    fn of(map: &AttentionMap<'_>, scale: &ColorScale) -> Self {
        let mut runs = Self { levels: vec![String::new(); NUM_LEVELS.into()], invalid: String::new() };
        for (query, row) in map.rows().enumerate() {
            let mut key = 0;
            let same = |a: &f32, b: &f32| scale.level(*a) == scale.level(*b);
            for run in row.chunk_by(same) {
                let len = run.len();
                let path = match scale.level(run[0]) {
                    Some(0) => None,
                    Some(level) => Some(&mut runs.levels[usize::from(level)]),
                    None => Some(&mut runs.invalid),
                };
                if let Some(path) = path {
                    let _ = write!(path, "M{key} {query}h{len}v1h-{len}z"); // cannot fail
                }
                key += len;
            }
        }
        runs
    }
}

/// A white cross in every cell that holds no weight, so that the cell differs in more than its hue.
fn draw_crosses(svg: &mut Svg, map: &AttentionMap<'_>, scale: &ColorScale, origin: (f64, f64), cell: (f64, f64)) {
    let mut path = String::new();
    for (query, row) in map.rows().enumerate() {
        for (key, _) in row.iter().enumerate().filter(|(_, weight)| scale.level(**weight).is_none()) {
            let x = origin.0 + (key as f64 + 0.3) * cell.0;
            let y = origin.1 + (query as f64 + 0.3) * cell.1;
            path.push_str(&cross((x, y), (0.4 * cell.0, 0.4 * cell.1)));
        }
    }
    if !path.is_empty() {
        svg.raw(&format!("<path stroke=\"#ffffff\" stroke-width=\"1\" d=\"{path}\"/>\n"));
    }
}

/// Path data of a cross with the given top left corner and size.
pub(super) fn cross((x, y): (f64, f64), (width, height): (f64, f64)) -> String {
    format!("M{x:.2} {y:.2}l{width:.2} {height:.2}m-{width:.2} 0l{width:.2} -{height:.2}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_neighbours_are_one_run_and_zeros_none() {
        let weights = [1.0, 1.0, 0.0, f32::NAN, 0.0, 1.0];
        let map = AttentionMap::new(&weights, 2, 3).expect("6 numbers");
        let runs = Runs::of(&map, &ColorScale::for_maps(&[map]));
        assert_eq!(runs.levels[255], "M0 0h2v1h-2zM2 1h1v1h-1z");
        assert_eq!(runs.levels[0], "");
        assert_eq!(runs.invalid, "M0 1h1v1h-1z");
    }
}
