//! In which pieces a graph is worked off.
//!
//! A value may be larger than what a device lets a shader see at once. Such a value is worked on block by block; and
//! where it only passes from one node to the next (scores, weights) it is never stored whole: the nodes of such a
//! *chain* take turns over one block at a time, through a scratch buffer of a block's size. And what would take long is
//! worked on in pieces, for nothing interrupts a dispatch. The schedule is found from shapes and limits alone, before
//! anything is allocated.

use std::collections::BTreeSet;
use std::ops::{Range, RangeInclusive};

use super::footprint::Block;
use super::{DType, Graph, Node, Op, ValueId};
use crate::error::{Error, ON_THE_CPU};

/// What one shader may see at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Bytes of one binding.
    pub(crate) binding_bytes: u64,
    /// A binding starts at a multiple of this many bytes, a power of two and at least 4.
    pub(crate) alignment: u64,
    /// The most work of one block ([`Graph::block_work`]), where it can be cut.
    pub(crate) work: u64,
}

impl Limits {
    /// What the CPU reference works with: it sees everything at once; only what passes from node to node is bounded.
    pub(crate) const HOST: Self = Self { binding_bytes: u64::MAX, alignment: 4, work: u64::MAX };
}

/// A value that passes from node to node is not stored whole beyond this many bytes, whatever the device could hold:
/// the binding that WebGPU guarantees. More would cost memory and cache and gain nothing.
pub(crate) const SCRATCH_BYTES: u64 = 128 << 20;

/// Shaders find a truth value's bit by a 32-bit number.
const MOST_BITS_BYTES: u64 = 1 << 29;

/// Bindings and buffers end at multiples of this: four words.
pub(crate) const WINDOW_STEP: u64 = 16;

/// More pieces than this are not made of a node for the sake of time alone: the pieces of endless work may take longer.
const MOST_PIECES: u64 = 1 << 12;

/// Pieces of rows and columns are this long, or a multiple: the tiles of all kernels divide it.
const PIECE_STEP: usize = 64;

/// More dispatches than any run should record.
const MOST_STEPS: usize = 1 << 16;

/// One node working on one block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Index into [`Graph::nodes`].
    pub(crate) node: usize,
    pub(crate) block: Block,
}

/// The whole work in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    pub(crate) steps: Vec<Step>,
    /// Values of which only one block exists at a time.
    pub(crate) scratch: Vec<ValueId>,
}

/// What lies in textures, which are seen as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct InTextures {
    /// Inputs among them lie in buffers too, from which they are copied.
    pub(crate) values: BTreeSet<ValueId>,
    /// Nodes that read them there; the others read inputs from their buffers.
    pub(crate) readers: BTreeSet<usize>,
}

impl Schedule {
    /// Cuts a graph's nodes into blocks that fit `limits`; nodes that write nothing are left out.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] when even one row of one matrix does not fit.
    pub(crate) fn new(graph: &Graph, limits: Limits, textures: &InTextures) -> Result<Self, Error> {
        graph.check_outputs()?;
        let mut schedule = Self { steps: Vec::new(), scratch: Vec::new() };
        let nodes = graph.nodes();
        let mut first = 0;
        while first < nodes.len() {
            let mut last = first;
            let is_stored = |node: usize| textures.values.contains(&nodes[node].output);
            while last + 1 < nodes.len() && !is_stored(last) && graph.passes_on(last, limits) {
                schedule.scratch.push(nodes[last].output);
                last += 1;
            }
            let whole = Block::whole(graph.space(&nodes[first]));
            let mut chain = Chain { graph, nodes: first..last + 1, limits, textures };
            chain.limits.work = limits.work.max(chain.work(&whole) / MOST_PIECES).max(1);
            chain.split(&whole, &mut schedule.steps)?;
            first = last + 1;
        }
        Ok(schedule)
    }
}

impl Schedule {
    /// For each value: from the step that first touches it to the last one. `None` for a value no step touches.
    pub(crate) fn lifetimes(&self, graph: &Graph) -> Vec<Option<RangeInclusive<usize>>> {
        let mut lifetimes: Vec<Option<RangeInclusive<usize>>> = vec![None; graph.values().count()];
        for (index, step) in self.steps.iter().enumerate() {
            let node = &graph.nodes()[step.node];
            for id in node.op.operands().into_iter().flatten().chain([node.output]) {
                let first = lifetimes[id.0].as_ref().map_or(index, |life| *life.start());
                lifetimes[id.0] = Some(first..=index);
            }
        }
        lifetimes
    }
}

impl Graph {
    /// Whether node `index` writes a value too large to store whole that only the next node reads, row by row.
    fn passes_on(&self, index: usize, limits: Limits) -> bool {
        let node = &self.nodes()[index];
        let next = &self.nodes()[index + 1];
        let row_by_row = match &next.op {
            Op::Softmax(op) => op.scores == node.output,
            Op::Dropout(op) => op.weights == node.output,
            Op::Matmul(op) => op.lhs == node.output,
            _ => false,
        };
        let readers = self.nodes().iter().flat_map(|node| node.op.operands()).filter(|&id| id == Some(node.output));
        let [batches, rows, _] = self.space(node);
        self.value(node.output).bytes() > limits.binding_bytes.min(SCRATCH_BYTES)
            && row_by_row
            && readers.count() == 1
            && !self.outputs().contains(&node.output)
            && self.space(next)[..2] == [batches, rows]
    }

    /// The range of `operand` (an index, or `None` for the output) that a node touches, if it touches any.
    pub(crate) fn footprint(
        &self,
        node: &Node,
        operand: Option<usize>,
        block: &Block,
    ) -> Option<(ValueId, Range<usize>)> {
        let (id, range) = match operand {
            Some(index) => (node.op.operands()[index]?, self.operand_footprint(node, index, block)),
            None => (node.output, self.output_footprint(node, block)),
        };
        (!range.is_empty()).then_some((id, range))
    }
}

/// Nodes that take turns over blocks; often a single one.
struct Chain<'a> {
    graph: &'a Graph,
    nodes: Range<usize>,
    limits: Limits,
    textures: &'a InTextures,
}

/// The binding that needs most beyond its limit.
struct Excess {
    value: ValueId,
    need: u64,
    have: u64,
}

impl Chain<'_> {
    /// Pushes the steps of `block`, halved until every binding fits, then in pieces that do not take long.
    fn split(&self, block: &Block, steps: &mut Vec<Step>) -> Result<(), Error> {
        if block.is_empty() && self.nodes.len() == 1 {
            return Ok(());
        }
        let Some(excess) = self.excess(block) else {
            return match self.pieces(block) {
                Some(pieces) => pieces.iter().try_for_each(|piece| self.split(piece, steps)),
                None => self.push(block, steps),
            };
        };
        let halves = Axis::ALL
            .into_iter()
            .filter(|&axis| self.splits(axis))
            .filter_map(|axis| axis.halve(block))
            .min_by_key(|[half, _]| self.excess(half).map_or(0, |excess| excess.need));
        let Some([left, right]) = halves else {
            // More scratch than is good, but no less will do; whether the device can is another matter.
            let possible = excess.need <= self.limits.binding_bytes;
            return if possible { self.push(block, steps) } else { Err(self.too_large(&excess)) };
        };
        self.split(&left, steps)?;
        self.split(&right, steps)
    }

    /// Even pieces of a block with too much work for one dispatch: along batches first, for what a piece binds is then
    /// together.
    fn pieces(&self, block: &Block) -> Option<Vec<Block>> {
        let count = usize::try_from(self.work(block).div_ceil(self.limits.work)).unwrap_or(usize::MAX);
        let mut cuts = Axis::ALL.into_iter().filter(|&axis| self.splits(axis)).map(|axis| axis.cut(block, count));
        cuts.find(|pieces| pieces.len() > 1)
    }

    /// The work of all nodes on a block.
    fn work(&self, block: &Block) -> u64 {
        let of_node = |node| self.graph.block_work(&self.graph.nodes()[node], &self.on_node(node, block));
        self.nodes.clone().map(of_node).fold(0, u64::saturating_add)
    }

    /// The steps of a block that is not split further.
    fn push(&self, block: &Block, steps: &mut Vec<Step>) -> Result<(), Error> {
        for node in self.nodes.clone() {
            let block = self.on_node(node, block);
            if !block.is_empty() {
                steps.push(Step { node, block });
            }
        }
        if steps.len() <= MOST_STEPS {
            return Ok(());
        }
        let value = self.graph.value(self.graph.nodes()[self.nodes.start].output);
        Err(Error::Invalid(format!(
            "{} {} is worked on in more than {MOST_STEPS} blocks, the most that one run takes; cut the sequences into pieces",
            value.name, value.shape
        )))
    }

    /// Only a product's columns are independent of each other and not worth keeping together; a user's kernel knows
    /// nothing of blocks.
    fn splits(&self, axis: Axis) -> bool {
        match &self.graph.nodes()[self.nodes.start].op {
            Op::Custom(_) | Op::Pack(_) => false,
            Op::Matmul(_) => axis != Axis::Cols || self.nodes.len() == 1,
            _ => axis != Axis::Cols,
        }
    }

    /// Nodes of a chain share batches and rows; each has its own columns.
    fn on_node(&self, node: usize, block: &Block) -> Block {
        if self.nodes.len() == 1 {
            return block.clone();
        }
        let [_, _, cols] = self.graph.space(&self.graph.nodes()[node]);
        Block { cols: 0..cols, ..block.clone() }
    }

    fn excess(&self, block: &Block) -> Option<Excess> {
        self.nodes
            .clone()
            // Parameters are packed on the host.
            .filter(|&node| !self.graph.nodes()[node].is_packing())
            .flat_map(|index| {
                let block = self.on_node(index, block);
                let node = &self.graph.nodes()[index];
                let operands = (0..node.op.operands().len()).map(Some).chain([None]);
                operands
                    .filter(|_| !block.is_empty())
                    .filter_map(|operand| self.graph.footprint(node, operand, &block))
                    .filter(|&(value, _)| !self.is_in_texture(index, value))
                    .collect::<Vec<_>>()
            })
            .filter_map(|(value, range)| {
                let dtype = self.graph.value(value).dtype;
                let most = match dtype {
                    _ if self.is_scratch(value) => SCRATCH_BYTES,
                    DType::Bool => MOST_BITS_BYTES,
                    DType::F32 | DType::U32 | DType::F16 => u64::MAX,
                };
                let have = self.limits.binding_bytes.min(most);
                let need = window_bytes(dtype, &range, self.limits.alignment);
                (need > have).then_some(Excess { value, need, have })
            })
            .max_by_key(|excess| excess.need)
    }

    /// Whether a node finds a value in its texture, or leaves it there.
    fn is_in_texture(&self, node: usize, value: ValueId) -> bool {
        let InTextures { values, readers } = self.textures;
        values.contains(&value) && (readers.contains(&node) || self.graph.nodes()[node].output == value)
    }

    /// Whether a value passes from one node of the chain to the next.
    fn is_scratch(&self, value: ValueId) -> bool {
        let passing = self.nodes.start..self.nodes.end - 1;
        self.graph.nodes()[passing].iter().any(|node| node.output == value)
    }

    fn too_large(&self, excess: &Excess) -> Error {
        let value = self.graph.value(excess.value);
        let (name, shape) = (&value.name, &value.shape);
        let (what, hint) = match &self.graph.nodes()[self.nodes.start].op {
            Op::Custom(op) => {
                (format!("{name} {shape}, which {} binds whole,", op.kernel.name), "compute it by several nodes")
            }
            op => (
                format!("the smallest piece of {name} {shape} that {} can work on", op.name()),
                "cut the sequences or the layer's width into pieces",
            ),
        };
        Error::LimitExceeded {
            what,
            need: excess.need,
            have: excess.have,
            unit: "bytes",
            limit: "the device's max_storage_buffer_binding_size".into(),
            hint: format!("{hint}, {ON_THE_CPU}"),
        }
    }
}

/// The bytes of a binding that holds `range`, from the last aligned byte before it to the end of a group of four words:
/// a kernel that reads four words at a time may not find the last group cut off.
pub(crate) fn window_bytes(dtype: DType, range: &Range<usize>, alignment: u64) -> u64 {
    dtype.bytes(range.end).next_multiple_of(WINDOW_STEP) - window_start(dtype, range.start, alignment)
}

/// The last aligned byte at or before an element.
pub(crate) fn window_start(dtype: DType, element: usize, alignment: u64) -> u64 {
    let byte = match dtype {
        DType::F32 | DType::U32 => element as u64 * 4,
        DType::Bool => element as u64 / 8,
        DType::F16 => element as u64 * 2,
    };
    byte / alignment * alignment
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Batches,
    Rows,
    Cols,
}

impl Axis {
    const ALL: [Self; 3] = [Self::Batches, Self::Rows, Self::Cols];

    fn of(self, block: &Block) -> &Range<usize> {
        match self {
            Self::Batches => &block.batches,
            Self::Rows => &block.rows,
            Self::Cols => &block.cols,
        }
    }

    /// The block with another range along this axis.
    fn with(self, block: &Block, range: Range<usize>) -> Block {
        let mut changed = block.clone();
        match self {
            Self::Batches => changed.batches = range,
            Self::Rows => changed.rows = range,
            Self::Cols => changed.cols = range,
        }
        changed
    }

    /// At most `count` pieces of a block along this axis, of equal length but for the last.
    fn cut(self, block: &Block, count: usize) -> Vec<Block> {
        let range = self.of(block);
        let step = if self == Self::Batches { 1 } else { PIECE_STEP };
        let length = range.len().div_ceil(count.max(1)).next_multiple_of(step);
        let starts = range.clone().step_by(length.max(1));
        starts.map(|start| self.with(block, start..range.end.min(start + length))).collect()
    }

    /// Two halves of a block along this axis, unless it is 1 long there.
    fn halve(self, block: &Block) -> Option<[Block; 2]> {
        let range = self.of(block);
        if range.len() < 2 {
            return None;
        }
        // Kernels that take four columns at a time find every block starting at one of the four.
        let half = range.len().div_ceil(2);
        let middle = range.start + if self == Self::Cols && half > 4 { half.next_multiple_of(4) } else { half };
        Some([self.with(block, range.start..middle), self.with(block, middle..range.end)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{GraphBuilder, KeyBand, Matmul, Softmax};

    /// softmax(q·kᵀ)·v of one head.
    fn attention(num_queries: usize, num_keys: usize, head_dim: usize) -> Graph {
        let mut builder = GraphBuilder::new();
        let mut input = |name: &str, length| builder.input(name, [1, length, head_dim], DType::F32).unwrap();
        let [q, k, v] = [input("q", num_queries), input("k", num_keys), input("v", num_keys)];
        let product = |lhs, rhs, transpose_rhs| Matmul { transpose_rhs, ..Matmul::of(lhs, rhs) };
        let scores = builder.matmul("scores", product(q, k, true)).unwrap();
        let (band, none) = (KeyBand::ALL, None);
        let softmax = Softmax {
            scores,
            valid_lens: none,
            attend_mask: none,
            bias: none,
            num_heads: 1,
            scale: 1.0,
            band,
            extra_keys: 0,
        };
        let weights = builder.softmax("weights", softmax).unwrap();
        let heads = builder.matmul("heads", product(weights, v, false)).unwrap();
        builder.finish(&[heads])
    }

    #[test]
    fn the_cpu_is_held_to_no_binding() {
        // 153,600,000 bytes of keys and of values; then one row of scores of 160,000,000 bytes.
        for (num_queries, num_keys, head_dim, steps) in [(1, 600_000, 64, 3), (2, 40_000_000, 1, 6)] {
            let schedule =
                Schedule::new(&attention(num_queries, num_keys, head_dim), Limits::HOST, &InTextures::default())
                    .unwrap();
            assert_eq!(schedule.steps.len(), steps, "{num_queries} queries, {num_keys} keys");
        }
    }

    #[test]
    fn what_a_device_cannot_see_at_once_is_refused_with_the_numbers() {
        let portable = Limits { binding_bytes: 128 << 20, alignment: 256, work: u64::MAX };
        let refusal = |num_queries, num_keys, head_dim| {
            Schedule::new(&attention(num_queries, num_keys, head_dim), portable, &InTextures::default()).unwrap_err()
        };
        insta::assert_snapshot!(refusal(1, 600_000, 64), @"the smallest piece of v (1, 600000, 64) that matmul can work on needs 153599760 bytes, but the device's max_storage_buffer_binding_size is 134217728; cut the sequences or the layer's width into pieces, or compute on the CPU");
        insta::assert_snapshot!(refusal(1 << 20, 1 << 25, 1), @"scores (1, 1048576, 33554432) is worked on in more than 65536 blocks, the most that one run takes; cut the sequences into pieces");
    }

    #[test]
    fn what_takes_long_is_cut_into_even_pieces_that_cover_it() {
        let graph = attention(1000, 300, 8);
        let whole: u64 =
            graph.nodes().iter().map(|node| graph.block_work(node, &Block::whole(graph.space(node)))).sum();
        for work in [u64::MAX, whole, 4_000_000, 1_000_000, 1] {
            let limits = Limits { work, ..Limits::HOST };
            let schedule = Schedule::new(&graph, limits, &InTextures::default()).unwrap();
            assert_eq!(schedule.steps.len() == 3, work >= whole, "{work} to a dispatch");
            for step in &schedule.steps {
                let of_step = graph.block_work(&graph.nodes()[step.node], &step.block);
                // No piece is smaller than this many rows.
                assert!(of_step <= work || step.block.rows.len() <= PIECE_STEP, "{of_step} of {work}");
            }
            for node in 0..3 {
                let blocks = schedule.steps.iter().filter(|step| step.node == node).map(|step| &step.block);
                let covered: usize = blocks.map(|block| block.rows.len() * block.cols.len()).sum();
                let [_, rows, cols] = graph.space(&graph.nodes()[node]);
                assert_eq!(covered, rows * cols, "node {node}, {work} to a dispatch");
            }
        }
    }
}
