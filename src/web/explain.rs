//! The dispatch graph as data.

use serde::Serialize;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use super::call::JsCall;
use super::fault::Fault;
use super::layer::Layer;
use super::object::plain;
use crate::graph::{Node, Op, Source};
use crate::{DType, Device, DeviceProfile, Graph, PlanOptions, PlanStep, PlanSummary, Rewriting};

/// `Explanation` of the package.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Explanation<'a> {
    graph: GraphTold<'a>,
    rewritten: GraphTold<'a>,
    rewriting: RewritingTold,
    steps: Vec<StepTold<'a>>,
    peak_bytes: f64,
    text: String,
    sizes: SizesTold,
}

#[derive(Serialize)]
struct GraphTold<'a> {
    values: Vec<ValueTold<'a>>,
    nodes: Vec<NodeTold<'a>>,
    flops: f64,
    bytes: f64,
    parameters: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ValueTold<'a> {
    id: usize,
    name: &'a str,
    shape: &'a [usize],
    dtype: &'static str,
    bytes: f64,
    source: &'static str,
    node: Option<usize>,
    is_output: bool,
}

#[derive(Serialize)]
struct NodeTold<'a> {
    id: usize,
    op: &'a str,
    formula: String,
    inputs: Vec<usize>,
    output: usize,
    flops: f64,
    bytes: f64,
    once: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RewritingTold {
    packed: bool,
    streams: bool,
    nodes_before: usize,
    nodes_after: usize,
}

#[derive(Serialize)]
struct StepTold<'a> {
    node: usize,
    op: &'a str,
    kernel: &'a str,
    inputs: &'a [String],
    output: &'a str,
    shape: [usize; 3],
    workgroups: [u32; 3],
    flops: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SizesTold {
    num_heads: usize,
    num_kv_heads: usize,
    head_dim: usize,
    value_dim: usize,
    scale: f64,
}

#[wasm_bindgen]
impl Layer {
    /// What a call of these shapes would do: `Explanation` of the package.
    ///
    /// # Errors
    /// "bad-input", "limit-exceeded" where the call does not fit the device.
    pub fn explain(&self, call: &JsCall) -> Result<JsValue, Fault> {
        let shape = call.call_shape();
        let graph = self.attention().graph(&shape, call.return_weights())?;
        let options = call.plan_options()?;
        let (profile, options) = match self.device() {
            Device::Gpu(gpu) => (gpu.profile().clone(), options),
            // The CPU follows the graph as it was built.
            Device::Cpu(_) => (DeviceProfile::portable(), PlanOptions { rewriting: Rewriting::OFF, ..options }),
        };
        let summary = PlanSummary::with_options(&graph, &profile, &options)?;
        let sizes = self.attention().sizes(&shape)?;
        let scale = self.scale(&shape, call)?.unwrap_or_else(|| 1.0 / (sizes.head_dim as f64).sqrt());
        Ok(plain(&Explanation {
            rewriting: RewritingTold {
                packed: summary.graph.nodes().iter().any(Node::is_packing),
                streams: summary.graph.nodes().iter().any(|node| matches!(node.op, Op::Attention(_))),
                nodes_before: graph.nodes().len(),
                nodes_after: summary.graph.nodes().len(),
            },
            steps: summary.steps.iter().map(step_told).collect(),
            peak_bytes: summary.peak_bytes as f64,
            text: graph.to_string(),
            graph: graph_told(&graph),
            rewritten: graph_told(&summary.graph),
            sizes: SizesTold {
                num_heads: sizes.num_heads,
                num_kv_heads: sizes.num_kv_heads,
                head_dim: sizes.head_dim,
                value_dim: sizes.value_dim,
                scale,
            },
        }))
    }
}

fn graph_told(graph: &Graph) -> GraphTold<'_> {
    let ids: Vec<_> = graph.values().map(|(id, _)| id).collect();
    let place = |wanted| ids.iter().position(|&id| id == wanted).unwrap_or_default();
    let values = graph.values().enumerate().map(|(index, (id, value))| ValueTold {
        id: index,
        name: &value.name,
        shape: value.shape.axes(),
        dtype: match value.dtype {
            DType::F32 => "f32",
            DType::U32 => "u32",
            DType::Bool => "bool",
            DType::F16 => "f16",
        },
        bytes: value.bytes() as f64,
        source: match value.source {
            Source::Input => "input",
            Source::Parameter => "parameter",
            Source::Node(_) => "node",
        },
        node: if let Source::Node(node) = value.source { Some(node) } else { None },
        is_output: graph.outputs().contains(&id),
    });
    let nodes = graph.nodes().iter().enumerate().map(|(id, node)| {
        let operands: Vec<_> = node.op.operands().into_iter().flatten().collect();
        let bytes = operands.iter().chain([&node.output]).map(|&id| graph.value(id).bytes() as f64).sum();
        NodeTold {
            id,
            op: node.op.name(),
            formula: graph.formula(node),
            inputs: operands.into_iter().map(place).collect(),
            output: place(node.output),
            flops: graph.node_flops(node) as f64,
            bytes,
            once: node.is_packing(),
        }
    });
    GraphTold {
        values: values.collect(),
        nodes: nodes.collect(),
        flops: graph.flops() as f64,
        bytes: graph.bytes() as f64,
        parameters: graph.parameters() as f64,
    }
}

fn step_told(step: &PlanStep) -> StepTold<'_> {
    StepTold {
        node: step.node,
        op: &step.op,
        kernel: &step.variant,
        inputs: &step.inputs,
        output: &step.output,
        shape: step.shape,
        workgroups: step.workgroups,
        flops: step.flops as f64,
    }
}
