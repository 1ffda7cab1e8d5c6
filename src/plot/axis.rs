//! The labels along one side of a map: as many as fit, each short enough.

use super::text;

/// A label's room along the axis, in font sizes; less and neighbours touch.
const PITCH: f64 = 1.15;
/// As [`PITCH`], for the indices of a long axis: a reader counts on from any of them.
const INDEX_PITCH: f64 = 2.2;
/// From here on an axis is long.
const MANY: usize = 33;
/// No label is longer than this, in font sizes.
const MAX_LABEL: f64 = 6.6;

/// The angle of slanted labels in degrees: less and a full stop touches the word after it.
pub(super) const SLANT: f64 = 55.0;

/// How the keys' labels are turned, so that neighbours never collide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Every label fits into its column.
    Level,
    /// By [`SLANT`], ending at its column.
    Slanted,
    /// By 90°, ending at its column.
    Upright,
}

/// The labels of one axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    /// Row or column, and what is written there.
    pub(super) labels: Vec<(usize, String)>,
    /// Every so many rows or columns have a label.
    pub(super) step: usize,
    /// The widest label.
    pub(super) width: f64,
}

impl Axis {
    /// Labels `count` cells of size `cell`: with their tokens or, where there are none, with their indices.
    pub(super) fn new(tokens: &[String], count: usize, cell: f64, font_size: f64) -> Self {
        let pitch = if tokens.is_empty() && count >= MANY { INDEX_PITCH } else { PITCH };
        let step = step(cell, font_size * pitch, count);
        let label = |index: usize| {
            let label = match tokens.get(index) {
                Some(token) => text::visible(token),
                None => index.to_string(),
            };
            (index, text::shorten(&label, font_size, font_size * MAX_LABEL))
        };
        let labels: Vec<(usize, String)> = (0..count).step_by(step).map(label).collect();
        let width = labels.iter().map(|(_, label)| text::width(label, font_size)).fold(0.0, f64::max);
        Self { labels, step, width }
    }

    /// How to turn the labels when they stand side by side below columns of width `cell`.
    pub(super) fn turn(&self, cell: f64, font_size: f64) -> Turn {
        let room = self.step as f64 * cell;
        if self.width + 0.4 * font_size <= room {
            Turn::Level
        } else if room >= 1.4 * font_size {
            Turn::Slanted
        } else {
            Turn::Upright
        }
    }
}

/// The smallest of 1, 2, 5, 10, 20, … cells that together give a label its room; `count` when none does.
fn step(cell: f64, room: f64, count: usize) -> usize {
    let powers = std::iter::successors(Some(1_usize), |power| power.checked_mul(10));
    powers
        .flat_map(|power| [1, 2, 5].map(|digit| power.saturating_mul(digit)))
        .take_while(|&step| step < count)
        .find(|&step| step as f64 * cell >= room)
        .unwrap_or(count.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_labels_are_thinned_in_round_steps() {
        for (cell, count, expected) in
            [(16.0, 16, 1), (10.0, 24, 2), (2.0, 129, 10), (0.5, 1000, 50), (0.1, 30, 30), (9.0, 0, 1)]
        {
            assert_eq!(step(cell, 11.0, count), expected, "cell {cell}, count {count}");
        }
    }

    #[test]
    fn short_labels_stay_level_and_long_ones_turn() {
        let words = ["suitcase".to_owned(), "because".to_owned()];
        assert_eq!(Axis::new(&[], 9, 16.0, 10.0).turn(16.0, 10.0), Turn::Level);
        assert_eq!(Axis::new(&words, 2, 16.0, 10.0).turn(16.0, 10.0), Turn::Slanted);
        assert_eq!(Axis::new(&words, 2, 12.0, 10.0).turn(12.0, 10.0), Turn::Upright);
    }

    #[test]
    fn without_tokens_indices_stand_at_the_axis() {
        let axis = Axis::new(&[], 129, 2.0, 10.0);
        assert_eq!(axis.labels[1], (20, "20".into()));
        assert_eq!(axis.labels.len(), 7);
    }
}
