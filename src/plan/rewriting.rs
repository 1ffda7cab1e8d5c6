//! Which rewritings a device gains by.

use std::collections::BTreeSet;

use super::{PlanOptions, Tensor};
use crate::error::Error;
use crate::gpu::{AdapterKind, DeviceProfile};
use crate::graph::{Attention, Fuse, Graph, Node, Op, Rewriting, Scores, Source, Split, ValueId};
use crate::kernels::{self, texels};

/// Scores of wide heads are stored up to this size.
const MOST_SCORE_BYTES: u64 = 32 << 20;

/// The graph as it is computed on a device of this profile, by `rewriting` instead of that of the options.
pub(super) fn rewritten(
    graph: &Graph,
    profile: &DeviceProfile,
    options: &PlanOptions,
    rewriting: Rewriting,
) -> Result<Graph, Error> {
    graph.check_outputs()?;
    check_names(&options.preferred_kernels)?;
    let fuse = |graph: &Graph, attention: &Attention| fuses(graph, attention, profile, (options, rewriting.fuse));
    let fused = graph.fused(&fuse)?;
    let fused = fused.shared_out(&|graph, attention| splits(graph, attention, profile, options))?;
    if !rewriting.pack {
        return Ok(fused);
    }
    let users: BTreeSet<String> = options.tensors.keys().cloned().collect();
    let joined = fused.side_by_side(&|graph, id| can_stay_joined(graph, id, &users, profile))?;
    joined.packed(&users, profile.max_binding_bytes)
}

/// Parameters, and what is packed of them, that are stored as halves: right operands of nothing but products of few rows.
pub(super) fn halves(graph: &Graph, profile: &DeviceProfile, options: &PlanOptions) -> BTreeSet<ValueId> {
    let reads_halves = |node: &Node, id: ValueId| match &node.op {
        Op::Matmul(op) => {
            let [_, rows, _] = graph.space(node);
            let is_right = op.rhs == id && op.lhs != id && op.bias != Some(id);
            is_right && kernels::matmul::reads_halves(rows, profile, &options.preferred_kernels)
        }
        _ => false,
    };
    let could = |id: ValueId| {
        let value = graph.value(id);
        let known = match value.source {
            Source::Parameter => true,
            Source::Node(index) => graph.nodes()[index].is_packing(),
            Source::Input => false,
        };
        let reads = |node: &&Node| !node.is_packing() && node.op.operands().contains(&Some(id));
        let mut readers = graph.nodes().iter().filter(reads).peekable();
        let elsewhere = options.tensors.contains_key(&value.name) || graph.outputs().contains(&id);
        known && !elsewhere && readers.peek().is_some() && readers.all(|node| reads_halves(node, id))
    };
    if !options.half_weights {
        return BTreeSet::new();
    }
    graph.values().map(|(id, _)| id).filter(|&id| could(id)).collect()
}

fn check_names(preferred: &[&'static str]) -> Result<(), Error> {
    match preferred.iter().find(|name| !kernels::all().any(|kernel| kernel.name == **name)) {
        None => Ok(()),
        Some(unknown) => {
            let names: Vec<_> = kernels::all().map(|kernel| kernel.name).collect();
            Err(Error::Invalid(format!("there is no kernel \"{unknown}\"; there are {}", names.join(", "))))
        }
    }
}

fn fuses(graph: &Graph, attention: &Attention, profile: &DeviceProfile, (options, fuse): (&PlanOptions, Fuse)) -> bool {
    let asks_weights = graph.outputs().iter().any(|&id| graph.is_softmax(id));
    let gains = match profile.kind {
        AdapterKind::Cpu => gains_on_llvmpipe(graph, attention, profile),
        _ => true,
    };
    let wanted = match fuse {
        Fuse::Off => false,
        Fuse::On => true,
        Fuse::Auto => gains && !asks_weights && !writes_what_it_reads(graph, attention, options),
    };
    wanted && sees_all_keys(graph, attention, profile) && kernels::attention_forms::streams(graph, attention, profile)
}

/// Whether products can take heads from a tensor that joins them, or put them there: one binding can hold a batch entry of
/// it, packed with two others, and it is not in a user's buffer, which may be that of another operand.
fn can_stay_joined(graph: &Graph, id: ValueId, users: &BTreeSet<String>, profile: &DeviceProfile) -> bool {
    let value = graph.value(id);
    let bytes = value.shape.axes()[1..].iter().fold(4_u64, |bytes, &axis| bytes.saturating_mul(axis as u64));
    bytes.saturating_mul(3) <= profile.max_binding_bytes && !users.contains(&value.name)
}

/// How the keys of an attention are shared out among workgroups, if they are.
fn splits(graph: &Graph, attention: &Attention, profile: &DeviceProfile, options: &PlanOptions) -> Option<Split> {
    let in_fours = |id: ValueId| {
        let tensor = options.tensors.get(&graph.value(id).name);
        tensor.is_none_or(|tensor| tensor.offset().is_multiple_of(16))
    };
    let kept = [attention.scores.key.tensor, attention.value.tensor];
    let split = kernels::partial_attention::split_of(graph, attention, profile, &options.preferred_kernels)?;
    kept.into_iter().all(in_fours).then_some(split)
}

/// Whether llvmpipe gains by streaming: much work from textures, or so little from buffers that dispatches cost more.
/// Other CPU adapters have not been seen to gain: barriers are slow there, and so is to compile what has none.
fn gains_on_llvmpipe(graph: &Graph, attention: &Attention, profile: &DeviceProfile) -> bool {
    let flops = graph.attention_flops(attention);
    let little = flops <= texels::LITTLE_FLOPS && kernels::attention_forms::goes_by_rows(graph, attention, profile);
    let from_texels = kernels::attention_forms::from_texels(graph, attention, profile, &[]);
    let much = texels::could_stream(from_texels, graph, attention, profile) && texels::repays(flops);
    texels::lanes(profile) > 0 && (little || (much && !scores_are_cheaper(graph, attention)))
}

/// Whether products of whole heads, with scores in between, take less time than streaming them, and little memory:
/// sums of a wide head do not fit a lane, so that the scores are computed anew for every part of its values.
fn scores_are_cheaper(graph: &Graph, attention: &Attention) -> bool {
    let sizes = graph.score_sizes(&attention.scores);
    let num_scores = [sizes.batch, sizes.num_heads, sizes.num_queries, sizes.num_keys];
    let bytes = num_scores.iter().fold(4_u64, |bytes, &size| bytes.saturating_mul(size as u64));
    let value_dim = attention.value.count / attention.scores.num_kv_heads;
    value_dim > kernels::attention_forms::WIDEST_PART && bytes <= MOST_SCORE_BYTES
}

/// Whether an output lies in the buffer of what the attention reads: one dispatch may not do both, many may.
fn writes_what_it_reads(graph: &Graph, attention: &Attention, options: &PlanOptions) -> bool {
    let buffer = |id: ValueId| options.tensors.get(&graph.value(id).name).map(Tensor::buffer);
    let Scores { query, key, valid_lens, attend_mask, bias, .. } = attention.scores;
    let read = [query, key, attention.value].map(|columns| Some(columns.tensor));
    let read: Vec<_> = read.into_iter().chain([valid_lens, attend_mask, bias]).flatten().filter_map(buffer).collect();
    graph.outputs().iter().filter_map(|&id| buffer(id)).any(|written| read.contains(&written))
}

/// Whether one binding can hold the keys and values of a batch entry, packed with the queries.
fn sees_all_keys(graph: &Graph, attention: &Attention, profile: &DeviceProfile) -> bool {
    let columns = [attention.scores.query, attention.scores.key, attention.value];
    let width: usize = columns.iter().map(|columns| columns.count).sum();
    let axes = graph.value(attention.scores.key.tensor).shape.axes();
    let bytes = (axes[1] as u64).saturating_mul(4 * width as u64);
    bytes <= profile.max_binding_bytes
}
