//! Seeded random numbers: the same on every machine.

use crate::attention::{Linear, Weights};
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

/// (1, words, `width`): for each word a direction of its own, of length 1, which follows from the word and the seed
/// alone.
pub(super) fn embeddings(words: &[impl AsRef<str>], width: usize, seed: u64) -> Result<HostTensor, Error> {
    let mut data = Vec::with_capacity(words.len() * width);
    for word in words {
        let mut normal = Normal::new(word_seed(word.as_ref(), seed));
        let direction: Vec<f64> = (0..width).map(|_| normal.next()).collect();
        let length = direction.iter().map(|x| x * x).sum::<f64>().sqrt();
        #[expect(clippy::cast_possible_truncation, reason = "f32 is what devices compute in")]
        data.extend(direction.iter().map(|x| (x / length) as f32));
    }
    HostTensor::new([1, words.len(), width], data)
}

/// FNV-1a over the word's bytes.
fn word_seed(word: &str, seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word.bytes().fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Four random (E, E) projections without biases, as D2L's layer has them.
pub(super) fn square_weights(normal: &mut Normal, num_hiddens: usize) -> Result<Weights, Error> {
    let deviation = (num_hiddens as f64).sqrt().recip();
    let mut linear = || Ok(Linear { weight: normal.tensor([num_hiddens, num_hiddens], deviation)?, bias: None });
    Ok(Weights { w_q: linear()?, w_k: linear()?, w_v: linear()?, w_o: linear()?, bias_k: None, bias_v: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_its_embedding_wherever_it_stands() {
        let rows = |words: &[&str], seed: u64| -> Vec<Vec<f32>> {
            embeddings(words, 16, seed).unwrap().data().chunks(16).map(<[f32]>::to_vec).collect()
        };
        let [attention, tea] = [rows(&["a", "t", "t", "e"], 3), rows(&["t", "e", "a"], 3)];
        assert_eq!([&attention[0], &attention[1], &attention[2]], [&tea[2], &tea[0], &tea[0]]);
        assert_ne!(attention[0], attention[1]);
        assert_ne!(attention[1], rows(&["t"], 4)[0]);
        assert!((attention[1].iter().map(|x| x * x).sum::<f32>() - 1.0).abs() < 1e-6);
    }

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
