//! Which values lie in textures: on llvmpipe, Mesa's CPU adapter, a load from a texture is several times as fast as one
//! from a buffer (docs/performance.md).
//!
//! A texture holds a tensor as it lies in memory: four words to a texel, 1024 texels to a row. A value lies in one if every
//! kernel that reads it can read it there, and whoever writes it can write it there.

use std::collections::BTreeSet;

use super::{attention_forms, matmul, matmul_texels, softmax, transpose};
use crate::gpu::{AdapterKind, DeviceProfile};
use crate::graph::matrices::Matrices;
use crate::graph::schedule::{InTextures, SCRATCH_BYTES};
use crate::graph::{Attention, Columns, DType, Graph, Matmul, Node, Op, Source, ValueId};

/// Texels in a row of such a texture that hold words, and their words.
pub(crate) const ROW_TEXELS: u32 = 1024;
pub(crate) const ROW_WORDS: usize = 4096;

/// Texels of a row, with a few that hold nothing. Without them the rows of a matrix of 1024 columns lie 4 KiB apart, and
/// fall on one another in a cache that tells addresses apart by their last twelve bits.
pub(crate) const WIDTH: u32 = ROW_TEXELS + 4;

/// Bytes of a texel: four words.
pub(crate) const TEXEL_BYTES: u64 = 16;

/// An input in a buffer is copied to a texture only up to this size: memory is worth more than time beyond.
const MOST_STAGED_BYTES: u64 = 16 << 20;

/// Attentions, and products, of fewer operations do not repay the seconds that unrolled text takes to compile.
const FEWEST_FLOPS: u64 = 1 << 24;
const FEWEST_FLOPS_OF_PRODUCT: u64 = 1 << 26;

/// An attention of no more operations is streamed from buffers, if at all.
pub(crate) const LITTLE_FLOPS: u64 = 1 << 18;

/// What is known of a plan before its kernels are chosen.
pub(crate) struct Question<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) profile: &'a DeviceProfile,
    /// Names of kernels to take wherever they apply.
    pub(crate) preferred: &'a [&'static str],
    /// Values in buffers of the user's.
    pub(crate) users: BTreeSet<ValueId>,
}

/// Lanes of a subgroup, where it always has as many and a kernel is written for them; 0 elsewhere.
pub(crate) fn lanes(profile: &DeviceProfile) -> usize {
    // SwiftShader, the other CPU adapter with subgroups, takes minutes to compile what is unrolled.
    let measured = profile.kind == AdapterKind::Cpu && profile.name.starts_with("llvmpipe");
    match profile.subgroup {
        [4 | 8 | 16, most] if most == profile.subgroup[0] && profile.subgroups && measured => most as usize,
        _ => 0,
    }
}

/// Rows of the smallest texture. Of none is the number of rows a power of two: llvmpipe compiles a kernel once for textures
/// whose height is one, and once more for others, for seconds each time.
pub(crate) const FEWEST_ROWS: u32 = 3;

/// Rows of the texture of a value.
pub(crate) fn rows(graph: &Graph, id: ValueId) -> u32 {
    let rows = u32::try_from(graph.value(id).len().div_ceil(ROW_WORDS)).unwrap_or(u32::MAX);
    rows.saturating_add(rows.is_power_of_two().into()).max(FEWEST_ROWS)
}

/// Bytes of a texture.
pub(crate) fn bytes(rows: u32) -> u64 {
    u64::from(rows) * u64::from(WIDTH) * TEXEL_BYTES
}

/// The values that lie in textures, and whoever reads them there.
pub(crate) fn assign(question: &Question<'_>) -> InTextures {
    if lanes(question.profile) == 0 {
        return InTextures::default();
    }
    let mut nodes: BTreeSet<usize> = (0..question.graph.nodes().len())
        .filter(|&index| question.could_read(&question.graph.nodes()[index]))
        .collect();
    loop {
        let values = question.stored(&nodes);
        let remaining: BTreeSet<usize> = nodes
            .iter()
            .copied()
            .filter(|&index| needs(&question.graph.nodes()[index]).iter().all(|id| values.contains(id)))
            .collect();
        if remaining == nodes {
            return InTextures { values, readers: nodes };
        }
        nodes = remaining;
    }
}

/// Whether a kernel could stream an attention from texels, as far as shapes go. Weights are recovered by a kernel that sums
/// word by word, and their statistics must come from sums in that order.
pub(crate) fn could_stream(kernel: &str, graph: &Graph, op: &Attention, profile: &DeviceProfile) -> bool {
    let in_fours = |columns: Columns, num_heads: usize| {
        let stride = graph.value(columns.tensor).shape.axes()[2];
        [columns.first, columns.count / num_heads, stride].iter().all(|words| words.is_multiple_of(4))
    };
    let scores = &op.scores;
    lanes(profile) > 0
        && !op.statistics
        && in_fours(scores.query, scores.num_heads)
        && in_fours(scores.key, scores.num_kv_heads)
        && in_fours(op.value, scores.num_kv_heads)
        && graph.value(scores.key.tensor).shape.axes()[1] > 0
        && attention_forms::rounds(kernel, graph, op) <= super::most_rounds(profile)
}

/// Whether unrolled text is worth compiling for an attention of this many operations.
pub(crate) fn repays(flops: u64) -> bool {
    flops >= FEWEST_FLOPS
}

/// What a kernel that reads texels must find in textures; the left operand of a product may lie in a buffer.
fn needs(node: &Node) -> Vec<ValueId> {
    match &node.op {
        Op::Matmul(op) => vec![op.rhs],
        Op::Attention(op) => vec![op.scores.query.tensor, op.scores.key.tensor, op.value.tensor],
        Op::TransposeQkv(op) | Op::TransposeOutput(op) => vec![op.input],
        Op::Softmax(op) => vec![op.scores],
        _ => Vec::new(),
    }
}

fn could_multiply(graph: &Graph, op: &Matmul, output: ValueId, profile: &DeviceProfile) -> bool {
    let [_, rows, cols] = graph.product_space(op, output);
    let sizes = [graph.inner(op), cols];
    rows > 0
        && sizes.iter().all(|&size| size > 0 && size.is_multiple_of(4))
        && [graph.lhs_matrices(op), graph.rhs_matrices(op)].iter().all(Matrices::in_fours)
        && matmul_texels::rounds(graph, op) <= super::most_rounds(profile)
}

fn could_transpose(graph: &Graph, node: &Node) -> bool {
    let [_, _, head_dim] = graph.space(node);
    head_dim > 0 && head_dim.is_multiple_of(4)
}

impl Question<'_> {
    fn could_read(&self, node: &Node) -> bool {
        let (name, could) = match &node.op {
            Op::Matmul(op) => {
                let could = could_multiply(self.graph, op, node.output, self.profile);
                // Both read the same values from textures.
                let name = if self.preferred.contains(&matmul::PANELS) { matmul::PANELS } else { matmul::TEXELS };
                (name, could && !self.users.contains(&op.lhs))
            }
            Op::TransposeQkv(_) => return self.could_copy(node, transpose::QKV_TEXELS),
            Op::TransposeOutput(_) => return self.could_copy(node, transpose::OUTPUT_TEXELS),
            Op::Softmax(op) => {
                let [_, _, columns] = self.graph.space(node);
                // More scores pass from product to softmax in parts, and are never all there.
                let could = softmax::could_read_texels(columns, self.profile)
                    && self.graph.value(op.scores).bytes() <= SCRATCH_BYTES;
                return could && self.is_wanted(node, softmax::TEXELS, self.pays_beside(node));
            }
            Op::Attention(op) => {
                let name = attention_forms::from_texels(self.graph, op, self.profile, self.preferred);
                (name, could_stream(name, self.graph, op, self.profile))
            }
            _ => return false,
        };
        let flops = self.graph.node_flops(node);
        let pays = match node.op {
            Op::Attention(_) => flops > LITTLE_FLOPS,
            _ => flops >= FEWEST_FLOPS_OF_PRODUCT || self.is_for_large_attention(node.output),
        };
        could && self.is_wanted(node, name, pays)
    }

    /// Whether an attention reads the value that would be many times as slow from buffers: a small projection, of few
    /// key/value heads or few keys, must not keep it from texels.
    fn is_for_large_attention(&self, id: ValueId) -> bool {
        self.graph.nodes().iter().any(|node| {
            matches!(node.op, Op::Attention(_))
                && node.op.operands()[..3].contains(&Some(id))
                && self.graph.node_flops(node) >= FEWEST_FLOPS_OF_PRODUCT
                && self.could_read(node)
        })
    }

    /// Whether a transposition reads a texture.
    fn could_copy(&self, node: &Node, kernel: &'static str) -> bool {
        could_transpose(self.graph, node) && self.is_wanted(node, kernel, self.pays_beside(node))
    }

    /// What moves words, or weighs them, gains from textures beside a product that reads them.
    fn pays_beside(&self, node: &Node) -> bool {
        let beside = |other: &&Node| {
            let reads = |reader: &Node, id: ValueId| reader.op.operands().contains(&Some(id));
            matches!(other.op, Op::Matmul(_)) && (reads(other, node.output) || reads(node, other.output))
        };
        self.graph.nodes().iter().filter(beside).any(|product| self.could_read(product))
    }

    fn is_wanted(&self, node: &Node, kernel: &'static str, pays: bool) -> bool {
        let preferred = self.preferred.contains(&kernel);
        let other = super::all().any(|kernel| kernel.op == node.op.name() && self.preferred.contains(&kernel.name));
        (preferred || (pays && !other)) && !self.users.contains(&node.output)
    }

    fn stored(&self, nodes: &BTreeSet<usize>) -> BTreeSet<ValueId> {
        let ids = self.graph.values().map(|(id, _)| id);
        ids.filter(|&id| self.fits(id) && self.is_read(id, nodes) && self.is_written(id, nodes)).collect()
    }

    fn fits(&self, id: ValueId) -> bool {
        let value = self.graph.value(id);
        let in_fours = value.shape.axes().last().is_some_and(|width| width.is_multiple_of(4));
        value.dtype == DType::F32
            && !value.is_empty()
            && in_fours
            && rows(self.graph, id) <= self.profile.max_texture_rows
            && !self.users.contains(&id)
    }

    fn is_read(&self, id: ValueId, nodes: &BTreeSet<usize>) -> bool {
        let reads = |index: usize| match &self.graph.nodes()[index].op {
            Op::Matmul(op) if op.bias == Some(id) => false,
            Op::Matmul(op) => nodes.contains(&index) && (op.lhs == id || op.rhs == id),
            op @ Op::Attention(_) => nodes.contains(&index) && !op.operands()[3..].contains(&Some(id)),
            Op::TransposeQkv(_) | Op::TransposeOutput(_) => nodes.contains(&index),
            op @ Op::Softmax(_) => nodes.contains(&index) && !op.operands()[1..].contains(&Some(id)),
            _ => false,
        };
        let mut readers = (0..self.graph.nodes().len())
            .filter(|&index| self.graph.nodes()[index].op.operands().contains(&Some(id)))
            .peekable();
        let is_input = self.graph.value(id).source == Source::Input;
        readers.peek().is_some() && if is_input { readers.any(reads) } else { readers.all(reads) }
    }

    fn is_written(&self, id: ValueId, nodes: &BTreeSet<usize>) -> bool {
        let value = self.graph.value(id);
        match value.source {
            Source::Input => value.bytes() <= MOST_STAGED_BYTES,
            Source::Parameter => true,
            Source::Node(_) if self.graph.outputs().contains(&id) => false,
            Source::Node(index) => match &self.graph.nodes()[index].op {
                Op::Pack(_) => true,
                _ => nodes.contains(&index),
            },
        }
    }
}
