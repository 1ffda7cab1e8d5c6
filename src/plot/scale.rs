//! From weights to colours: one scale for all maps of a picture, from 0 to a round number.

use std::fmt::Write as _;

use super::svg::{Rect, Svg};
use crate::maps::AttentionMap;

/// How many colours are told apart; so many that the eye does not see the steps.
pub(super) const NUM_LEVELS: u16 = 256;

/// A round top and the places of the colour bar's ticks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ColorScale {
    top: f64,
    parts: u8,
}

impl ColorScale {
    /// The scale that holds every weight of the maps: 0 to the next round number.
    pub(super) fn for_maps(maps: &[AttentionMap<'_>]) -> Self {
        let weights = maps.iter().flat_map(AttentionMap::rows).flatten();
        let largest = weights.copied().filter(|&weight| is_weight(weight)).fold(0.0, f32::max);
        Self::up_to(largest.into())
    }

    /// The scale that holds every finite number, from 0.
    pub(super) fn for_numbers(numbers: impl Iterator<Item = f64>) -> Self {
        Self::up_to(numbers.filter(|number| number.is_finite()).fold(0.0, f64::max))
    }

    fn up_to(largest: f64) -> Self {
        if largest == 0.0 {
            return Self { top: 1.0, parts: 5 };
        }
        // A softmax row may sum to a little more than 1.
        let largest = largest * (1.0 - 1e-5);
        let unit = 10_f64.powf(largest.log10().floor());
        [(1, 5), (2, 4), (3, 3), (4, 4), (5, 5), (6, 3), (8, 4)]
            .into_iter()
            .map(|(multiple, parts)| Self { top: f64::from(multiple) * unit, parts })
            .find(|scale| scale.top >= largest)
            .unwrap_or(Self { top: 10.0 * unit, parts: 5 })
    }

    /// The level of a weight, 0 to 255; `None` for what is no weight: NaN, infinite, negative.
    pub(super) fn level(&self, weight: f32) -> Option<u8> {
        let share = (f64::from(weight) / self.top).min(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share lies between 0 and 1")]
        is_weight(weight).then_some((share * f64::from(NUM_LEVELS - 1)).round() as u8)
    }

    /// Where the colour bar's ticks stand, as shares of its height from the bottom, and what is written there.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let label = |part: u8| {
            let share = f64::from(part) / f64::from(self.parts);
            (share, tick_label(share * self.top))
        };
        (0..=self.parts).map(label).collect()
    }
}

/// Two significant digits, as an exponent where zeros would be many.
fn tick_label(value: f64) -> String {
    if value == 0.0 || (1e-3..1e4).contains(&value) {
        let digits = (value * 1e5).round() / 1e5;
        return digits.to_string();
    }
    format!("{value:.0e}")
}

/// Whether a number can be a share of attention at all.
pub(super) fn is_weight(weight: f32) -> bool {
    weight.is_finite() && weight >= 0.0
}

/// The colour of a level in viridis, which is perceptually uniform and safe for colour-blind readers: "#440154".
pub(super) fn color(level: u8) -> String {
    let share = f64::from(level) / f64::from(NUM_LEVELS - 1);
    format!("#{:x}", colorous::VIRIDIS.eval_continuous(share))
}

/// Draws the colours of all levels from bottom to top. Strips, not a gradient: a gradient needs a name, and of two
/// drawings in one document both would have it.
pub(super) fn draw_bar(svg: &mut Svg, bar: Rect) {
    let Rect { x, y, width, height } = bar;
    let strip = height / f64::from(NUM_LEVELS);
    let mut strips = String::new();
    for level in 0..=u8::MAX {
        // Up to the top, so that no seam shows the background.
        let rest = NUM_LEVELS - u16::from(level);
        let _ = writeln!(strips, "<path fill=\"{}\" d=\"M0 0h1v{rest}h-1z\"/>", color(level)); // cannot fail
    }
    svg.raw(&format!(
        "<g shape-rendering=\"crispEdges\" transform=\"translate({x} {y}) scale({width} {strip})\">\n{strips}</g>\n"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_top_is_the_next_round_number() {
        for (largest, top) in [
            (0.0, 1.0),
            (1.000_001, 1.0),
            (0.93, 1.0),
            (0.81, 1.0),
            (0.41, 0.5),
            (0.011, 0.02),
            (7.5, 8.0),
            (1e-40, 1e-40),
        ] {
            let got = ColorScale::up_to(largest).top;
            assert!((got / top - 1.0).abs() < 1e-9, "largest {largest}: got {got}, expected {top}");
        }
    }

    #[test]
    fn levels_run_from_the_bottom_to_the_top() {
        let scale = ColorScale::up_to(0.5);
        let levels = [0.0, 0.25, 0.5, -0.0].map(|weight| scale.level(weight));
        assert_eq!(levels, [Some(0), Some(128), Some(255), Some(0)]);
        assert_eq!([f32::NAN, f32::INFINITY, -0.1].map(|weight| scale.level(weight)), [None; 3]);
    }

    #[test]
    fn ends_of_viridis() {
        assert_eq!([color(0), color(255)], ["#440154", "#fde725"]);
    }

    #[test]
    fn ticks_are_short() {
        let labels = |largest| -> Vec<String> {
            let ticks = ColorScale::up_to(largest).ticks();
            ticks.into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(labels(1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(labels(0.06), ["0", "0.02", "0.04", "0.06"]);
        assert_eq!(labels(0.019), ["0", "0.005", "0.01", "0.015", "0.02"]);
        assert_eq!(labels(3e-7), ["0", "1e-7", "2e-7", "3e-7"]);
    }
}
