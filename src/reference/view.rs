//! What the reference computes with: numbers, and windows of tensors.

use std::borrow::Cow;
use std::ops::Range;

use half::f16;

/// A floating-point type to compute in: `f64` for the oracle, `f32` for the CPU device.
pub trait Real: num_traits::Float + std::ops::AddAssign + Send + Sync + 'static {
    /// From a stored number, exactly.
    fn of(value: f32) -> Self;
    /// From stored numbers, exactly; where they are that already, they are not copied.
    #[must_use]
    fn all_of(values: &[f32]) -> Cow<'_, [Self]>;
    /// From a setting, rounded.
    fn of_f64(value: f64) -> Self;
    /// As a 16-bit float stores it: the nearest, ties to even.
    #[must_use]
    fn halved(self) -> Self;
}

impl Real for f32 {
    fn of(value: f32) -> Self {
        value
    }
    fn all_of(values: &[f32]) -> Cow<'_, [Self]> {
        Cow::Borrowed(values)
    }
    #[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
    fn of_f64(value: f64) -> Self {
        value as f32
    }
    fn halved(self) -> Self {
        f16::from_f32(self).to_f32()
    }
}

impl Real for f64 {
    fn of(value: f32) -> Self {
        Self::from(value)
    }
    fn all_of(values: &[f32]) -> Cow<'_, [Self]> {
        values.iter().copied().map(Self::from).collect()
    }
    fn of_f64(value: f64) -> Self {
        value
    }
    fn halved(self) -> Self {
        f16::from_f64(self).to_f64()
    }
}

/// The weight of a hidden key: −0, a zero that the product with the values knows by its sign.
pub(super) fn hidden<T: Real>() -> T {
    T::neg_zero()
}

/// Whether a weight is marked as a hidden key's.
pub(super) fn is_hidden<T: Real>(weight: T) -> bool {
    weight == T::zero() && weight.is_sign_negative()
}

/// Elements of a value from `base` on: all of them, or one block of a value that is never stored whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a, T> {
    pub(super) data: &'a [T],
    pub(super) base: usize,
}

impl<'a, T: Copy> View<'a, T> {
    /// Elements by their place in the whole value.
    pub(super) fn slice(self, range: Range<usize>) -> &'a [T] {
        if range.is_empty() {
            return &[];
        }
        &self.data[range.start - self.base..range.end - self.base]
    }

    /// One element by its place in the whole value.
    pub(super) fn at(self, index: usize) -> T {
        self.data[index - self.base]
    }
}
