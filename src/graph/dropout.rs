//! Which weights dropout keeps: a function of place, seed and step, so that every device and kernel drops the same.

use crate::error::{Error, number};
use crate::shape::HostTensor;

/// Kept are words whose upper 31 bits are at least a threshold; of 2³¹ none is.
const ONE: f64 = (1_u64 << 31) as f64;

/// What of training decides which weights are dropped, as four words that a device reads.
///
/// The weight of (batch entry, head, query, key) is kept when word `key % 4` of
/// Philox4x32-10 for the counter (key / 4, query, head, batch entry) is at least p: its upper 31 bits as a fraction. The
/// key of the generator is the first two words that the same generator gives for the counter (step, 0, 0) under the
/// seed; both are 64 bits, lower word first.
///
/// Philox: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
///
/// # Example
/// ```
/// use multihead::graph::DropoutPattern;
/// let pattern = DropoutPattern::new(0.25, 7, 0)?;
/// let kept = (0..10_000).filter(|&key| pattern.keeps([0, 0, 0, key])).count();
/// assert!((7_300..7_700).contains(&kept));
/// # Ok::<(), multihead::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DropoutPattern {
    threshold: u32,
    scale: f32,
    key: [u32; 2],
}

impl DropoutPattern {
    /// How many words a device reads.
    pub const WORDS: usize = 4;

    /// The pattern of one step of training that drops with probability `p`, rounded to a multiple of 2⁻³¹.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a `p` outside [0, 1].
    pub fn new(p: f64, seed: u64, step: u64) -> Result<Self, Error> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::OutOfRange {
                what: "dropout".into(),
                value: number(p),
                allowed: "must be a number between 0 and 1".into(),
            });
        }
        let [step_low, step_high] = words(step);
        let [first, second, ..] = philox([step_low, step_high, 0, 0], words(seed));
        let threshold = threshold(p);
        Ok(Self { threshold, scale: scale(threshold), key: [first, second] })
    }

    /// As a device reads it: the threshold, the bits of the factor of what is kept, the generator's key.
    #[must_use]
    pub fn words(&self) -> HostTensor<u32> {
        let words = vec![self.threshold, self.scale.to_bits(), self.key[0], self.key[1]];
        HostTensor::new([Self::WORDS], words).expect("four words should fill a tensor of four")
    }

    /// From the words of [`words`](Self::words).
    pub(crate) fn from_words(words: &[u32]) -> Self {
        let &[threshold, scale, first, second] = words else {
            unreachable!("the builder should have checked that there are four words");
        };
        Self { threshold, scale: f32::from_bits(scale), key: [first, second] }
    }

    /// What a kept weight is multiplied with: 1 / (1 − p), and 0 where none is kept.
    #[must_use]
    pub fn scale(&self) -> f32 {
        self.scale
    }

    /// Whether the weight of (batch entry, head, query, key) is kept.
    #[must_use]
    pub fn keeps(&self, [entry, head, query, key]: [u32; 4]) -> bool {
        let four = philox([key / 4, query, head, entry], self.key);
        four[key as usize % 4] >> 1 >= self.threshold
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "p is between 0 and 1")]
fn threshold(p: f64) -> u32 {
    (p * ONE).round() as u32
}

/// 1 / (1 − p) for the p that the threshold is: of a p that were not rounded as well, the mean would be another.
#[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
fn scale(threshold: u32) -> f32 {
    let kept = ONE - f64::from(threshold);
    if kept > 0.0 { (ONE / kept) as f32 } else { 0.0 }
}

/// The lower word, then the higher one.
#[expect(clippy::cast_possible_truncation, reason = "the point of the function")]
fn words(number: u64) -> [u32; 2] {
    [number as u32, (number >> 32) as u32]
}

/// Philox4x32-10: four random words from a counter of four, under a key of two.
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let (mut counter, mut key) = (counter, key);
    for _ in 0..10 {
        let [low_0, high_0] = words(0xd251_1f53 * u64::from(counter[0]));
        let [low_1, high_1] = words(0xcd9e_8d57 * u64::from(counter[2]));
        counter = [high_1 ^ counter[1] ^ key[0], low_1, high_0 ^ counter[3] ^ key[1], low_0];
        key = [key[0].wrapping_add(0x9e37_79b9), key[1].wrapping_add(0xbb67_ae85)];
    }
    counter
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The known answers that the authors publish with Random123 (`kat_vectors`).
    #[test]
    fn philox_gives_its_authors_known_answers() {
        let answers = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0],
                [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
            ),
        ];
        for (counter, key, answer) in answers {
            assert_eq!(philox(counter, key), answer);
        }
    }

    #[test]
    fn certainty_keeps_none_or_all() {
        for step in 0..50 {
            let [never, always] = [0.0, 1.0].map(|p| DropoutPattern::new(p, 3, step).unwrap());
            assert!((0..100).all(|key| never.keeps([1, 2, 3, key]) && !always.keeps([1, 2, 3, key])));
            assert_eq!([never.scale(), always.scale()].map(f32::to_bits), [1.0_f32, 0.0].map(f32::to_bits));
        }
    }

    /// A survivor of 0.2 counts 1.25 times, of 0.25 4/3 times.
    #[test]
    fn survivors_count_one_over_one_less_p() {
        let scale = |p| DropoutPattern::new(p, 0, 0).unwrap().scale();
        let bits = |scales: [f32; 3]| scales.map(f32::to_bits);
        assert_eq!(bits([scale(0.2), scale(0.25), scale(0.5)]), bits([1.25, 4.0 / 3.0, 2.0]));
    }

    /// A p that rounds to 1 or 0 is that in everything; the largest and smallest that do not are themselves.
    #[test]
    fn survivors_make_up_for_the_p_that_is_dropped_with() {
        let tiny = 2.0_f64.powi(-31);
        for (p, kept) in [(1.0 - 1e-12, 0.0), (1.0 - tiny / 4.0, 0.0), (1.0 - tiny, tiny), (tiny, 1.0 - tiny)] {
            let pattern = DropoutPattern::new(p, 0, 0).unwrap();
            let mean = f64::from(pattern.scale()) * kept;
            assert!(if kept > 0.0 { (mean - 1.0).abs() < 1e-7 } else { pattern.scale() == 0.0 }, "{p}: mean {mean}");
            assert!((f64::from(pattern.threshold) - (1.0 - kept) * ONE).abs() < 1.0, "{p}");
        }
        let [tiny, none] = [1e-12, -0.0].map(|p| DropoutPattern::new(p, 0, 0).unwrap());
        assert_eq!(tiny, none);
    }

    #[test]
    fn nonsense_is_refused() {
        for (p, written) in [(-0.1, "-0.1"), (1.000_001, "1.000001"), (f64::NAN, "NaN"), (f64::INFINITY, "inf")] {
            let error = DropoutPattern::new(p, 0, 0).unwrap_err().to_string();
            assert_eq!(error, format!("dropout is {written}, but must be a number between 0 and 1"));
        }
    }

    /// Of two patterns of p = 0.25 a place is kept by both with probability 9/16, whatever tells them apart.
    #[test]
    fn patterns_of_other_places_seeds_and_steps_overlap_as_chance_says() {
        let count = 20_000_u32;
        let pattern = |seed, step| DropoutPattern::new(0.25, seed, step).unwrap();
        let first = pattern(11, 5);
        let others: [(&str, DropoutPattern, [u32; 3]); 9] = [
            ("entry", first, [1, 2, 3]),
            ("head", first, [0, 3, 3]),
            ("query", first, [0, 2, 4]),
            ("head for query", first, [0, 3, 2]),
            ("seed", pattern(12, 5), [0, 2, 3]),
            ("high word of the seed", pattern(11 + (1 << 32), 5), [0, 2, 3]),
            ("step", pattern(11, 6), [0, 2, 3]),
            ("high word of the step", pattern(11, 5 + (1 << 32)), [0, 2, 3]),
            ("seed for step", pattern(5, 11), [0, 2, 3]),
        ];
        let keeps =
            |pattern: DropoutPattern, [entry, head, query]: [u32; 3], key| pattern.keeps([entry, head, query, key]);
        for (what, other, place) in others {
            let both = (0..count).filter(|&key| keeps(first, [0, 2, 3], key) && keeps(other, place, key)).count();
            let expected = f64::from(count) * 9.0 / 16.0;
            // Five standard deviations of a binomial count.
            let spread = 5.0 * (expected * 7.0 / 16.0).sqrt();
            assert!((both as f64 - expected).abs() < spread, "another {what}: {both} instead of {expected}");
        }
    }
}
