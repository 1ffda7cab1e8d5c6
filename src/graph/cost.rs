//! What a graph costs, counted from its shapes.

use super::footprint::Block;
use super::{Attention, AttentionWeights, Graph, Node, Op, PartialAttention, Scores, Source};

/// Operations of a product that take about as long as one element of a softmax, or of what only moves elements.
const SOFTMAX_WORK: u64 = 32;
const MOVING_WORK: u64 = 8;
/// The same for the exponential of a score, half of it to each of the two products that the score is in.
const SCORE_WORK: u64 = 8;

impl Graph {
    /// Floating-point operations of the matrix products, a multiplication and an addition counted as two.
    ///
    /// D2L's and Vaswani et al.'s count, 8nd² + 4n²d for self-attention whatever the number of heads is; the softmax's
    /// h·n² exponentials are not in it.
    #[must_use]
    pub fn flops(&self) -> u64 {
        self.nodes().iter().map(|node| self.node_flops(node)).sum()
    }

    /// Floating-point operations of one node's matrix product; 0 for other ops.
    #[must_use]
    pub fn node_flops(&self, node: &Node) -> u64 {
        match &node.op {
            Op::Matmul(op) => (self.value(node.output).len() as u64).saturating_mul(2 * self.inner(op) as u64),
            Op::Attention(op) => self.attention_flops(op),
            Op::PartialAttention(op) => self.score_flops(&op.scores, op.value_dim),
            Op::AttentionWeights(op) => self.score_flops(&op.scores, 0),
            _ => 0,
        }
    }

    /// The part of a node's [`node_flops`](Self::node_flops) that a block of it is.
    pub(crate) fn block_flops(&self, node: &Node, block: &Block) -> u64 {
        let volume = |sizes: [usize; 3]| sizes.iter().map(|&size| size as u128).product::<u128>();
        let flops = u128::from(self.node_flops(node)) * volume(block.sizes()) / volume(self.space(node)).max(1);
        u64::try_from(flops).unwrap_or(u64::MAX)
    }

    /// How long a block takes, as the number of operations of a product that take as long: an estimate from shapes alone.
    pub(crate) fn block_work(&self, node: &Node, block: &Block) -> u64 {
        let flops = self.block_flops(node, block);
        let elements = block.sizes().iter().fold(1_u64, |elements, &size| elements.saturating_mul(size as u64));
        let beside = match &node.op {
            Op::Matmul(_) => 0,
            Op::Attention(Attention { scores, .. })
            | Op::PartialAttention(PartialAttention { scores, .. })
            | Op::AttentionWeights(AttentionWeights { scores, .. }) => {
                let head_dim = (scores.query.count / scores.num_heads).max(1) as u64;
                flops / (2 * head_dim) * (SCORE_WORK / 2)
            }
            Op::Softmax(_) | Op::Dropout(_) => elements.saturating_mul(SOFTMAX_WORK),
            _ => elements.saturating_mul(MOVING_WORK),
        };
        flops.saturating_add(beside)
    }

    /// Operations of a streaming attention, hidden keys counted like the others.
    pub(crate) fn attention_flops(&self, op: &Attention) -> u64 {
        self.score_flops(&op.scores, op.value.count / op.scores.num_kv_heads)
    }

    /// Two operations for each score and each column of the query's head and of `value_dim`.
    fn score_flops(&self, scores: &Scores, value_dim: usize) -> u64 {
        let sizes = self.score_sizes(scores);
        let num_scores = [sizes.num_heads, sizes.num_queries, sizes.num_keys + scores.extra_keys];
        let width = scores.query.count / scores.num_heads + value_dim;
        num_scores.iter().fold(2 * (sizes.batch * width) as u64, |flops, &size| flops.saturating_mul(size as u64))
    }

    /// Bytes that the nodes read and write, each operand counted once per node; what is packed once is left out.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.nodes()
            .iter()
            .filter(|node| !node.is_packing())
            .flat_map(|node| node.op.operands().into_iter().flatten().chain([node.output]))
            .map(|id| self.value(id).bytes())
            .fold(0, u64::saturating_add)
    }

    /// Elements of all parameters: 4d² without biases, whatever the number of heads is.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        self.sources(Source::Parameter).map(|(_, value)| value.len() as u64).sum()
    }
}
