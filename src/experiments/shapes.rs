//! Every shape of a call, from its graph: the reshape trick of D2L §10.3.2, self-consistent by construction.
//!
//! Heads are computed together by moving them into the batch: (B, L, H·d) is seen as (B, L, H, d), its middle axes are
//! exchanged, and the first two joined: (B·H, L, d). One batched product then serves all heads, and the reverse puts
//! them side by side again.

use std::fmt;

use serde::Serialize;

use super::between;
use super::random::{Normal, square_weights};
use crate::attention::{AttentionConfig, AttentionInputs, CallShape, Mask, MultiHeadAttention, divides};
use crate::device::Device;
use crate::error::Error;
use crate::graph::{Graph, Op, Source, TransposeHeads};
use crate::shape::{HostTensor, Shape};

/// The sizes of the layer; those of the sequences are the text's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// E.
    pub num_hiddens: usize,
    /// H, which divides E.
    pub num_heads: usize,
}

impl Default for Options {
    /// D2L's 100 and 5.
    fn default() -> Self {
        Self { num_hiddens: 100, num_heads: 5 }
    }
}

/// One value of the graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The op that makes it, or "input" or "parameter".
    pub op: String,
    /// Its name.
    pub name: String,
    /// Its axes.
    pub shape: Vec<usize>,
    /// What it is made of; for a transposition the shapes in between.
    pub how: String,
}

/// One call of the layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Call {
    /// What is called with what.
    pub about: String,
    /// Every value, in order.
    pub steps: Vec<Step>,
    /// The axes of what the device gave back.
    pub output: Vec<usize>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Where it was computed.
    pub device: String,
    /// E.
    pub num_hiddens: usize,
    /// H.
    pub num_heads: usize,
    /// The two calls of the text.
    pub calls: Vec<Call>,
}

/// Runs the two calls of the text: 4 queries over 6 key-value pairs of which (3, 2) are valid, and A over B.
///
/// # Errors
/// [`Error::OutOfRange`] and [`Error::NotDivisible`] for sizes that cannot be; those of the device.
pub async fn run(device: &Device, options: &Options) -> Result<Report, Error> {
    let Options { num_hiddens, num_heads } = *options;
    between("num_hiddens", num_hiddens, 1, 4096)?;
    between("num_heads", num_heads, 1, num_hiddens)?;
    divides("num_hiddens", num_hiddens, "num_heads", num_heads)?;
    let mut normal = Normal::new(0);
    let layer = MultiHeadAttention::new(AttentionConfig::new(num_heads), square_weights(&mut normal, num_hiddens)?)?;
    let lens = Mask { valid_lens: Some(HostTensor::new([2], vec![3, 2])?), ..Mask::default() };
    let wirings = [
        ("4 queries over 6 key-value pairs, of which (3, 2) are valid", 6, lens),
        ("A (4 tokens) attends to B (9 tokens)", 9, Mask::default()),
    ];
    let mut calls = Vec::new();
    for (about, num_keys, mask) in wirings {
        let [query, key] = [4, num_keys].map(|length| normal.tensor([2, length, num_hiddens], 1.0));
        let inputs = AttentionInputs { mask, ..AttentionInputs::cross_attention(query?, key?) };
        let output = layer.run(device, &inputs).await?.output.shape().axes().to_vec();
        calls.push(Call { about: about.into(), steps: steps(&layer, &inputs.call_shape())?, output });
    }
    Ok(Report { device: device.name().into(), num_hiddens, num_heads, calls })
}

fn steps(layer: &MultiHeadAttention, call: &CallShape) -> Result<Vec<Step>, Error> {
    let graph = layer.graph(call, false)?;
    let step = |value: &crate::graph::Value| {
        let (op, how) = match value.source {
            Source::Input => ("input", String::new()),
            Source::Parameter => ("parameter", String::new()),
            Source::Node(index) => {
                let node = &graph.nodes()[index];
                (node.op.name(), how(&graph, &node.op).unwrap_or_else(|| graph.formula(node)))
            }
        };
        Step { op: op.into(), name: value.name.clone(), shape: value.shape.axes().to_vec(), how }
    };
    Ok(graph.values().map(|(_, value)| step(value)).collect())
}

/// The shapes between those of a transposition's input and output.
fn how(graph: &Graph, op: &Op) -> Option<String> {
    let (Op::TransposeQkv(TransposeHeads { input, num_heads })
    | Op::TransposeOutput(TransposeHeads { input, num_heads })) = op
    else {
        return None;
    };
    let value = graph.value(*input);
    let &[first, length, last] = value.shape.axes() else {
        return None;
    };
    let between = if matches!(op, Op::TransposeQkv(_)) {
        let head_dim = last / num_heads;
        [[first, length, *num_heads, head_dim], [first, *num_heads, length, head_dim]]
    } else {
        let batch = first / num_heads;
        [[batch, *num_heads, length, last], [batch, length, *num_heads, last]]
    };
    Some(format!("{} as {}, then {}", value.name, Shape::from(between[0]), Shape::from(between[1])))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "num_hiddens {}, {} heads, batch 2", self.num_hiddens, self.num_heads)?;
        for call in &self.calls {
            writeln!(f, "\n{}", call.about)?;
            for Step { op, name, shape, how } in &call.steps {
                let line = format!("  {op:<16} {name:<10} {:<14} {how}", Shape::from(shape.clone()).to_string());
                writeln!(f, "{}", line.trim_end())?;
            }
            writeln!(f, "  computed: {}", Shape::from(call.output.clone()))?;
        }
        Ok(())
    }
}
