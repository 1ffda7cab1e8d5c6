//! Named patterns: what a head looks like, if it looks like anything.

use serde::Serialize;

use super::{CountedQueries, counted_rows, mean, mean_share_at};
use crate::maps::AttentionMap;

/// Where a head of a known kind sends its attention (Clark et al. 2019, "What Does BERT Look At?", §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Pattern {
    /// To the key before the query's own position.
    Previous,
    /// To the key after it.
    Next,
    /// To the query's own position.
    #[serde(rename = "self")]
    Itself,
    /// To key 0.
    First,
    /// To separator tokens.
    Separator,
    /// To all visible keys alike.
    Broad,
}

impl Pattern {
    /// All of them, in the order in which equals are decided.
    pub const ALL: [Self; 6] = [Self::Previous, Self::Next, Self::Itself, Self::First, Self::Separator, Self::Broad];

    /// One word: "previous", "next", "self", "first", "separator", "broad".
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Previous => "previous",
            Self::Next => "next",
            Self::Itself => "self",
            Self::First => "first",
            Self::Separator => "separator",
            Self::Broad => "broad",
        }
    }

    /// How much of a map is this pattern, from 0 to 1: the mean over the counted queries of 1 − the total variation
    /// distance between the query's row and the nearest row of the pattern.
    ///
    /// For a pattern that names keys this is the share that goes to them; for [`Pattern::Broad`], ∑ min(p, 1/n) over
    /// the n keys with any weight at all. A query for which the pattern names no key takes no part, nor does one whose
    /// weight is all on one key in [`Pattern::Broad`]: that it sees others cannot be told from its row. None when no
    /// query is left; NaN where a row that takes part holds NaN. `separators` are the places of the separator tokens
    /// among the keys.
    #[must_use]
    pub fn score(self, map: &AttentionMap<'_>, counted: CountedQueries, separators: &[usize]) -> Option<f64> {
        match self {
            Self::Previous => mean_share_at(map, counted, -1),
            Self::Next => mean_share_at(map, counted, 1),
            Self::Itself => mean_share_at(map, counted, 0),
            Self::First => mean_share_on(map, counted, &[0]),
            Self::Separator => mean_share_on(map, counted, separators),
            Self::Broad => mean(counted_rows(map, counted).filter_map(|(_, row)| evenness(row))),
        }
    }

    /// The pattern of the highest score, the first of equals; none where there is no score, or one is NaN.
    #[must_use]
    pub fn nearest(scores: &[(Self, Option<f64>)]) -> Option<(Self, f64)> {
        let known = || scores.iter().filter_map(|&(pattern, score)| Some((pattern, score?)));
        if known().any(|(_, score)| score.is_nan()) {
            return None;
        }
        known().reduce(|best, other| if other.1 > best.1 { other } else { best })
    }
}

/// Mean share that the counted queries give to these keys together; none when there are no keys or no queries.
#[must_use]
pub fn mean_share_on(map: &AttentionMap<'_>, counted: CountedQueries, keys: &[usize]) -> Option<f64> {
    if keys.is_empty() {
        return None;
    }
    let share = |row: &[f32]| keys.iter().filter_map(|&key| row.get(key)).copied().map(f64::from).sum();
    mean(counted_rows(map, counted).map(|(_, row)| share(row)))
}

/// ∑ min(p, 1/n) over the n keys that have any weight; none of one key.
fn evenness(row: &[f32]) -> Option<f64> {
    let visible = row.iter().filter(|&&weight| weight != 0.0).count();
    if visible < 2 && !row.iter().any(|weight| weight.is_nan()) {
        return None;
    }
    let even = 1.0 / visible as f64;
    // `f64::min` would drop a NaN.
    Some(row.iter().map(|&weight| f64::from(weight)).map(|weight| if weight > even { even } else { weight }).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(weights: &[f32], num_keys: usize, separators: &[usize]) -> [Option<f64>; 6] {
        let map = AttentionMap::new(weights, weights.len() / num_keys, num_keys).unwrap();
        Pattern::ALL.map(|pattern| pattern.score(&map, CountedQueries::default(), separators))
    }

    fn assert_close(got: Option<f64>, expected: f64) {
        assert!(got.is_some_and(|got| (got - expected).abs() < 1e-6), "got {got:?}, expected {expected}");
    }

    #[test]
    fn a_pure_pattern_scores_one_and_the_others_less() {
        let previous = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        let [at_previous, next, itself, first, separator, broad] = scores(&previous, 3, &[2]);
        assert_eq!((at_previous, next, separator), (Some(1.0), Some(0.0), Some(0.0)));
        assert_close(itself, 1.0 / 3.0);
        assert_close(first, 2.0 / 3.0);
        assert_eq!(broad, None, "a head that is sure is not broad");
    }

    #[test]
    fn an_even_row_is_broad_and_a_sharp_one_is_not() {
        assert_close(scores(&[0.25; 4], 4, &[])[5], 1.0);
        assert_close(scores(&[0.97, 0.01, 0.01, 0.01], 4, &[])[5], 0.28);
        assert_close(scores(&[1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.4, 0.3, 0.3], 3, &[])[5], (1.0 + 1.0 / 3.0 + 0.6) / 2.0);
    }

    #[test]
    fn without_separators_there_is_no_score_for_them() {
        assert_eq!(scores(&[0.5, 0.5], 2, &[])[4], None);
        assert_close(scores(&[0.5, 0.5], 2, &[0, 1])[4], 1.0);
    }

    #[test]
    fn the_nearest_pattern_is_the_first_of_the_best_and_none_beside_nan() {
        let nearest = |first: f64| {
            Pattern::nearest(&[(Pattern::Previous, None), (Pattern::Next, Some(0.5)), (Pattern::First, Some(first))])
        };
        assert_eq!(nearest(0.5), Some((Pattern::Next, 0.5)));
        assert_eq!(nearest(0.6), Some((Pattern::First, 0.6)));
        assert_eq!(nearest(f64::NAN), None);
        assert_eq!(Pattern::nearest(&[(Pattern::Next, None)]), None);
    }

    #[test]
    fn nan_shows() {
        for row in [[f32::NAN, 0.5], [f32::NAN, 0.0]] {
            assert!(scores(&row, 2, &[])[5].is_some_and(f64::is_nan));
        }
    }
}
