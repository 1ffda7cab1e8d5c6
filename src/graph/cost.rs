//! What a graph costs, counted from its shapes.

use super::{Graph, Node, Op, Source};

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
        let Op::Matmul(op) = &node.op else {
            return 0;
        };
        let inner = self.value(op.lhs).shape.axes().last().map_or(0, |&inner| inner as u64);
        (self.value(node.output).len() as u64).saturating_mul(2 * inner)
    }

    /// Bytes that the nodes read and write, each operand counted once per node.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.nodes()
            .iter()
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
