//! Comparing an answer with the expected one, elementwise: |got − expected| ≤ t·(1 + |expected|).
//!
//! NaN equals only NaN, an infinity only itself, and different shapes are different; nothing is skipped.

use std::fmt;

use serde::Serialize;

use crate::shape::HostTensor;

/// How an answer differs from what was expected.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Whether shapes agree and |got − expected| ≤ t·(1 + |expected|) everywhere; NaN equals only NaN.
    pub ok: bool,
    /// Largest |got − expected|; NaN where only one of the two is NaN, infinite where the shapes differ.
    pub max_error: f64,
    /// The element that exceeds its tolerance most, or comes nearest to it; `None` where nothing was compared.
    pub worst: Option<Worst>,
}

/// One element of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Worst {
    /// The tensor's name.
    pub tensor: String,
    /// Where it is; empty where the shapes differ.
    pub index: Vec<usize>,
    /// What was computed.
    pub got: f64,
    /// What was expected.
    pub expected: f64,
}

impl fmt::Display for Worst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tensor, index, got, expected } = self;
        match index.as_slice() {
            [] => write!(f, "{tensor} has another shape than expected"),
            index => write!(f, "{tensor}{index:?} is {got}, expected {expected}"),
        }
    }
}

impl Comparison {
    /// Compares two tensors with tolerance t.
    ///
    /// # Example
    /// ```
    /// use multihead::{Comparison, HostTensor};
    /// let got = HostTensor::new([2], vec![1.0, 2.5])?;
    /// let expected = HostTensor::new([2], vec![1.0, 2.0])?;
    /// let comparison = Comparison::new("output", &got, &expected, 1e-4);
    /// assert!(!comparison.ok);
    /// assert_eq!(comparison.max_error, 0.5);
    /// # Ok::<(), multihead::Error>(())
    /// ```
    #[must_use]
    pub fn new(tensor: &str, got: &HostTensor, expected: &HostTensor, tolerance: f64) -> Self {
        if got.shape() != expected.shape() {
            let worst = Worst { tensor: tensor.into(), index: Vec::new(), got: f64::NAN, expected: f64::NAN };
            return Self { ok: false, max_error: f64::INFINITY, worst: Some(worst) };
        }
        let mut ok = true;
        let mut max_error = 0.0;
        // (tolerance needed, place)
        let mut worst: Option<(f64, usize)> = None;
        for (place, (&got, &expected)) in got.data().iter().zip(expected.data()).enumerate() {
            let difference = difference(got.into(), expected.into());
            let share = share_of(difference, expected.into());
            ok &= share <= tolerance;
            max_error = larger(max_error, difference);
            if worst.is_none_or(|(largest, _)| share > largest) {
                worst = Some((share, place));
            }
        }
        let worst = worst.map(|(_, place)| Worst {
            tensor: tensor.into(),
            index: expected.shape().index_of(place),
            got: got.data()[place].into(),
            expected: expected.data()[place].into(),
        });
        Self { ok, max_error, worst }
    }

    /// The comparison of two tensors together with another's.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let worst = [self.worst, other.worst].into_iter().flatten();
        let worst = worst.max_by(|a, b| a.share().total_cmp(&b.share()));
        Self { ok: self.ok && other.ok, max_error: larger(self.max_error, other.max_error), worst }
    }
}

impl Worst {
    /// The tolerance that this element needs; of different shapes none is enough.
    fn share(&self) -> f64 {
        if self.index.is_empty() { f64::INFINITY } else { share_of(difference(self.got, self.expected), self.expected) }
    }
}

/// |got − expected|; 0 for two NaNs or two equal infinities.
#[expect(clippy::float_cmp, reason = "equal infinities have no difference to take a tolerance of")]
fn difference(got: f64, expected: f64) -> f64 {
    if got == expected || (got.is_nan() && expected.is_nan()) { 0.0 } else { (got - expected).abs() }
}

/// The tolerance that a difference needs: |got − expected| / (1 + |expected|), and more than any where only one of the
/// two is NaN or infinite.
fn share_of(difference: f64, expected: f64) -> f64 {
    match difference / (1.0 + expected.abs()) {
        _ if difference == 0.0 => 0.0,
        share if share.is_nan() => f64::INFINITY,
        share => share,
    }
}

/// The larger of two, and NaN if one is.
fn larger(a: f64, b: f64) -> f64 {
    if b.is_nan() || b > a { b } else { a }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are exact")]
mod tests {
    use super::*;

    fn compare(got: &[f32], expected: &[f32]) -> Comparison {
        let [got, expected] =
            [got, expected].map(|data| HostTensor::new([data.len()], data.to_vec()).expect("one axis"));
        Comparison::new("output", &got, &expected, 1e-4)
    }

    #[test]
    fn a_two_per_cent_error_fails() {
        assert!(!compare(&[1.0, 1.02], &[1.0, 1.0]).ok);
    }

    #[test]
    fn an_error_within_the_tolerance_passes() {
        assert!(compare(&[1000.05], &[1000.0]).ok);
        assert!(!compare(&[1000.2], &[1000.0]).ok);
    }

    #[test]
    fn nan_equals_only_nan_and_an_infinity_only_itself() {
        let (nan, infinity) = (f32::NAN, f32::INFINITY);
        assert!(compare(&[nan, infinity], &[nan, infinity]).ok);
        for (got, expected) in
            [(nan, 1.0), (1.0, nan), (infinity, 1.0), (1.0, infinity), (infinity, -infinity), (nan, infinity)]
        {
            let comparison = compare(&[0.0, got], &[0.0, expected]);
            assert!(!comparison.ok, "{got} is not {expected}");
            assert_eq!(comparison.worst.expect("two elements").index, [1]);
        }
        assert!(compare(&[nan, 5.0], &[0.0, 0.0]).max_error.is_nan());
    }

    #[test]
    fn different_shapes_fail_even_when_empty() {
        let [a, b] = [[0, 2], [2, 0]].map(|shape| HostTensor::new(shape, Vec::new()).expect("no elements"));
        assert!(!Comparison::new("output", &a, &b, 1.0).ok);
        assert!(Comparison::new("output", &a, &a, 1.0).ok);
    }

    #[test]
    fn the_worst_element_is_named_by_its_axes() {
        let expected = HostTensor::new([2, 3], vec![0.0; 6]).expect("6 elements");
        let got = HostTensor::new([2, 3], vec![0.0, 0.0, 0.0, 0.0, 0.5, 0.1]).expect("6 elements");
        let worst = Comparison::new("output", &got, &expected, 1e-4).worst.expect("6 elements");
        assert_eq!((worst.index, worst.got), (vec![1, 1], 0.5));
    }

    #[test]
    fn of_two_tensors_the_worse_one_is_named() {
        let [good, bad, worse] = [1.0, 2.0, 3.0].map(|got| compare(&[got], &[1.0]));
        for both in [good.clone().and(bad.clone()), bad.clone().and(good)] {
            assert!(!both.ok);
            assert_eq!(both.worst.expect("two elements").got, 2.0);
        }
        for both in [worse.clone().and(bad.clone()), bad.and(worse)] {
            assert_eq!((both.max_error, both.worst.expect("two elements").got), (2.0, 3.0));
        }
    }
}
