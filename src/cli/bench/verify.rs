//! The answer that is timed, against the reference: all rows of small scenarios, 64 of large ones.

use multihead::reference::Real;
use multihead::{AttentionInputs, Error, HostTensor, Mask, RunOutput, reference};

use super::scenario::{Kind, Scenario, Sizes, Work, product};

/// More rows are not computed again in f64.
const MOST_ROWS: usize = 64;

/// The largest error of the output, or infinity where it is beyond the yardstick: four times what plain f32 arithmetic
/// in order errs by, and 2⁻²⁰ of the largest number.
pub(super) fn max_error(scenario: &Scenario, work: &Work, output: &HostTensor) -> Result<f64, Error> {
    let width = output.shape().axes()[2];
    let rows = rows(output.shape().axes()[1]);
    let [truth, naive] = [expected::<f64>(scenario, work, &rows)?, widened(expected::<f32>(scenario, work, &rows)?)];
    let (mut largest, mut error, mut naive_error) = (0.0_f64, 0.0_f64, 0.0_f64);
    let got = rows.iter().flat_map(|row| &output.data()[row * width..(row + 1) * width]);
    for ((got, truth), naive) in got.zip(&truth).zip(&naive) {
        largest = largest.max(truth.abs());
        let off = (f64::from(*got) - truth).abs();
        // What is no number is larger than any error.
        error = if off.is_nan() { f64::INFINITY } else { error.max(off) };
        naive_error = naive_error.max((naive - truth).abs());
    }
    let allowed = 4.0 * naive_error + largest / f64::from(1 << 20);
    Ok(if error <= allowed { error } else { f64::INFINITY })
}

/// What a run of a scenario is held to.
///
/// # Errors
/// [`Error::Invalid`] where there is none.
pub(super) fn output(got: &RunOutput) -> Result<&HostTensor, Error> {
    let output = got.outputs.get("output").or_else(|| got.outputs.get("joined"));
    output.ok_or_else(|| Error::Invalid("the scenario gave no output".into()))
}

/// Seeded, ascending, each once.
fn rows(length: usize) -> Vec<usize> {
    let mut all: Vec<_> = (0..length).collect();
    fastrand::Rng::with_seed(64).shuffle(&mut all);
    all.truncate(MOST_ROWS);
    all.sort_unstable();
    all
}

/// The rows of the output one after the other.
fn expected<T: Real>(scenario: &Scenario, work: &Work, rows: &[usize]) -> Result<Vec<T>, Error> {
    let query = work.input("query").ok_or_else(|| Error::Invalid("the scenario has no query".into()))?;
    let some = picked(query, rows)?;
    if let (Kind::Attention(sizes), Some(layer)) = (scenario.kind, &work.layer) {
        let key = work.input("key").unwrap_or(query).clone();
        let mask = Mask { valid_lens: causal_lens(sizes, rows)?, ..Mask::default() };
        let inputs = AttentionInputs { query: some, key: Some(key), value: work.input("value").cloned(), mask };
        let [output, _] = layer.reference::<T>(&inputs)?;
        return Ok(output.into_data());
    }
    let graph = product(rows.len(), query.shape().axes()[2])?;
    let inputs = multihead::Inputs::new().with("query", &some);
    let mut outputs = reference::interpret::<T>(&graph, &work.parameters(), &inputs)?;
    outputs.remove("output").map(HostTensor::into_data).ok_or_else(|| Error::Invalid("no output".into()))
}

/// Rows of a (1, L, width) tensor.
fn picked(tensor: &HostTensor, rows: &[usize]) -> Result<HostTensor, Error> {
    let width = tensor.shape().axes()[2];
    let data = rows.iter().flat_map(|row| tensor.data()[row * width..(row + 1) * width].iter().copied());
    HostTensor::new([1, rows.len(), width], data.collect())
}

/// Rows that were picked from a causal call see the keys up to where they stood.
fn causal_lens(sizes: Sizes, rows: &[usize]) -> Result<Option<HostTensor<i64>>, Error> {
    let lens = || rows.iter().map(|&row| i64::try_from(row + 1).unwrap_or(i64::MAX)).collect();
    sizes.causal.then(|| HostTensor::new([1, rows.len()], lens())).transpose()
}

fn widened(numbers: Vec<f32>) -> Vec<f64> {
    numbers.into_iter().map(f64::from).collect()
}
