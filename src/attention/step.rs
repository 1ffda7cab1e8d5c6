//! Attention over a cache: one plan appends new rows and lets them attend, step after step.

use std::sync::Arc;

use super::build::{linear, sequences};
use super::cache::{Kept, Store, shape as cache_shape};
use super::{AttentionOutput, CallShape, HeadSizes, KvCache, MultiHeadAttention};
use crate::device::Device;
use crate::error::Error;
use crate::graph::{
    AppendRows, Columns, DType, Graph, GraphBuilder, Inputs, KeyBand, MergePartials, PartialAttention, Scores, Split,
    ValueId,
};
use crate::kernels::partial_attention::{WIDEST_HEAD, split};
use crate::plan::{Plan, PlanOptions, RunTiming, Tensor};
use crate::reference;
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
#[derive(Debug)]
pub struct StepPlan {
    engine: Engine,
    shape: StepShape,
    sizes: HeadSizes,
    mark: Arc<()>,
}

#[derive(Debug)]
enum Engine {
    Gpu(Box<Plan>),
    Cpu {
        graph: Graph,
        /// What the new rows of keys and values are called in it.
        names: [String; 2],
        layer: Box<MultiHeadAttention>,
    },
}

impl MultiHeadAttention {
    /// Compiles the step that appends up to `shape.rows` rows to each sequence of a cache and lets them attend.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the cache is another device's or another layer's; [`Error::LimitExceeded`] where heads are
    /// wider than the kernel takes, or the cache is larger than what a shader can see of one sequence; otherwise as
    /// [`sizes`](Self::sizes) and [`Plan::new`].
    pub async fn compile_step(&self, device: &Device, cache: &KvCache, shape: &StepShape) -> Result<StepPlan, Error> {
        self.compile_step_with(device, cache, shape, &PlanOptions::default()).await
    }

    /// As [`compile_step`](Self::compile_step), with a say in how the graph is computed on a GPU.
    ///
    /// # Errors
    /// As [`compile_step`](Self::compile_step).
    pub async fn compile_step_with(
        &self,
        device: &Device,
        cache: &KvCache,
        shape: &StepShape,
        options: &PlanOptions,
    ) -> Result<StepPlan, Error> {
        let sizes = self.step_sizes(cache.batch(), shape)?;
        if sizes != cache.sizes {
            return Err(Error::Invalid(format!(
                "the cache keeps {}, but this layer has {}; make a cache for it",
                told(cache.sizes),
                told(sizes)
            )));
        }
        let engine = match (device, &cache.store) {
            (Device::Gpu(gpu), Store::Gpu(store)) if gpu.device() == store.gpu.device() => {
                let lines = cache.batch() * sizes.num_kv_heads;
                let group = sizes.num_heads / sizes.num_kv_heads;
                let split = split(gpu.profile(), lines, [group, sizes.head_dim, cache.capacity()]);
                let graph = self.step_graph(cache, shape, split)?.0;
                let mut options = options.clone();
                let tensors =
                    NAMES.into_iter().zip(&store.buffers).map(|(name, buffer)| (name.into(), Tensor::new(buffer)));
                options.tensors.extend(tensors);
                Engine::Gpu(Box::new(Plan::new(gpu, &graph, &self.parameters(), &options).await?))
            }
            (Device::Cpu(_), Store::Cpu(_)) => {
                let (graph, new_rows) = self.step_graph(cache, shape, ON_CPU)?;
                // There the rows are appended by whoever runs the graph.
                let outputs: Vec<_> = graph.outputs().iter().copied().chain(new_rows).collect();
                let names = new_rows.map(|id| graph.value(id).name.clone());
                let graph = GraphBuilder::continuing(graph).finish(&outputs);
                Engine::Cpu { graph, names, layer: Box::new(self.clone()) }
            }
            _ => {
                return Err(Error::Invalid(format!(
                    "the cache lies on another device than \"{}\"; make a cache there",
                    device.name()
                )));
            }
        };
        Ok(StepPlan { engine, shape: *shape, sizes, mark: Arc::clone(&cache.mark) })
    }

    /// Heads and widths of a step.
    pub(super) fn step_sizes(&self, batch: usize, shape: &StepShape) -> Result<HeadSizes, Error> {
        super::config::at_least_one("the number of rows of a step", shape.rows)?;
        if self.weights().is_some_and(|weights| weights.bias_k.is_some()) {
            let sentence = "a layer with a learned key (bias_k) has no cache: the key would stand after every new row";
            return Err(Error::Invalid(sentence.into()));
        }
        let sizes = self.sizes(&Self::step_call(batch, shape))?;
        let widest = sizes.head_dim;
        if widest > WIDEST_HEAD {
            return Err(Error::LimitExceeded {
                what: "a head of queries".into(),
                need: widest as u64,
                have: WIDEST_HEAD as u64,
                unit: "columns",
                limit: "the widest that attention over a cache takes".into(),
                hint: "use more heads".into(),
            });
        }
        Ok(sizes)
    }

    /// The call that a step is, were there nothing in the cache.
    fn step_call(batch: usize, shape: &StepShape) -> CallShape {
        let of = |width: usize| [batch, shape.rows, width].into();
        CallShape {
            key: shape.key.map(of),
            value: shape.value.map(of),
            causal: shape.causal,
            window: shape.window,
            ..CallShape::self_attention(of(shape.query))
        }
    }

    /// Rows in, rows appended to the cache in place, attention over all of it. Beside the graph, the rows of keys and values
    /// that it appends.
    fn step_graph(&self, cache: &KvCache, shape: &StepShape, split: Split) -> Result<(Graph, [ValueId; 2]), Error> {
        let HeadSizes { num_heads, num_kv_heads, head_dim, value_dim } = cache.sizes;
        let mut builder = GraphBuilder::new();
        let [query, key, value] = sequences(&mut builder, &Self::step_call(cache.batch(), shape))?;
        let lengths = builder.input("lengths", [cache.batch(), 2], DType::U32)?;
        let rows = match self.weights() {
            Some(weights) => [
                linear(&mut builder, "q", query, ["W_q", "b_q"], &weights.w_q)?,
                linear(&mut builder, "k", key, ["W_k", "b_k"], &weights.w_k)?,
                linear(&mut builder, "v", value, ["W_v", "b_v"], &weights.w_v)?,
            ],
            None => [query, key, value],
        };
        let appended = [(NAMES[0], rows[1], head_dim), (NAMES[1], rows[2], value_dim)].map(|(name, rows, width)| {
            let axes = cache_shape(&cache.options, num_kv_heads, width);
            let kept = builder.input(name, axes, cache.options.storage.dtype())?;
            let rows = whole(rows, num_kv_heads * width);
            let op = AppendRows { cache: kept, rows, lengths, num_heads: num_kv_heads };
            Ok::<_, Error>(whole(builder.append_rows(&format!("{name}.appended"), op)?, axes[2]))
        });
        let [keys, values] = appended;
        let scores = Scores {
            query: whole(rows[0], num_heads * head_dim),
            key: keys?,
            valid_lens: None,
            attend_mask: None,
            bias: None,
            num_heads,
            num_kv_heads,
            scale: self.scale(head_dim),
            band: KeyBand::new(shape.causal, 0, shape.window),
            extra_keys: 0,
        };
        let Split { parts, keys } = split;
        let op = PartialAttention { scores, value: values?, value_dim, lengths: Some(lengths), parts, keys };
        let partials = builder.partial_attention("partials", op)?;
        let joined = builder.merge_partials("joined", MergePartials { partials, num_heads, parts })?;
        let output = match self.weights() {
            Some(weights) => linear(&mut builder, "output", joined, ["W_o", "b_o"], &weights.w_o)?,
            None => joined,
        };
        Ok((builder.finish(&[output]), [rows[1], rows[2]]))
    }
}

/// The graph's names of keys and values.
const NAMES: [&str; 2] = ["key_cache", "value_cache"];

/// The CPU takes all keys in one part.
const ON_CPU: Split = Split { parts: 1, keys: 256 };

fn whole(tensor: ValueId, count: usize) -> Columns {
    Columns { tensor, first: 0, count }
}

fn told(sizes: HeadSizes) -> String {
    let HeadSizes { num_heads, num_kv_heads, head_dim, value_dim } = sizes;
    format!("keys of {num_kv_heads} heads of {head_dim} and values of {value_dim} for {num_heads} query heads")
}

impl StepPlan {
    /// How many dispatches a step records; on the CPU, how many nodes it works off.
    #[must_use]
    pub fn num_dispatches(&self) -> usize {
        match &self.engine {
            Engine::Gpu(plan) => plan.num_dispatches(),
            Engine::Cpu { graph, .. } => graph.nodes().len(),
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
        let filled = [Some(&inputs.query), inputs.key.as_ref(), inputs.value.as_ref()]
            .map(|tensor| tensor.map(|tensor| with_rows(tensor, self.shape.rows)).transpose());
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
            Engine::Cpu { graph, names, layer } => self.on_cpu(cache, graph, names, layer, &given, &lengths)?,
        };
        let output = output.ok_or_else(|| Error::Invalid("the graph of a step has no output".into()))?;
        for (length, [before, added]) in cache.lengths.iter_mut().zip(lengths) {
            *length = before + added;
        }
        Ok(AttentionOutput { output: with_rows(&output, rows)?, attention_weights: None, timing })
    }

    fn on_cpu(
        &self,
        cache: &mut KvCache,
        graph: &Graph,
        names: &[String; 2],
        layer: &MultiHeadAttention,
        given: &Inputs<'_>,
        lengths: &[[usize; 2]],
    ) -> Result<(Option<HostTensor>, RunTiming), Error> {
        let Store::Cpu(kept) = &mut cache.store else {
            return Err(Error::Invalid("the cache of a step on the CPU lies elsewhere".into()));
        };
        let start = web_time::Instant::now();
        let given = NAMES.into_iter().zip(kept.iter()).fold(given.clone(), |given, (name, kept)| match kept {
            Kept::F32(tensor) => given.with(name, tensor),
            Kept::F16(tensor) => given.with(name, tensor),
        });
        let mut outputs = reference::interpret::<f32>(graph, &layer.parameters(), &given)?;
        for (kept, name) in kept.iter_mut().zip(names) {
            let rows = outputs.get(name).ok_or_else(|| Error::Invalid(format!("the graph of a step has no {name}")))?;
            kept.append(rows, self.sizes.num_kv_heads, lengths);
        }
        let name = &graph.value(graph.outputs()[0]).name;
        Ok((outputs.remove(name), RunTiming { gpu: start.elapsed(), ..RunTiming::default() }))
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
