//! The answer that is timed, against the reference: all rows of small scenarios, 64 of large ones.

use multihead::reference::Real;
use multihead::{AttentionInputs, Error, HostTensor, Mask, RunOutput, reference};
use serde::Serialize;

use super::scenario::{Kind, Scenario, Sizes, Work, product};

/// More rows are not computed again in f64.
const MOST_ROWS: usize = 64;

/// How far an answer is from the truth, and how far it may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Verdict {
    /// Of all numbers; infinite where one is infinite or none.
    pub(super) max_error: f64,
    /// The yardstick: four times what plain f32 arithmetic in order errs by, and 2⁻²⁰ of the largest number.
    pub(super) allowed_error: f64,
}

impl Verdict {
    fn of(got: impl Iterator<Item = f32>, truth: &[f64], naive: &[f32]) -> Self {
        let (mut largest, mut max_error, mut naive_error) = (0.0_f64, 0.0_f64, 0.0_f64);
        for ((got, truth), naive) in got.zip(truth).zip(naive) {
            largest = largest.max(truth.abs());
            let off = (f64::from(got) - truth).abs();
            // What is no number is larger than any error.
            max_error = if off.is_nan() { f64::INFINITY } else { max_error.max(off) };
            naive_error = naive_error.max((f64::from(*naive) - truth).abs());
        }
        Self { max_error, allowed_error: 4.0 * naive_error + largest / f64::from(1 << 20) }
    }

    pub(super) fn agrees(self) -> bool {
        self.max_error <= self.allowed_error
    }

    /// One that fails, where there is one.
    fn and(self, other: Self) -> Self {
        if self.agrees() && !other.agrees() { other } else { self }
    }
}

/// What a scenario should give at some rows.
#[derive(Debug)]
pub(super) struct Expected {
    rows: Vec<usize>,
    /// How many rows there are.
    length: usize,
    truth: Answer<f64>,
    naive: Answer<f32>,
}

/// The rows of each head, or of the output, one after the other.
#[derive(Debug)]
struct Answer<T> {
    output: Vec<T>,
    /// Empty where none are asked for.
    weights: Vec<T>,
}

impl Expected {
    pub(super) fn of(scenario: &Scenario, work: &Work) -> Result<Self, Error> {
        let query = work.input("query").ok_or_else(|| Error::Invalid("the scenario has no query".into()))?;
        let length = query.shape().axes()[1];
        let rows = rows(length);
        let truth = answer(scenario, work, query, &rows)?;
        let naive = answer(scenario, work, query, &rows)?;
        Ok(Self { rows, length, truth, naive })
    }

    /// What our own run of the scenario gave: output, and weights where they were asked for.
    pub(super) fn judge(&self, got: &RunOutput) -> Result<Verdict, Error> {
        let output = got.outputs.get("output").or_else(|| got.outputs.get("joined"));
        let output = self.output(output.ok_or_else(|| Error::Invalid("the scenario gave no output".into()))?)?;
        match got.outputs.get("weights") {
            Some(weights) => {
                let weights = self.held(weights, &self.truth.weights, &self.naive.weights)?;
                Ok(output.and(weights))
            }
            None => Ok(output),
        }
    }

    /// An output, of whoever computed it.
    pub(super) fn output(&self, got: &HostTensor) -> Result<Verdict, Error> {
        self.held(got, &self.truth.output, &self.naive.output)
    }

    fn held(&self, got: &HostTensor, truth: &[f64], naive: &[f32]) -> Result<Verdict, Error> {
        let axes = got.shape().axes();
        match *axes {
            [matrices, length, width] if length == self.length && matrices * self.rows.len() * width == truth.len() => {
                Ok(Verdict::of(at(got, &self.rows), truth, naive))
            }
            _ => Err(Error::Invalid(format!(
                "the answer's shape is {}, where {} rows of {} numbers are expected",
                got.shape(),
                self.length,
                truth.len() / self.rows.len()
            ))),
        }
    }
}

/// Seeded, ascending, each once.
fn rows(length: usize) -> Vec<usize> {
    let mut all: Vec<_> = (0..length).collect();
    fastrand::Rng::with_seed(64).shuffle(&mut all);
    all.truncate(MOST_ROWS);
    all.sort_unstable();
    all
}

/// The numbers of these rows in every matrix of a tensor of three axes.
fn at<'a>(tensor: &'a HostTensor, rows: &'a [usize]) -> impl Iterator<Item = f32> + 'a {
    let axes = tensor.shape().axes();
    let (length, width) = (axes[1], axes[2]);
    let starts = (0..axes[0]).flat_map(move |matrix| rows.iter().map(move |row| (matrix * length + row) * width));
    starts.flat_map(move |start| tensor.data()[start..start + width].iter().copied())
}

fn answer<T: Real>(scenario: &Scenario, work: &Work, query: &HostTensor, rows: &[usize]) -> Result<Answer<T>, Error> {
    let some = HostTensor::new([1, rows.len(), query.shape().axes()[2]], at(query, rows).collect())?;
    if let (Kind::Attention(sizes) | Kind::Step(sizes), Some(layer)) = (scenario.kind, &work.layer) {
        let key = work.input("key").unwrap_or(query).clone();
        let mask = Mask { valid_lens: causal_lens(sizes, rows)?, ..Mask::default() };
        let inputs =
            AttentionInputs { query: some, key: Some(key), value: work.input("value").cloned(), mask, training: None };
        let [output, weights] = layer.reference::<T>(&inputs)?.map(HostTensor::into_data);
        return Ok(Answer { output, weights });
    }
    let graph = product(rows.len(), query.shape().axes()[2])?;
    let inputs = multihead::Inputs::new().with("query", &some);
    let mut outputs = reference::interpret::<T>(&graph, &work.parameters(), &inputs)?;
    let output = outputs.remove("output").ok_or_else(|| Error::Invalid("no output".into()))?;
    Ok(Answer { output: output.into_data(), weights: Vec::new() })
}

/// Rows that were picked from a causal call see the keys up to where they stood.
fn causal_lens(sizes: Sizes, rows: &[usize]) -> Result<Option<HostTensor<i64>>, Error> {
    let lens = || rows.iter().map(|&row| i64::try_from(row + 1).unwrap_or(i64::MAX)).collect();
    sizes.causal.then(|| HostTensor::new([1, rows.len()], lens())).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RIGHT: [f32; 3] = [0.5, -2.0, 1.0];
    const TRUTH: [f64; 3] = [0.5, -2.0, 1.0];
    const NAIVE: [f32; 3] = [0.5, -2.0, 1.000_000_1];

    #[test]
    fn what_plain_arithmetic_errs_by_is_allowed_and_two_per_cent_are_not() {
        assert!(Verdict::of([0.5, -2.0, 1.000_000_2].into_iter(), &TRUTH, &NAIVE).agrees());
        let wrong = Verdict::of(RIGHT.map(|number| number * 1.02).into_iter(), &TRUTH, &NAIVE);
        assert!(!wrong.agrees() && (wrong.max_error - 0.04).abs() < 1e-6, "{wrong:?}");
    }

    #[test]
    fn what_is_no_number_is_wrong_wherever_it_stands() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for place in 0..3 {
                let mut got = RIGHT;
                got[place] = bad;
                let verdict = Verdict::of(got.into_iter(), &TRUTH, &NAIVE);
                assert!(!verdict.agrees() && verdict.max_error == f64::INFINITY, "{bad} at {place}: {verdict:?}");
            }
        }
    }

    /// The scenario, and what plain f32 arithmetic gives at all rows: output and weights as a run names them.
    fn small(name: &str) -> (Expected, RunOutput) {
        let scenario = super::super::scenario::chosen(&[name.into()]).unwrap().remove(0);
        let work = Work::new(&scenario).unwrap();
        let query = work.input("query").unwrap().clone();
        let inputs = AttentionInputs { query, key: None, value: None, mask: Mask::default(), training: None };
        let [output, weights] = work.layer.as_ref().unwrap().reference::<f32>(&inputs).unwrap();
        let [_, heads, queries, keys] = *weights.shape().axes() else { unreachable!() };
        let weights = HostTensor::new([heads, queries, keys], weights.into_data()).unwrap();
        let outputs = [("output".to_owned(), output), ("weights".into(), weights)].into();
        (Expected::of(&scenario, &work).unwrap(), RunOutput { outputs, timing: multihead::RunTiming::default() })
    }

    fn changed(got: &RunOutput, name: &str, change: impl Fn(f32) -> f32) -> RunOutput {
        let mut got = got.clone();
        let tensor = &got.outputs[name];
        let data = tensor.data().iter().map(|&number| change(number)).collect();
        let tensor = HostTensor::new(tensor.shape().clone(), data).unwrap();
        got.outputs.insert(name.into(), tensor);
        got
    }

    #[test]
    fn output_and_weights_are_both_held_to_the_truth() {
        let (expected, right) = small("L");
        assert!(expected.judge(&right).unwrap().agrees());
        for name in ["output", "weights"] {
            assert!(!expected.judge(&changed(&right, name, |number| number * 1.02)).unwrap().agrees(), "{name}");
            assert!(!expected.judge(&changed(&right, name, |_| f32::NAN)).unwrap().agrees(), "{name}");
        }
    }

    #[test]
    fn an_answer_of_another_shape_is_refused() {
        let (expected, _) = small("L");
        for shape in [vec![1, 8, 63], vec![1, 7, 64], vec![8, 64], vec![2, 8, 64], vec![]] {
            let len = shape.iter().product();
            let error = expected.output(&HostTensor::new(shape, vec![0.0; len]).unwrap()).unwrap_err().to_string();
            assert!(error.contains("where 8 rows of 64 numbers are expected"), "{error}");
        }
    }
}
