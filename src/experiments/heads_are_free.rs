//! What more heads cost: no parameters and no matrix products, but exponentials, and whatever a device makes of it.
//!
//! With d = `num_hiddens` split among h heads, the four projections have 4d² parameters and a sequence of n tokens
//! takes 8nd² + 4n²d floating-point operations in matrix products, whatever h is (Vaswani et al. 2017, §3.2.2; D2L
//! §10.3). The softmax takes h·n² exponentials, which do grow. Counts are those of the graph, times those of the
//! device.

use std::fmt;

use serde::Serialize;

use super::between;
use super::random::{Normal, square_weights};
use crate::attention::{AttentionConfig, AttentionInputs, CallShape, Linear, MultiHeadAttention, Weights, divides};
use crate::device::Device;
use crate::error::Error;
use crate::graph::{Graph, Op};
use crate::plan::Progress;
use crate::shape::HostTensor;

/// What to count and measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Widths d, each divisible by every number of heads.
    pub num_hiddens: Vec<usize>,
    /// Numbers of heads h.
    pub heads: Vec<usize>,
    /// n, the length of the sequence that attends to itself.
    pub num_tokens: usize,
    /// How many runs are timed after a first that is not; 0 = count only.
    pub runs: usize,
}

/// The largest d: its four projections take a gigabyte.
pub const WIDEST: usize = 8192;

impl Default for Options {
    /// d = 256, h = 1, 2, 4, 8, n = 64, 5 runs.
    fn default() -> Self {
        Self { num_hiddens: vec![256], heads: vec![1, 2, 4, 8], num_tokens: 64, runs: 5 }
    }
}

/// One width with one number of heads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// d.
    pub num_hiddens: usize,
    /// h.
    pub heads: usize,
    /// Elements of all parameters of the graph.
    pub parameters: u64,
    /// 4d².
    pub parameters_formula: u64,
    /// Floating-point operations of the graph's matrix products.
    pub flops: u64,
    /// 8nd² + 4n²d.
    pub flops_formula: u64,
    /// Elements that the graph's softmax exponentiates.
    pub exponentials: u64,
    /// h·n².
    pub exponentials_formula: u64,
    /// Median time of a run on the device, in milliseconds, upload and readback left out; none where not measured.
    pub median_ms: Option<f64>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Where it was measured.
    pub device: String,
    /// n.
    pub num_tokens: usize,
    /// How many runs a median is of.
    pub runs: usize,
    /// For each width, one for each number of heads.
    pub rows: Vec<Row>,
}

/// Counts and measures.
///
/// # Errors
/// [`Error::OutOfRange`] and [`Error::NotDivisible`] for sizes that cannot be; those of the device.
pub async fn run(device: &Device, options: &Options) -> Result<Report, Error> {
    run_with_progress(device, options, |_| ()).await
}

/// As [`run`], and says after each row how far it has come.
///
/// # Errors
/// As [`run`].
pub async fn run_with_progress(
    device: &Device,
    options: &Options,
    mut progress: impl FnMut(Progress),
) -> Result<Report, Error> {
    between("the number of tokens", options.num_tokens, 1, 4096)?;
    between("the number of runs", options.runs, 0, 1000)?;
    between("the number of widths", options.num_hiddens.len(), 1, 16)?;
    between("the number of head counts", options.heads.len(), 1, 16)?;
    for &num_hiddens in &options.num_hiddens {
        between("num_hiddens", num_hiddens, 1, WIDEST)?;
        for &num_heads in &options.heads {
            between("the number of heads", num_heads, 1, 4096)?;
            divides("num_hiddens", num_hiddens, "the number of heads", num_heads)?;
        }
    }
    let total = (options.num_hiddens.len() * options.heads.len()) as u64;
    let mut rows = Vec::new();
    for &num_hiddens in &options.num_hiddens {
        let random = (options.runs > 0).then(|| random(options.num_tokens, num_hiddens)).transpose()?;
        for &num_heads in &options.heads {
            let mut row = counted(options.num_tokens, num_hiddens, num_heads)?;
            if let Some((weights, inputs)) = &random {
                let layer = MultiHeadAttention::new(AttentionConfig::new(num_heads), weights.clone())?;
                row.median_ms = Some(median_ms(device, &layer, inputs, options.runs).await?);
            }
            rows.push(row);
            progress(Progress { done: rows.len() as u64, total });
        }
    }
    let Options { num_tokens, runs, .. } = *options;
    Ok(Report { device: device.name().into(), num_tokens, runs, rows })
}

/// A row without a time.
fn counted(num_tokens: usize, num_hiddens: usize, num_heads: usize) -> Result<Row, Error> {
    let layer = MultiHeadAttention::new(AttentionConfig::new(num_heads), zeros(num_hiddens)?)?;
    let graph = layer.graph(&CallShape::self_attention([1, num_tokens, num_hiddens]), false)?;
    let (n, d, h) = (num_tokens as u64, num_hiddens as u64, num_heads as u64);
    Ok(Row {
        num_hiddens,
        heads: num_heads,
        parameters: graph.parameters(),
        parameters_formula: 4 * d * d,
        flops: graph.flops(),
        flops_formula: 8 * n * d * d + 4 * n * n * d,
        exponentials: exponentials(&graph),
        exponentials_formula: h * n * n,
        median_ms: None,
    })
}

/// What every number of heads of one width is timed with.
fn random(num_tokens: usize, num_hiddens: usize) -> Result<(Weights, AttentionInputs), Error> {
    let mut normal = Normal::new(0);
    let weights = square_weights(&mut normal, num_hiddens)?;
    let input = normal.tensor([1, num_tokens, num_hiddens], 1.0)?;
    Ok((weights, AttentionInputs::self_attention(input)))
}

/// Projections that are only counted: their zeros are never touched.
fn zeros(num_hiddens: usize) -> Result<Weights, Error> {
    let linear = || {
        let weight = HostTensor::new([num_hiddens, num_hiddens], vec![0.0; num_hiddens * num_hiddens])?;
        Ok::<_, Error>(Linear { weight, bias: None })
    };
    Ok(Weights { w_q: linear()?, w_k: linear()?, w_v: linear()?, w_o: linear()?, bias_k: None, bias_v: None })
}

/// What the softmax nodes write, an exponential each.
fn exponentials(graph: &Graph) -> u64 {
    let softmax = graph.nodes().iter().filter(|node| matches!(node.op, Op::Softmax(_)));
    softmax.map(|node| graph.value(node.output).len() as u64).sum()
}

async fn median_ms(
    device: &Device,
    layer: &MultiHeadAttention,
    inputs: &AttentionInputs,
    runs: usize,
) -> Result<f64, Error> {
    let plan = layer.compile(device, &inputs.call_shape(), false).await?;
    plan.run(inputs).await?;
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        times.push(plan.run(inputs).await?.timing.gpu.as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(f64::midpoint(times[(runs - 1) / 2], times[runs / 2]))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "a sequence of {} tokens attends to itself", self.num_tokens)?;
        match self.runs {
            0 => writeln!(f, "counted from the graph, not measured\n")?,
            runs => writeln!(f, "times are medians of {runs} runs on {}\n", self.device)?,
        }
        writeln!(
            f,
            "{:>5}  {:>5}  {:>11}  {:>14}  {:>12}  median time",
            "width", "heads", "parameters", "flops", "exponentials"
        )?;
        for row in &self.rows {
            let time = row.median_ms.map_or_else(|| "-".into(), |time| format!("{time:.3} ms"));
            let Row { num_hiddens, heads, parameters, flops, exponentials, .. } = row;
            writeln!(f, "{num_hiddens:>5}  {heads:>5}  {parameters:>11}  {flops:>14}  {exponentials:>12}  {time}")?;
        }
        let agrees = |row: &Row| {
            row.parameters == row.parameters_formula
                && row.flops == row.flops_formula
                && row.exponentials == row.exponentials_formula
        };
        if self.rows.iter().all(agrees) {
            writeln!(f, "\nparameters are 4d², flops 8nd² + 4n²d and exponentials h·n² in every row")
        } else {
            writeln!(f, "\nNOT every row has 4d² parameters, 8nd² + 4n²d flops and h·n² exponentials")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_is_not_its_formula_is_said() {
        let told = |change: fn(&mut Row)| {
            let mut row = counted(5, 12, 3).unwrap();
            change(&mut row);
            Report { device: "cpu".into(), num_tokens: 5, runs: 0, rows: vec![row] }.to_string()
        };
        assert!(told(|_| ()).contains("in every row"));
        let changes: [fn(&mut Row); 3] = [|row| row.parameters += 1, |row| row.flops += 1, |row| row.exponentials += 1];
        for change in changes {
            assert!(told(change).contains("NOT every row"));
        }
    }
}
