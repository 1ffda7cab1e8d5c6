//! `multihead decode`: a case's query rows fed one by one to a cache, and held against the one-shot answer.

use std::time::Instant;

use multihead::{
    AttentionInputs, CacheOptions, CacheStorage, Case, Comparison, Device, Error, HostTensor, KvCache, Mask,
    MultiHeadAttention, PlanOptions, StepInputs, StepShape,
};
use serde::Serialize;

use super::args::DecodeArguments;
use super::{Outcome, print};

/// What is said of it.
#[derive(Serialize)]
struct Report<'a> {
    /// As text, for a path need not be Unicode and JSON is.
    case: String,
    device: &'a str,
    ok: bool,
    max_error: f64,
    tolerance: f64,
    /// Rows that were fed one by one, after those that came before in one chunk.
    steps: usize,
    rows_before: usize,
    storage: &'static str,
    bytes_per_token: u64,
    cache_bytes: u64,
    /// The median step, with its row handed over and its answer read back.
    ms_per_step: f64,
    /// On the CPU, nodes of the graph.
    dispatches_per_step: usize,
}

/// A case as rows of a cache: all keys, and queries that stand at the last of them.
struct Rows<'a> {
    inputs: &'a AttentionInputs,
    batch: usize,
    num_queries: usize,
    num_keys: usize,
}

/// What the steps gave.
struct Decoded {
    output: HostTensor,
    ms_per_step: f64,
    dispatches: usize,
}

pub(super) async fn decode(arguments: &DecodeArguments) -> Result<Outcome, Error> {
    let case = Case::open(&arguments.case, &arguments.how.case_options())?;
    let in_case = |error: Error| error.in_file(&arguments.case);
    let attention = case.attention().map_err(in_case)?;
    attention.check(&case.inputs).map_err(in_case)?;
    let rows = Rows::of(&case.inputs).map_err(in_case)?;
    let steps = arguments.steps.unwrap_or(rows.num_queries);
    if steps > rows.num_queries || steps == 0 {
        return Err(in_case(Error::OutOfRange {
            what: "the number of steps".into(),
            value: steps.to_string(),
            allowed: format!("must be between 1 and the {} query rows of the case", rows.num_queries),
        }));
    }
    let device = super::open(&arguments.how.device).await?;
    let plan_options = arguments.how.plan_options();
    let storage = if arguments.halves() { CacheStorage::F16 } else { CacheStorage::F32 };
    let options = CacheOptions { batch: rows.batch, capacity: rows.num_keys, storage };
    let mut cache = attention.cache(&device, &options, &rows.shape(1)).await.map_err(in_case)?;
    let decoded = rows.decode(&device, &attention, &mut cache, (steps, &plan_options)).await.map_err(in_case)?;
    let call = case.inputs.call_shape();
    let plan = attention.compile_with(&device, &call, false, &plan_options).await.map_err(in_case)?;
    let whole = plan.run(&case.inputs).await.map_err(in_case)?.output;
    let tolerance = if arguments.halves() && !arguments.how.has_tolerance() {
        case.tolerance() + lost_to_halves(&whole)
    } else {
        case.tolerance()
    };
    let comparison = Comparison::new("output", &decoded.output, &whole, tolerance);
    let report = Report {
        case: arguments.case.display().to_string(),
        device: device.name(),
        ok: comparison.ok,
        max_error: comparison.max_error,
        tolerance,
        steps,
        rows_before: rows.num_keys - steps,
        storage: if arguments.halves() { "f16" } else { "f32" },
        bytes_per_token: cache.bytes_per_token(),
        cache_bytes: cache.bytes(),
        ms_per_step: decoded.ms_per_step,
        dispatches_per_step: decoded.dispatches,
    };
    if arguments.how.json {
        print::json(&report)?;
    } else {
        print::text(&told(&report, &comparison))?;
    }
    Ok(if comparison.ok { Outcome::Done } else { Outcome::Differs })
}

/// What storing keys and values as halves may change an answer by: a half is up to 2⁻¹¹ of itself off, so that of values
/// alone a mean is as much; four times that, as keys move the weights too.
fn lost_to_halves(whole: &HostTensor) -> f64 {
    4.0 * 2.0_f64.powi(-11)
        * whole.data().iter().filter(|x| x.is_finite()).fold(0.0, |most, x| f64::from(x.abs()).max(most))
}

impl<'a> Rows<'a> {
    /// Refuses a call whose rows could not come one after the other.
    fn of(inputs: &'a AttentionInputs) -> Result<Self, Error> {
        let axes = inputs.query().shape().axes();
        let (batch, num_queries, num_keys) = (axes[0], axes[1], inputs.key().shape().axes()[1]);
        let Mask { valid_lens, attend_mask, bias, causal, query_offset, .. } = &inputs.mask;
        let others = [
            ("valid_lens", valid_lens.is_some()),
            ("attend_mask", attend_mask.is_some()),
            ("bias", bias.is_some()),
            ("dropout", inputs.training.is_some()),
        ];
        let found: Vec<_> = others.iter().filter(|(_, is_there)| *is_there).map(|(name, _)| *name).collect();
        if !found.is_empty() {
            return Err(Error::Invalid(format!(
                "decode takes rows by position alone, but the case has {}; leave it out",
                found.join(" and ")
            )));
        }
        if !causal {
            let sentence =
                "a row that is decoded sees no later one; decode needs a causal case, give --causal to make it one";
            return Err(Error::Invalid(sentence.into()));
        }
        if num_queries == 0 {
            return Err(Error::Invalid("the case has no query rows, and decode feeds them; give at least one".into()));
        }
        if num_keys < num_queries {
            return Err(Error::Invalid(format!(
                "the case has {num_queries} query rows, but {num_keys} key rows; decode appends a key row for each query row, so give as many"
            )));
        }
        let behind = num_keys - num_queries;
        if i128::from(*query_offset) != behind as i128 {
            return Err(Error::OutOfRange {
                what: "query_offset".into(),
                value: query_offset.to_string(),
                allowed: format!(
                    "must be {behind}, the keys before the first query: decode feeds {num_queries} query rows that are the last of {num_keys} key rows"
                ),
            });
        }
        Ok(Self { inputs, batch, num_queries, num_keys })
    }

    fn shape(&self, rows: usize) -> StepShape {
        let width = |tensor: &HostTensor| tensor.shape().axes()[2];
        StepShape {
            key: self.inputs.key.as_ref().map(width),
            value: self.inputs.value.as_ref().map(width),
            window: self.inputs.mask.window,
            ..StepShape::self_attention(rows, width(&self.inputs.query))
        }
    }

    /// Rows from `first` on of all keys; a key row without a query of its own gets one of zeros.
    fn inputs(&self, first: usize, count: usize) -> Result<StepInputs, Error> {
        let some =
            |tensor: &Option<HostTensor>| tensor.as_ref().map(|tensor| rows(tensor, 0, first, count)).transpose();
        let missing = self.num_keys - self.num_queries;
        Ok(StepInputs {
            query: rows(&self.inputs.query, missing, first, count)?,
            key: some(&self.inputs.key)?,
            value: some(&self.inputs.value)?,
            added: None,
        })
    }

    /// All rows but the last `steps` in one chunk, then those one by one; the outputs of the query rows.
    async fn decode(
        &self,
        device: &Device,
        attention: &MultiHeadAttention,
        cache: &mut KvCache,
        (steps, options): (usize, &PlanOptions),
    ) -> Result<Decoded, Error> {
        let before = self.num_keys - steps;
        let mut outputs = Vec::new();
        if before > 0 {
            let chunk = attention.compile_step_with(device, cache, &self.shape(before), options).await?;
            let output = chunk.run(cache, &self.inputs(0, before)?).await?.output;
            let asked = self.num_queries - steps;
            outputs.push(rows(&output, 0, before - asked, asked)?);
        }
        let step = attention.compile_step_with(device, cache, &self.shape(1), options).await?;
        let mut times = Vec::new();
        for row in before..self.num_keys {
            let inputs = self.inputs(row, 1)?;
            let start = Instant::now();
            outputs.push(step.run(cache, &inputs).await?.output);
            times.push(start.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let width = outputs[outputs.len() - 1].shape().axes()[2];
        let of_entry = |entry: usize| {
            outputs.iter().flat_map(move |output| {
                let len = output.data().len() / self.batch;
                output.data()[entry * len..(entry + 1) * len].iter().copied()
            })
        };
        let data = (0..self.batch).flat_map(of_entry).collect();
        let output = HostTensor::new([self.batch, self.num_queries, width], data)?;
        Ok(Decoded { output, ms_per_step: times[times.len() / 2], dispatches: step.num_dispatches() })
    }
}

/// `count` rows from `first` on of a tensor (B, L, W) before which `missing` rows of zeros are thought.
fn rows(tensor: &HostTensor, missing: usize, first: usize, count: usize) -> Result<HostTensor, Error> {
    let axes = tensor.shape().axes();
    let [batch, length, width] = [axes[0], axes[1], axes[2]];
    let mut data = Vec::with_capacity(batch * count * width);
    for entry in 0..batch {
        for row in first..first + count {
            match row.checked_sub(missing) {
                Some(row) => data.extend_from_slice(&tensor.data()[(entry * length + row) * width..][..width]),
                None => data.resize(data.len() + width, 0.0),
            }
        }
    }
    HostTensor::new([batch, count, width], data)
}

fn told(report: &Report<'_>, comparison: &Comparison) -> String {
    let Report { device, steps, rows_before, storage, bytes_per_token, cache_bytes, .. } = report;
    let verdict = if report.ok { "ok  " } else { "FAIL" };
    let mut text = format!("device      {device}\n");
    text += &format!("cache       {bytes_per_token} bytes for each token as {storage}, {cache_bytes} in all\n");
    text += &format!("steps       {steps} of one row, after {rows_before} in one chunk\n");
    let counted = if *device == "cpu" { "nodes of the graph" } else { "dispatches" };
    text += &format!("work        {} {counted} for each step\n", report.dispatches_per_step);
    text += &format!("time        {:.2} ms for the median step\n", report.ms_per_step);
    text += &format!(
        "{verdict}        max error {:.1e} against one shot, tolerance {}",
        report.max_error,
        format!("{:.1e}", report.tolerance).replace(".0e", "e")
    );
    if let (false, Some(worst)) = (report.ok, &comparison.worst) {
        text += &format!("; {worst}");
    }
    text + "\n"
}
