//! What a plan would do, told without doing it.

use std::fmt;

use serde::Serialize;

use super::program::Dispatch;
use super::{Lowered, PlanOptions, lowered};
use crate::error::Error;
use crate::gpu::DeviceProfile;
use crate::graph::Graph;

/// A compiled graph as a table: what `multihead plan` prints.
#[derive(Clone, Debug, Serialize)]
pub struct PlanSummary {
    /// The device it was compiled for.
    pub profile: DeviceProfile,
    /// Floating-point operations of the matrix products; see [`Graph::flops`].
    pub flops: u64,
    /// Bytes that all nodes read and write; see [`Graph::bytes`].
    pub bytes: u64,
    /// Bytes of all buffers alive at once.
    pub peak_bytes: u64,
    /// Elements of all parameters.
    pub parameters: u64,
    /// The graph as it is computed, after rewriting.
    #[serde(skip)]
    pub graph: Graph,
    /// One for each dispatch.
    pub steps: Vec<PlanStep>,
}

/// One dispatch.
#[derive(Clone, Debug, Serialize)]
pub struct PlanStep {
    /// Index of the node that it computes, or computes a block of.
    #[serde(skip)]
    pub node: usize,
    /// The op's name.
    pub op: String,
    /// The kernel's name.
    pub variant: String,
    /// Names of the values it reads.
    pub inputs: Vec<String>,
    /// Name of the value it writes.
    pub output: String,
    /// (batch, rows, columns) of what it works on, a block of the output where the output is worked on in blocks.
    pub shape: [usize; 3],
    /// The grid.
    pub workgroups: [u32; 3],
    /// Floating-point operations of its matrix product; 0 for other ops.
    #[serde(skip)]
    pub flops: u64,
}

impl PlanSummary {
    /// Compiles a graph for a profile and tells what came out.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] where the graph does not fit the device.
    pub fn new(graph: &Graph, profile: &DeviceProfile) -> Result<Self, Error> {
        Self::with_options(graph, profile, &PlanOptions::default())
    }

    /// As [`new`](Self::new), for a plan with `options`: what lies in buffers of the user's is not counted among its own.
    ///
    /// # Errors
    /// As [`new`](Self::new), and those of tensors that do not fit their values.
    pub fn with_options(graph: &Graph, profile: &DeviceProfile, options: &PlanOptions) -> Result<Self, Error> {
        let Lowered { graph, program, .. } = lowered(graph, profile, options)?;
        Ok(Self {
            profile: profile.clone(),
            flops: graph.flops(),
            bytes: graph.bytes(),
            peak_bytes: program.peak_bytes(),
            parameters: graph.parameters(),
            steps: program.dispatches.iter().map(|dispatch| step(&graph, dispatch)).collect(),
            graph,
        })
    }
}

pub(super) fn step(graph: &Graph, dispatch: &Dispatch) -> PlanStep {
    let node = &graph.nodes()[dispatch.node];
    let name = |id| graph.value(id).name.clone();
    PlanStep {
        node: dispatch.node,
        op: node.op.name().into(),
        variant: dispatch.launch.kernel.name().into(),
        inputs: node.op.operands().into_iter().flatten().map(name).collect(),
        output: name(node.output),
        shape: dispatch.block.sizes(),
        workgroups: dispatch.launch.workgroups,
        flops: graph.block_flops(node, &dispatch.block),
    }
}

impl fmt::Display for PlanSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, flops, bytes, peak_bytes, parameters, steps, .. } = self;
        writeln!(f, "device      {} ({})", profile.name, profile.backend)?;
        writeln!(f, "parameters  {parameters}")?;
        writeln!(f, "flops       {flops} in matrix products")?;
        writeln!(f, "bytes       {bytes} read and written, {peak_bytes} in buffers")?;
        writeln!(f, "dispatches  {}", steps.len())?;
        writeln!(f)?;
        writeln!(
            f,
            "{:<4} {:<17} {:<21} {:<12} {:<22} workgroups",
            "", "op", "kernel", "output", "(batch, rows, columns)"
        )?;
        for (index, step) in steps.iter().enumerate() {
            let [batch, rows, columns] = step.shape;
            let [across, down, deep] = step.workgroups;
            let grid = if deep == 1 { format!("{across}×{down}") } else { format!("{across}×{down}×{deep}") };
            writeln!(
                f,
                "{:<4} {:<17} {:<21} {:<12} {:<22} {grid}",
                index + 1,
                step.op,
                step.variant,
                step.output,
                format!("({batch}, {rows}, {columns})"),
            )?;
        }
        Ok(())
    }
}
