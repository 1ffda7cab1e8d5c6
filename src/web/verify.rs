//! An answer against the CPU reference: the yardstick of the library's own tests.

use num_traits::Float;
use serde::Serialize;

use crate::{Error, HostTensor};

/// An answer may be off by so many times the error of plain 32-bit arithmetic …
const TIMES_NAIVE: f64 = 4.0;
/// … and so much of the largest number, 2⁻²⁰.
const OF_LARGEST: f64 = 1.0 / 1_048_576.0;

/// `Verification` of the package.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Verification {
    ok: bool,
    max_error: f64,
    nans: usize,
    output: Option<TensorVerification>,
    weights: Option<TensorVerification>,
    heads: Option<Vec<f64>>,
    took: f64,
}

/// `TensorVerification` of the package.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct TensorVerification {
    max_error: f64,
    reference_error: f64,
    allowed: f64,
    ok: bool,
    nans: usize,
    expected_nans: usize,
    worst: Option<Vec<usize>>,
}

/// Holds output and, where they came back, weights against the reference in 64 bits (`truth`) and in 32 (`naive`).
///
/// # Errors
/// [`Error::WrongShape`] for an answer to another call.
pub(super) fn answer(
    got: &[Option<HostTensor>; 2],
    truth: &[HostTensor<f64>; 2],
    naive: &[HostTensor<f32>; 2],
    took: f64,
) -> Result<Verification, Error> {
    for (got, (truth, what)) in got.iter().zip(truth.iter().zip(["the output", "the weights"])) {
        if let Some(got) = got.as_ref().filter(|got| got.shape() != truth.shape()) {
            let expected = format!("this call gives {}", truth.shape());
            return Err(Error::WrongShape { what: what.into(), got: got.shape().clone(), expected });
        }
    }
    let [output, weights] = [0, 1].map(|part| got[part].as_ref().map(|got| tensor(got, &truth[part], &naive[part])));
    let heads = got[1].as_ref().map(|got| by_head(got, &truth[1]));
    let both: Vec<_> = [&output, &weights].into_iter().flatten().collect();
    let ok = both.iter().all(|tensor| tensor.ok);
    let max_error = both.iter().fold(0.0, |max, tensor| larger(max, tensor.max_error));
    let nans = both.iter().map(|tensor| tensor.nans).sum();
    Ok(Verification { ok, max_error, nans, output, weights, heads, took })
}

fn tensor(got: &HostTensor, truth: &HostTensor<f64>, naive: &HostTensor<f32>) -> TensorVerification {
    let mut max_error = 0.0;
    let mut worst: Option<(f64, usize)> = None;
    for (place, error) in errors(got.data(), truth.data()).enumerate() {
        max_error = larger(max_error, error);
        if worst.is_none_or(|(largest, _)| error > largest || (error.is_nan() && !largest.is_nan())) {
            worst = Some((error, place));
        }
    }
    let finite = |number: &f64| number.is_finite();
    let reference_error = errors(naive.data(), truth.data()).filter(finite).fold(0.0, f64::max);
    let largest = truth.data().iter().copied().filter(finite).fold(0.0, |max, number| number.abs().max(max));
    let allowed = TIMES_NAIVE * reference_error + OF_LARGEST * largest;
    TensorVerification {
        max_error,
        reference_error,
        allowed,
        ok: max_error <= allowed,
        nans: nans(got),
        expected_nans: nans(truth),
        worst: worst.map(|(_, place)| index_of(got.shape().axes(), place)),
    }
}

/// The largest error of each head's weights (B, H, Lq, Lk).
fn by_head(got: &HostTensor, truth: &HostTensor<f64>) -> Vec<f64> {
    let &[_, num_heads, num_queries, num_keys] = got.shape().axes() else {
        return Vec::new();
    };
    let mut heads = vec![0.0; num_heads];
    for (place, error) in errors(got.data(), truth.data()).enumerate() {
        let head = &mut heads[place / (num_queries * num_keys) % num_heads];
        *head = larger(*head, error);
    }
    heads
}

/// |got − truth|: 0 for two NaN or equal infinities, NaN where only one of the two is NaN.
fn errors(got: &[f32], truth: &[f64]) -> impl Iterator<Item = f64> {
    got.iter().zip(truth).map(|(&got, &truth)| {
        let got = f64::from(got);
        #[expect(clippy::float_cmp, reason = "equal infinities have no difference")]
        let same = got == truth || (got.is_nan() && truth.is_nan());
        if same { 0.0 } else { (got - truth).abs() }
    })
}

fn nans<T: Float>(tensor: &HostTensor<T>) -> usize {
    tensor.data().iter().filter(|number| number.is_nan()).count()
}

/// The larger of two, and NaN if one is.
fn larger(a: f64, b: f64) -> f64 {
    if b.is_nan() || b > a { b } else { a }
}

fn index_of(axes: &[usize], mut place: usize) -> Vec<usize> {
    let mut index = vec![0; axes.len()];
    for (index, &axis) in index.iter_mut().zip(axes).rev() {
        *index = place % axis;
        place /= axis;
    }
    index
}
