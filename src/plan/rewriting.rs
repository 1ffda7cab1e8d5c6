//! Which rewritings a device gains by.

use std::collections::BTreeSet;

use super::PlanOptions;
use crate::error::Error;
use crate::gpu::{AdapterKind, DeviceProfile};
use crate::graph::{Attention, Fuse, Graph};
use crate::kernels::{self, texels};

/// The graph as it is computed on a device of this profile.
pub(super) fn rewritten(graph: &Graph, profile: &DeviceProfile, options: &PlanOptions) -> Result<Graph, Error> {
    graph.check_outputs()?;
    let fuse = |graph: &Graph, attention: &Attention| fuses(graph, attention, profile, options.rewriting.fuse);
    let fused = graph.fused(&fuse)?;
    if !options.rewriting.pack {
        return Ok(fused);
    }
    let users: BTreeSet<String> = options.tensors.keys().cloned().collect();
    fused.packed(&users, profile.max_binding_bytes)
}

fn fuses(graph: &Graph, attention: &Attention, profile: &DeviceProfile, fuse: Fuse) -> bool {
    let asks_weights = graph.outputs().iter().any(|&id| graph.is_softmax(id));
    let gains = match profile.kind {
        // Barriers are slow there, and what reads buffers word by word takes long to compile and to run.
        AdapterKind::Cpu => {
            texels::could_stream(graph, attention, profile) && texels::repays(graph.attention_flops(attention))
        }
        _ => true,
    };
    let wanted = match fuse {
        Fuse::Off => false,
        Fuse::On => true,
        Fuse::Auto => gains && !asks_weights,
    };
    wanted && sees_all_keys(graph, attention, profile) && kernels::attention::streams(graph, attention, profile)
}

/// Whether one binding can hold the keys and values of a batch entry, packed with the queries.
fn sees_all_keys(graph: &Graph, attention: &Attention, profile: &DeviceProfile) -> bool {
    let columns = [attention.scores.query, attention.scores.key, attention.value];
    let width: usize = columns.iter().map(|columns| columns.count).sum();
    let axes = graph.value(attention.scores.key.tensor).shape.axes();
    let bytes = (axes[1] as u64).saturating_mul(4 * width as u64);
    bytes <= profile.max_binding_bytes
}
