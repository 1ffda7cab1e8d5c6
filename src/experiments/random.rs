//! Seeded random numbers: the same on every machine.

use crate::error::Error;
use crate::shape::{HostTensor, Shape};

/// Numbers of the standard normal distribution, by Box and Muller's transformation.
#[derive(Debug)]
pub(super) struct Normal {
    rng: fastrand::Rng,
}

impl Normal {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: fastrand::Rng::with_seed(seed) }
    }

    /// One number.
    pub(super) fn next(&mut self) -> f64 {
        // 1 − u lies in (0, 1], where the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.rng.f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.rng.f64()).cos()
    }

    /// A tensor of numbers with this standard deviation.
    pub(super) fn tensor(&mut self, shape: impl Into<Shape>, deviation: f64) -> Result<HostTensor, Error> {
        let shape = shape.into();
        let len = shape.checked_len().expect("the options should have been checked");
        #[expect(clippy::cast_possible_truncation, reason = "f32 is what devices compute in")]
        let data = (0..len).map(|_| (deviation * self.next()) as f32).collect();
        HostTensor::new(shape, data)
    }

    /// The numbers 0 to `count` − 1 in random order.
    pub(super) fn order(&mut self, count: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..count).collect();
        self.rng.shuffle(&mut order);
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_normal_and_follow_from_the_seed() {
        let mut normal = Normal::new(7);
        let numbers: Vec<f64> = (0..100_000).map(|_| normal.next()).collect();
        let moment = |power: i32| numbers.iter().map(|x| x.powi(power)).sum::<f64>() / 1e5;
        assert!(moment(1).abs() < 0.01 && (moment(2) - 1.0).abs() < 0.02 && (moment(4) - 3.0).abs() < 0.1);
        assert_eq!(Normal::new(7).next().to_bits(), numbers[0].to_bits());
        assert_ne!(Normal::new(8).next().to_bits(), numbers[0].to_bits());
    }
}
