//! The dispatch graph: what is to be computed, as a value.
//!
//! A [`Graph`] is built without a device by a [`GraphBuilder`], printed, compared, interpreted on the CPU by
//! [`reference`](crate::reference) and compiled for a GPU by [`Plan`](crate::Plan). Nodes stand in an order in which
//! each reads only what earlier ones wrote.

mod builder;
mod cached;
pub(crate) mod copy;
mod cost;
mod custom;
mod display;
mod dropout;
pub(crate) mod footprint;
mod inputs;
mod masks;
pub(crate) mod matrices;
mod op;
mod rewrite;
pub(crate) mod schedule;
mod side_by_side;
mod split;

pub use builder::GraphBuilder;
pub(crate) use builder::STATISTICS;
pub use cached::{AppendRows, MergePartials, PartialAttention};
pub use copy::CopyStrided;
pub use custom::{CpuTwin, Custom, CustomKernel};
pub use dropout::DropoutPattern;
pub use inputs::{HostValue, Inputs};
pub(crate) use masks::ScoreSizes;
pub use op::{
    AppendKey, Attention, AttentionWeights, Columns, Dropout, HeadColumns, KeyBand, MaskStrides, Matmul, Op, Pack,
    PackPart, ProductHeads, Scores, Softmax, TransposeHeads,
};
pub use rewrite::{Fuse, Rewriting};
pub(crate) use split::Split;

use std::collections::BTreeSet;
use std::fmt;

use crate::error::Error;
use crate::shape::Shape;

/// Names one value of one graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub(crate) usize);

/// How the elements of a value are stored on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit floats.
    F32,
    /// 32-bit unsigned integers: `valid_lens`.
    U32,
    /// Truth values, packed 32 to a word, lowest bit first: `attend_mask`.
    Bool,
    /// 16-bit floats, packed two to a word, lower half first: how a cache may be stored. Arithmetic stays f32.
    F16,
}

impl DType {
    /// Bytes that `elements` elements take, in whole 4-byte words.
    #[must_use]
    pub fn bytes(self, elements: usize) -> u64 {
        let elements = elements as u64;
        match self {
            Self::F32 | Self::U32 => elements.saturating_mul(4),
            Self::Bool => elements.div_ceil(32) * 4,
            Self::F16 => elements.div_ceil(2).saturating_mul(4),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "32-bit floats",
            Self::U32 => "32-bit unsigned integers",
            Self::Bool => "truth values",
            Self::F16 => "16-bit floats",
        })
    }
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Given anew with every run.
    Input,
    /// Given once, when the graph is compiled: projection weights and biases.
    Parameter,
    /// Computed by the node of this index.
    Node(usize),
}

/// A tensor of the graph.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Unique within the graph.
    pub name: String,
    /// Its axes.
    pub shape: Shape,
    /// How it is stored.
    pub dtype: DType,
    /// Where it comes from.
    pub source: Source,
}

impl Value {
    /// How many elements there are; the builder has checked that the number exists.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.checked_len().expect("the builder should have checked the shape")
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes on a device.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.dtype.bytes(self.len())
    }
}

/// One operation and the value it writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// What is computed, from which values.
    pub op: Op,
    /// Where the result goes.
    pub output: ValueId,
}

impl Node {
    /// Whether it is computed once, when its graph is compiled: parameters alone go into it.
    pub(crate) fn is_packing(&self) -> bool {
        matches!(self.op, Op::Pack(_))
    }
}

/// What is to be computed; see the [module](self).
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Graph {
    values: Vec<Value>,
    nodes: Vec<Node>,
    outputs: Vec<ValueId>,
}

impl Graph {
    /// The same graph with some of its parameters, or of what is packed of them, stored as halves.
    pub(crate) fn with_halves(mut self, halves: &BTreeSet<ValueId>) -> Self {
        for id in halves {
            self.values[id.0].dtype = DType::F16;
        }
        self
    }

    /// The value that `id` names.
    ///
    /// # Panics
    /// If `id` comes from another, larger graph.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// All values with their ids, inputs and parameters among them.
    pub fn values(&self) -> impl Iterator<Item = (ValueId, &Value)> {
        self.values.iter().enumerate().map(|(index, value)| (ValueId(index), value))
    }

    /// The values of one kind of source: `Source::Input` or `Source::Parameter`.
    pub fn sources(&self, source: Source) -> impl Iterator<Item = (ValueId, &Value)> {
        self.values().filter(move |(_, value)| value.source == source)
    }

    /// The operations, in an order in which they can run.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The values that a run gives back.
    #[must_use]
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// The value in whose place a value lies: its own, unless its node works in place.
    pub(crate) fn resident(&self, id: ValueId) -> ValueId {
        match self.value(id).source {
            Source::Node(index) => self.nodes[index].op.in_place().map_or(id, |operand| self.resident(operand)),
            _ => id,
        }
    }

    /// Refuses a graph that would need what an op has written over.
    fn check_in_place(&self) -> Result<(), Error> {
        for operand in self.nodes.iter().filter_map(|node| node.op.in_place()) {
            let value = self.value(operand);
            let readers =
                self.nodes.iter().flat_map(|node| node.op.operands()).filter(|&id| id == Some(operand)).count();
            if value.source != Source::Input || readers != 1 || self.outputs.contains(&operand) {
                return Err(Error::Invalid(format!(
                    "{} is written over in place, so it must be an input that nothing else reads and that is no output",
                    value.name
                )));
            }
        }
        Ok(())
    }

    /// Checks what [`GraphBuilder::finish`] could not refuse.
    pub(crate) fn check_outputs(&self) -> Result<(), Error> {
        self.check_in_place()?;
        for id in &self.outputs {
            let value = self.values.get(id.0).ok_or_else(|| {
                let num_values = self.values.len();
                Error::Invalid(format!(
                    "an output is value {} of a graph that has {num_values}; the value is of another graph",
                    id.0
                ))
            })?;
            if value.dtype != DType::F32 {
                let sentence = format!("the output {} is {}, but outputs are {}", value.name, value.dtype, DType::F32);
                return Err(Error::Invalid(sentence));
            }
        }
        Ok(())
    }
}
