//! From the shape of a step to its plan.

use std::sync::Arc;

use super::{Engine, NAMES, StepPlan, StepShape};
use crate::attention::build::{linear, sequences};
use crate::attention::cache::{Store, shape as cache_shape};
use crate::attention::config::at_least_one;
use crate::attention::run::check_no_tensors;
use crate::attention::{CacheOptions, CallShape, HeadSizes, KvCache, MultiHeadAttention};
use crate::device::Device;
use crate::error::Error;
use crate::graph::{
    AppendRows, Columns, DType, Graph, GraphBuilder, KeyBand, MergePartials, PartialAttention, Scores, Split, ValueId,
};
use crate::kernels::partial_attention::{WIDEST_HEAD, split};
use crate::plan::{Plan, PlanOptions, Tensor};

impl MultiHeadAttention {
    /// Compiles the step that appends up to `shape.rows` rows to each sequence of a cache and lets them attend.
    ///
    /// # Errors
    /// [`Error::Invalid`] where the cache is another device's, another layer's or of other widths; otherwise as
    /// [`cache`](Self::cache) and [`Plan::new`].
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
        if !cache.layer.is_of(self) {
            let sentence = "the cache was made by another layer, whose keys and values these would join; compile the step with the layer that made it, or a clone of that";
            return Err(Error::Invalid(sentence.into()));
        }
        if sizes != cache.sizes {
            return Err(Error::Invalid(format!(
                "the cache keeps {}, but this step has {}; make a cache for it",
                told(cache.sizes),
                told(sizes)
            )));
        }
        check_no_tensors(options, "leave PlanOptions::tensors empty")?;
        let engine = match (device, &cache.store) {
            (Device::Gpu(gpu), Store::Gpu(store)) if gpu.is(&store.gpu) => {
                let lines = cache.batch() * sizes.num_kv_heads;
                let group = sizes.num_heads / sizes.num_kv_heads;
                let split = split(gpu.profile(), lines, [group, sizes.head_dim, cache.capacity()]);
                let graph = self.step_graph(&cache.options, sizes, shape, split)?.0;
                let mut options = options.clone();
                let tensors =
                    NAMES.into_iter().zip(&store.buffers).map(|(name, buffer)| (name.into(), Tensor::new(buffer)));
                options.tensors.extend(tensors);
                Engine::Gpu(Box::new(Plan::new(gpu, &graph, &self.parameters(), &options).await?))
            }
            (Device::Cpu(_), Store::Cpu(_)) => {
                // What cannot be computed is refused now; a step has a graph of what it has to do.
                let (graph, _) = self.step_graph(&cache.options, sizes, shape, ON_CPU)?;
                Engine::Cpu { layer: self.clone(), num_nodes: graph.nodes().len() }
            }
            _ => {
                return Err(Error::Invalid(format!(
                    "the cache lies on another device than this \"{}\"; make a cache here, or compile for a clone of the device that it was made on",
                    device.name()
                )));
            }
        };
        Ok(StepPlan { engine, shape: *shape, mark: Arc::clone(&cache.mark) })
    }

    /// Heads and widths of a step.
    pub(in crate::attention) fn step_sizes(&self, batch: usize, shape: &StepShape) -> Result<HeadSizes, Error> {
        at_least_one("the number of rows of a step", shape.rows)?;
        if self.weights().is_some_and(|weights| weights.bias_k.is_some()) {
            let sentence = "a layer with a learned key (bias_k) has no cache: the key would stand after every new row";
            return Err(Error::Invalid(sentence.into()));
        }
        let sizes = self.sizes(&Self::step_call(batch, shape))?;
        // Beyond this a kernel's text, in which groups of a value are written out, would grow with the width.
        let widths = [("a head of queries", sizes.head_dim), ("a head of values", sizes.value_dim)];
        match widths.into_iter().find(|&(_, width)| width > WIDEST_HEAD) {
            Some((what, width)) => Err(Error::LimitExceeded {
                what: what.into(),
                need: width as u64,
                have: WIDEST_HEAD as u64,
                unit: "columns",
                limit: "the widest that attention over a cache takes".into(),
                hint: "use more heads".into(),
            }),
            None => Ok(sizes),
        }
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
    pub(super) fn step_graph(
        &self,
        cache: &CacheOptions,
        sizes: HeadSizes,
        shape: &StepShape,
        split: Split,
    ) -> Result<(Graph, [ValueId; 2]), Error> {
        let HeadSizes { num_heads, num_kv_heads, head_dim, value_dim } = sizes;
        let mut builder = GraphBuilder::new();
        let [query, key, value] = sequences(&mut builder, &Self::step_call(cache.batch, shape))?;
        let lengths = builder.input("lengths", [cache.batch, 2], DType::U32)?;
        let rows = match self.weights() {
            Some(weights) => [
                linear(&mut builder, "q", query, ["W_q", "b_q"], &weights.w_q)?,
                linear(&mut builder, "k", key, ["W_k", "b_k"], &weights.w_k)?,
                linear(&mut builder, "v", value, ["W_v", "b_v"], &weights.w_v)?,
            ],
            None => [query, key, value],
        };
        let appended = [(NAMES[0], rows[1], head_dim), (NAMES[1], rows[2], value_dim)].map(|(name, rows, width)| {
            let axes = cache_shape(cache, num_kv_heads, width);
            let kept = builder.input(name, axes, cache.storage.dtype())?;
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
        let op =
            PartialAttention { scores, value: values?, value_dim, lengths: Some(lengths), dropout: None, parts, keys };
        let partials = builder.partial_attention("partials", op)?;
        let joined = builder.merge_partials("joined", MergePartials { partials, num_heads, parts })?;
        let output = match self.weights() {
            Some(weights) => linear(&mut builder, "output", joined, ["W_o", "b_o"], &weights.w_o)?,
            None => joined,
        };
        Ok((builder.finish(&[output]), [rows[1], rows[2]]))
    }
}

/// The CPU takes all keys in one part.
pub(super) const ON_CPU: Split = Split { parts: 1, keys: 256 };

fn whole(tensor: ValueId, count: usize) -> Columns {
    Columns { tensor, first: 0, count }
}

fn told(sizes: HeadSizes) -> String {
    let HeadSizes { num_heads, num_kv_heads, head_dim, value_dim } = sizes;
    format!("keys of {num_kv_heads} heads of {head_dim} and values of {value_dim} for {num_heads} query heads")
}
