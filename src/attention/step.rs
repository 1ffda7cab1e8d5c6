//! Attention over a cache: one plan appends new rows and lets them attend, step after step.

mod compile;
mod on_cpu;

use std::sync::Arc;

use super::{AttentionOutput, KvCache, MultiHeadAttention};
use crate::error::Error;
use crate::graph::Inputs;
use crate::plan::Plan;
use crate::shape::HostTensor;

/// What decides the graph of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepShape {
    /// The most new rows of a sequence in one step, Lq; at least 1. Fewer may be given.
    pub rows: usize,
    /// Width of a row of the query, E.
    pub query: usize,
    /// Width of a row of the key; by default the key is the query.
    pub key: Option<usize>,
    /// Width of a row of the value; by default the value is the key.
    pub value: Option<usize>,
    /// Whether a new row sees only rows up to itself; otherwise all new ones too.
    pub causal: bool,
    /// A row sees rows nearer than this to its position; at least 1.
    pub window: Option<u64>,
}

impl StepShape {
    /// Steps of up to `rows` rows, each `width` wide and query, key and value at once; causal.
    #[must_use]
    pub fn self_attention(rows: usize, width: usize) -> Self {
        Self { rows, query: width, key: None, value: None, causal: true, window: None }
    }
}

/// New rows of each sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct StepInputs {
    /// (B, Lq, E), Lq at most [`StepShape::rows`].
    pub query: HostTensor,
    /// (B, Lq, key width); by default the query.
    pub key: Option<HostTensor>,
    /// (B, Lq, value width); by default the key.
    pub value: Option<HostTensor>,
    /// How many of the Lq rows each sequence has, from the first on, (B,); by default all. The others are not appended, see
    /// nothing, and give what attention to nothing gives.
    pub added: Option<Vec<usize>>,
}

impl StepInputs {
    /// Rows that are query, key and value at once, all of them new.
    #[must_use]
    pub fn new(query: HostTensor) -> Self {
        Self { query, key: None, value: None, added: None }
    }
}

/// A step compiled for one cache: it serves every step, for lengths are data.
///
/// A row's attention has the same bits in whatever chunk of rows it comes, on any one device: keys are shared out by
/// capacity, and merged in one order. Projections may use another kernel for other numbers of rows, whose sums run in
/// another order; they are the same to rounding.
///
/// Weights are divided by their sum at the end, after they were multiplied with the values: values whose sum over the rows
/// that a row sees is beyond 3.4·10³⁸ give an infinity, where a call that divides first gives a number.
#[derive(Debug)]
pub struct StepPlan {
    engine: Engine,
    shape: StepShape,
    mark: Arc<()>,
}

#[derive(Debug)]
enum Engine {
    Gpu(Box<Plan>),
    Cpu {
        layer: MultiHeadAttention,
        /// Of a step's graph.
        num_nodes: usize,
    },
}

/// The graph's names of keys and values.
const NAMES: [&str; 2] = ["key_cache", "value_cache"];

impl StepPlan {
    /// How many dispatches a step records; on the CPU, how many nodes it works off.
    #[must_use]
    pub fn num_dispatches(&self) -> usize {
        match &self.engine {
            Engine::Gpu(plan) => plan.num_dispatches(),
            Engine::Cpu { num_nodes, .. } => *num_nodes,
        }
    }

    /// The plan, where a GPU runs it.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        match &self.engine {
            Engine::Gpu(plan) => Some(plan),
            Engine::Cpu { .. } => None,
        }
    }

    /// Appends the new rows to their sequences and gives their attention over what is cached, (B, Lq, E).
    ///
    /// Row `i` of a sequence stands at its cached length + `i`. Nothing is compiled, and on a GPU nothing allocated but what
    /// the answer is copied to.
    ///
    /// # Errors
    /// [`Error::Invalid`] for the cache of another plan; [`Error::WrongShape`] and [`Error::Missing`] for other inputs than
    /// were compiled; [`Error::OutOfRange`] for more new rows than there are; [`Error::LimitExceeded`] where a sequence
    /// would grow past the capacity; those of the device. After any of them every sequence has the rows that it had.
    pub async fn run(&self, cache: &mut KvCache, inputs: &StepInputs) -> Result<AttentionOutput, Error> {
        if !Arc::ptr_eq(&self.mark, &cache.mark) {
            let sentence = "the step was compiled for another cache; compile a step for this one";
            return Err(Error::Invalid(sentence.into()));
        }
        let rows = self.check_inputs(cache.batch(), inputs)?;
        let lengths = lengths(cache, rows, inputs.added.as_deref())?;
        let words = lengths.iter().flatten().map(|&length| u32::try_from(length).unwrap_or(u32::MAX)).collect();
        let words = HostTensor::new([cache.batch(), 2], words)?;
        // A plan has its number of rows; on the CPU there are as many as are needed.
        let filled_to = if self.plan().is_some() { self.shape.rows } else { rows.max(1) };
        let filled = [Some(&inputs.query), inputs.key.as_ref(), inputs.value.as_ref()]
            .map(|tensor| tensor.map(|tensor| with_rows(tensor, filled_to)).transpose());
        let [query, key, value] = filled;
        let [query, key, value] = [query?, key?, value?];
        let given = ["query", "key", "value"].into_iter().zip([&query, &key, &value]);
        let given = given.filter_map(|(name, tensor)| Some((name, tensor.as_ref()?)));
        let given = given.fold(Inputs::new().with("lengths", &words), |all, (name, tensor)| all.with(name, tensor));
        let (output, timing) = match &self.engine {
            Engine::Gpu(plan) => {
                let run = plan.run(&given).await?;
                (run.outputs.into_values().next(), run.timing)
            }
            Engine::Cpu { layer, .. } => {
                let shape = StepShape { rows: filled_to, ..self.shape };
                on_cpu::step(layer, &shape, cache, &given, &lengths)?
            }
        };
        let output = output.ok_or_else(|| Error::Invalid("the graph of a step has no output".into()))?;
        for (length, [before, added]) in cache.lengths.iter_mut().zip(lengths) {
            *length = before + added;
        }
        Ok(AttentionOutput { output: with_rows(&output, rows)?, attention_weights: None, timing })
    }

    /// How many rows there are of each sequence, if the inputs are what was compiled for.
    fn check_inputs(&self, batch: usize, inputs: &StepInputs) -> Result<usize, Error> {
        let StepShape { rows: most, query, key, value, .. } = self.shape;
        let rows = inputs.query.shape().axes().get(1).copied().unwrap_or(0);
        let named = [
            ("query", Some(&inputs.query), Some(query)),
            ("key", inputs.key.as_ref(), key),
            ("value", inputs.value.as_ref(), value),
        ];
        for (name, tensor, width) in named {
            match (tensor, width) {
                (None, None) => {}
                (Some(tensor), Some(width)) if rows <= most && tensor.shape() == &[batch, rows, width] => {}
                (Some(tensor), Some(width)) => {
                    return Err(Error::WrongShape {
                        what: name.into(),
                        got: tensor.shape().clone(),
                        expected: format!(
                            "the step was compiled for ({batch}, rows, {width}), at most {most} rows and as many of each"
                        ),
                    });
                }
                (None, Some(width)) => {
                    return Err(Error::Missing {
                        what: format!("the {name} of a step"),
                        hint: format!("it was compiled for a {name} of width {width}"),
                    });
                }
                (Some(_), None) => {
                    return Err(Error::Invalid(format!(
                        "a {name} is given, but the step was compiled without one; say its width in StepShape"
                    )));
                }
            }
        }
        Ok(rows)
    }
}

/// For each sequence the rows that it has, and how many are new.
fn lengths(cache: &KvCache, rows: usize, added: Option<&[usize]>) -> Result<Vec<[usize; 2]>, Error> {
    if let Some(added) = added
        && added.len() != cache.batch()
    {
        return Err(Error::WrongShape {
            what: "the counts of new rows".into(),
            got: [added.len()].into(),
            expected: format!("the cache has {} sequences", cache.batch()),
        });
    }
    let of_entry = |(entry, &before): (usize, &usize)| {
        let added = added.map_or(rows, |added| added[entry]);
        if added > rows {
            return Err(Error::OutOfRange {
                what: format!("the count of new rows of batch entry {entry}"),
                value: added.to_string(),
                allowed: format!("must be at most the {rows} rows that are given"),
            });
        }
        if before + added > cache.capacity() {
            return Err(Error::LimitExceeded {
                what: format!("batch entry {entry} with {before} cached rows and {added} new ones"),
                need: (before + added) as u64,
                have: cache.capacity() as u64,
                unit: "rows",
                limit: "the capacity of the cache".into(),
                hint: "truncate it, or make a cache of more capacity".into(),
            });
        }
        Ok([before, added])
    };
    cache.lengths.iter().enumerate().map(of_entry).collect()
}

/// A tensor (B, L, W) with another number of rows: zeros behind, or the last ones left out.
fn with_rows(tensor: &HostTensor, rows: usize) -> Result<HostTensor, Error> {
    let &[batch, have, width] = tensor.shape().axes() else {
        unreachable!("a step's tensors should have three axes");
    };
    let mut data = Vec::with_capacity(batch * rows * width);
    for entry in 0..batch {
        let first = entry * have * width;
        data.extend_from_slice(&tensor.data()[first..first + have.min(rows) * width]);
        data.resize((entry + 1) * rows * width, 0.0);
    }
    HostTensor::new([batch, rows, width], data)
}
