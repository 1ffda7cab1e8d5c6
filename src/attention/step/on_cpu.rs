//! A step on the CPU: it costs by the rows that are there, not by the capacity.

use web_time::Instant;

use super::compile::ON_CPU;
use super::{NAMES, StepShape};
use crate::attention::cache::{Kept, Store};
use crate::attention::{CacheOptions, KvCache, MultiHeadAttention};
use crate::error::Error;
use crate::graph::{GraphBuilder, Inputs};
use crate::plan::RunTiming;
use crate::reference;
use crate::shape::HostTensor;

/// Appends the new rows to the cache and gives their attention, (B, Lq, E).
///
/// The graph is that of a cache which the longest sequence just fills. Its rows are a copy, so that an error leaves the
/// cache as it was.
pub(super) fn step(
    layer: &MultiHeadAttention,
    shape: &StepShape,
    cache: &mut KvCache,
    given: &Inputs<'_>,
    lengths: &[[usize; 2]],
) -> Result<(Option<HostTensor>, RunTiming), Error> {
    let Store::Cpu(kept) = &mut cache.store else {
        return Err(Error::Invalid("the cache of a step on the CPU lies elsewhere".into()));
    };
    let start = Instant::now();
    let capacity = lengths.iter().map(|[before, added]| before + added).max().unwrap_or(0).max(1);
    let options = CacheOptions { capacity, ..cache.options };
    let (graph, new_rows) = layer.step_graph(&options, cache.sizes, shape, ON_CPU)?;
    let outputs: Vec<_> = graph.outputs().iter().copied().chain(new_rows).collect();
    let [output, names @ ..] = [outputs[0], new_rows[0], new_rows[1]].map(|id| graph.value(id).name.clone());
    let graph = GraphBuilder::continuing(graph).finish(&outputs);
    let before = [kept[0].first_rows(capacity)?, kept[1].first_rows(capacity)?];
    let given = NAMES.into_iter().zip(&before).fold(given.clone(), |given, (name, kept)| match kept {
        Kept::F32(tensor) => given.with(name, tensor),
        Kept::F16(tensor) => given.with(name, tensor),
    });
    let mut outputs = reference::interpret::<f32>(&graph, &layer.parameters(), &given)?;
    for (kept, name) in kept.iter_mut().zip(&names) {
        let rows = outputs.get(name).ok_or_else(|| Error::Invalid(format!("the graph of a step has no {name}")))?;
        kept.append(rows, cache.sizes.num_kv_heads, lengths);
    }
    Ok((outputs.remove(&output), RunTiming { gpu: start.elapsed(), ..RunTiming::default() }))
}
