//! Running a compiled call on the CPU: progress and profile by nodes.

use web_time::Instant;

use super::MultiHeadAttention;
use crate::error::Error;
use crate::graph::footprint::Block;
use crate::graph::{Graph, Inputs, Node};
use crate::plan::{Clock, PlanStep, Profile, ProfileStep, Progress, RunOutput, RunTiming};
use crate::reference::interpret_watched;

/// Computes a graph, and says after each block of a node how far it has come.
pub(super) fn run(
    graph: &Graph,
    layer: &MultiHeadAttention,
    given: &Inputs<'_>,
    mut progress: impl FnMut(Progress),
) -> Result<RunOutput, Error> {
    let of_node = |node: &Node| graph.block_work(node, &Block::whole(graph.space(node)));
    let total = graph.nodes().iter().map(of_node).fold(0, u64::saturating_add).max(1);
    let mut done = 0_u64;
    let run = timed(graph, layer, given, &mut |node, block| {
        done = done.saturating_add(graph.block_work(node, block));
        if done < total {
            progress(Progress { done, total });
        }
    })?;
    progress(Progress { done: total, total });
    Ok(run)
}

/// Computes a graph, and says what each block of a node took.
pub(super) fn profile(
    graph: &Graph,
    layer: &MultiHeadAttention,
    given: &Inputs<'_>,
) -> Result<(RunOutput, Profile), Error> {
    let mut steps: Vec<ProfileStep> = Vec::new();
    let start = Instant::now();
    let mut begun = start;
    let run = timed(graph, layer, given, &mut |node, block| {
        let now = Instant::now();
        steps.push(ProfileStep { step: step(graph, node, block), start: begun - start, took: now - begun });
        begun = now;
    })?;
    Ok((run, Profile { clock: Clock::Host, steps }))
}

fn timed(
    graph: &Graph,
    layer: &MultiHeadAttention,
    given: &Inputs<'_>,
    done: &mut dyn FnMut(&Node, &Block),
) -> Result<RunOutput, Error> {
    let start = Instant::now();
    let outputs = interpret_watched::<f32>(graph, &layer.parameters(), given, done)?;
    Ok(RunOutput { outputs, timing: RunTiming { gpu: start.elapsed(), ..RunTiming::default() } })
}

fn step(graph: &Graph, node: &Node, block: &Block) -> PlanStep {
    let name = |id| graph.value(id).name.clone();
    PlanStep {
        node: graph
            .nodes()
            .iter()
            .position(|other| other.output == node.output)
            .expect("a node should be of its graph"),
        op: node.op.name().into(),
        variant: "reference".into(),
        inputs: node.op.operands().into_iter().flatten().map(name).collect(),
        output: name(node.output),
        shape: block.sizes(),
        workgroups: [1; 3],
        flops: graph.block_flops(node, block),
    }
}
