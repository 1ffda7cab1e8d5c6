//! Rewriting: the same answer from fewer nodes.
//!
//! Each rewriting finds a pattern and builds the graph anew without it. What it cannot prove to be the pattern stays.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Attention, AttentionWeights, Columns, CopyStrided, Dropout, Graph, GraphBuilder, Matmul, Op, Pack, PackPart,
    Scores, Softmax, Source, ValueId,
};
use crate::error::Error;

/// The widest head of a streaming attention: its sums stay in registers.
const WIDEST_HEAD: usize = 512;

/// What may be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewriting {
    /// Projections of one input as one product of packed weights, and weights transposed once, when the graph is compiled;
    /// heads that are multiplied where they stand side by side.
    pub pack: bool,
    /// Scores, softmax, product with the values, and the splitting and joining of heads as one streaming op.
    pub fuse: Fuse,
}

impl Rewriting {
    /// None: the graph as it was built.
    pub const OFF: Self = Self { pack: false, fuse: Fuse::Off };
}

impl Default for Rewriting {
    fn default() -> Self {
        Self { pack: true, fuse: Fuse::Auto }
    }
}

/// Whether attention streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fuse {
    /// Where the weights are not asked for, and the device has a kernel that gains by it.
    #[default]
    Auto,
    /// Wherever it can be. Weights that are asked for are recovered from the statistics of the rows.
    On,
    /// Never.
    Off,
}

impl Graph {
    /// The graph with every attention that is built of single ops as one streaming op, where `applies` to it.
    ///
    /// # Errors
    /// None that a checked graph could cause.
    pub(crate) fn fused(&self, applies: &dyn Fn(&Graph, &Attention) -> bool) -> Result<Self, Error> {
        let patterns: Vec<_> = (0..self.nodes().len()).filter_map(|node| self.unfused(node)).collect();
        let patterns: Vec<_> = patterns.into_iter().filter(|pattern| applies(self, &pattern.attention)).collect();
        let gone: BTreeSet<ValueId> = patterns.iter().flat_map(|pattern| pattern.gone.iter().copied()).collect();
        let mut copy = Copying::of(self);
        for (id, value) in self.values() {
            let Some(pattern) = patterns.iter().find(|pattern| pattern.makes(id)) else {
                if !gone.contains(&id) {
                    copy.value(id)?;
                }
                continue;
            };
            if pattern.joined != id {
                continue;
            }
            let Op::Attention(attention) = Op::Attention(pattern.attention.clone()).on(&copy.ids) else {
                unreachable!("an op should stay what it is");
            };
            let scores = attention.scores.clone();
            if !attention.statistics {
                copy.ids[id.0] = copy.builder.attention(&value.name, attention)?;
                continue;
            }
            let whole = copy.builder.attention(&format!("{}.statistics", value.name), attention)?;
            copy.ids[id.0] = copy.builder.leading_columns(&value.name, whole, value.shape.axes())?;
            let name = &self.value(pattern.weights).name;
            copy.ids[pattern.weights.0] =
                copy.builder.attention_weights(name, AttentionWeights { scores, attention: whole })?;
            if let Some((dropped, op)) = pattern.dropped.as_ref().filter(|(id, _)| self.outputs().contains(id)) {
                let Op::Dropout(op) = Op::Dropout(op.clone()).on(&copy.ids) else {
                    unreachable!("an op should stay what it is");
                };
                copy.ids[dropped.0] = copy.builder.dropout(&self.value(*dropped).name, op)?;
            }
        }
        Ok(copy.finish())
    }

    /// The attention that ends with node `index`, the joining of its heads.
    fn unfused(&self, index: usize) -> Option<Unfused> {
        let Op::TransposeOutput(join) = &self.nodes()[index].op else { return None };
        let Op::Matmul(product) = self.only_used_by(join.input)? else { return None };
        let dropped = match self.made_by(product.lhs)? {
            Op::Dropout(op) => Some((product.lhs, op.clone())),
            _ => None,
        };
        let weights = dropped.as_ref().map_or(product.lhs, |(_, op)| op.weights);
        let Op::Softmax(softmax) = self.made_by(weights)? else { return None };
        let Op::Matmul(scores) = self.made_by(softmax.scores)? else { return None };
        let plain = |op: &Matmul| op.bias.is_none() && self.value(op.rhs).shape.rank() == 3;
        let fits = plain(product) && plain(scores) && scores.transpose_rhs && !scores.skip_hidden;
        let leaves_out = product.skip_hidden || !softmax.hides();
        if !fits || product.transpose_rhs || !leaves_out || self.uses(softmax.scores) != 1 {
            return None;
        }
        let [query, key, value] = [scores.lhs, scores.rhs, product.rhs].map(|heads| self.split(heads));
        let ((query, num_heads), (key, num_kv_heads), (value, value_heads)) = (query?, key?, value?);
        let widest = [query.count / num_heads, value.count / value_heads].into_iter().max()?;
        let drops_otherwise = dropped.as_ref().is_some_and(|(_, op)| op.num_heads != num_heads);
        if num_heads != softmax.num_heads || value_heads != num_kv_heads || widest > WIDEST_HEAD || drops_otherwise {
            return None;
        }
        let Softmax { valid_lens, attend_mask, bias, scale, band, extra_keys, .. } = *softmax;
        let scores_of =
            Scores { query, key, valid_lens, attend_mask, bias, num_heads, num_kv_heads, scale, band, extra_keys };
        let asked = |id: ValueId| self.outputs().contains(&id);
        if [weights, product.lhs].into_iter().any(|id| self.uses(id) != 1 + usize::from(asked(id))) {
            return None;
        }
        let heads = [scores.lhs, scores.rhs, product.rhs];
        let gone = heads.into_iter().filter(|&id| self.uses(id) == 1);
        let gone = gone.chain([softmax.scores, weights, product.lhs, join.input]);
        let dropout = dropped.as_ref().map(|(_, op)| op.pattern);
        Some(Unfused {
            attention: Attention {
                scores: scores_of,
                value,
                statistics: asked(weights) || asked(product.lhs),
                dropout,
            },
            joined: self.nodes()[index].output,
            weights,
            gone: gone.collect(),
            dropped,
        })
    }

    /// The graph with projections packed into products of at most `most_bytes` of weights, those of parameters in
    /// `elsewhere` (by name) left as they are.
    ///
    /// # Errors
    /// None that a checked graph could cause.
    pub(crate) fn packed(&self, elsewhere: &BTreeSet<String>, most_bytes: u64) -> Result<Self, Error> {
        let groups = self.projections(elsewhere, most_bytes);
        let mut copy = Copying::of(self);
        let mut moved: BTreeMap<ValueId, (ValueId, usize)> = BTreeMap::new();
        for (id, _) in self.values() {
            let Some(group) = groups.iter().find(|group| group.contains(&id)) else {
                copy.value_with(id, &moved)?;
                continue;
            };
            // All parameters are there when the last of them is.
            if group.last() == Some(&id) {
                let packed = copy.pack(group)?;
                let mut first = 0;
                for &member in group {
                    moved.insert(member, (packed, first));
                    copy.ids[member.0] = packed;
                    first += self.value(member).shape.axes().last().copied().unwrap_or(0);
                }
            }
        }
        Ok(copy.finish())
    }

    /// Outputs of `x · Wᵀ + b` with parameters that nothing else uses: those of one attention and one `x` together.
    fn projections(&self, elsewhere: &BTreeSet<String>, most_bytes: u64) -> Vec<Vec<ValueId>> {
        let mut groups: Vec<Vec<ValueId>> = Vec::new();
        for node in self.nodes() {
            let Op::Matmul(op) = &node.op else { continue };
            let ours = |id: ValueId| {
                let value = self.value(id);
                value.source == Source::Parameter && self.uses(id) == 1 && !elsewhere.contains(&value.name)
            };
            let plain = op.transpose_rhs && !op.skip_hidden && self.value(op.rhs).shape.rank() == 2 && ours(op.rhs);
            let weight_bytes = |id: ValueId| match self.made_by(id) {
                Some(Op::Matmul(op)) => self.value(op.rhs).bytes(),
                _ => 0,
            };
            if !plain || op.bias.is_some_and(|bias| !ours(bias)) || weight_bytes(node.output) > most_bytes {
                continue;
            }
            let beside = groups.iter_mut().find(|group| {
                let Some(Op::Matmul(other)) = self.made_by(group[0]) else { return false };
                let [ours, theirs] = [node.output, group[0]].map(|id| self.attention_of(id));
                let bytes: u64 = group.iter().copied().chain([node.output]).map(weight_bytes).sum();
                ours.is_some() && ours == theirs && other.lhs == op.lhs && bytes <= most_bytes
            });
            match beside {
                Some(group) => group.push(node.output),
                None => groups.push(vec![node.output]),
            }
        }
        groups
    }

    /// The attention whose nodes read a value, if nothing else does: they take it from any columns. It is known by its first
    /// node.
    fn attention_of(&self, id: ValueId) -> Option<usize> {
        if self.outputs().contains(&id) {
            return None;
        }
        let reads = |index: &usize| self.nodes()[*index].op.operands().contains(&Some(id));
        let mut users = (0..self.nodes().len()).filter(reads);
        let first = users.next()?;
        match &self.nodes()[first].op {
            // Rows of a cache are read by whoever reads the cache.
            Op::AppendRows(op) if op.rows.tensor == id && users.next().is_none() => {
                self.attention_of(self.nodes()[first].output)
            }
            _ => {
                let attention = self.attention_with(first, id)?;
                users.all(|user| self.attention_with(user, id).is_some()).then_some(attention)
            }
        }
    }

    /// The first node of the attention that node `index`, which reads columns of a value, is part of.
    fn attention_with(&self, index: usize, id: ValueId) -> Option<usize> {
        match &self.nodes()[index].op {
            Op::Attention(_) | Op::AttentionWeights(_) | Op::PartialAttention(_) => Some(index),
            Op::Matmul(op) => {
                let mut operands = [(op.lhs, op.heads.lhs), (op.rhs, op.heads.rhs)].into_iter();
                let columns = operands.all(|(operand, heads)| operand != id || heads.is_some()) && op.bias != Some(id);
                columns.then(|| self.scores_behind(op.lhs).unwrap_or(index))
            }
            _ => None,
        }
    }

    /// The node that makes the scores of which these are the weights.
    fn scores_behind(&self, weights: ValueId) -> Option<usize> {
        let softmax = match self.made_by(weights)? {
            Op::Dropout(op) => return self.scores_behind(op.weights),
            Op::Softmax(op) => op,
            _ => return None,
        };
        match self.value(softmax.scores).source {
            Source::Node(index) => Some(index),
            _ => None,
        }
    }

    /// Whether an attention in it never stores its scores.
    pub(crate) fn streams(&self) -> bool {
        self.nodes().iter().any(|node| matches!(node.op, Op::Attention(_) | Op::PartialAttention(_)))
    }

    /// Whether a value is the weights of a softmax, or what dropout leaves of them.
    pub(crate) fn is_softmax(&self, id: ValueId) -> bool {
        matches!(self.made_by(id), Some(Op::Softmax(_) | Op::Dropout(_)))
    }

    pub(super) fn made_by(&self, id: ValueId) -> Option<&Op> {
        match self.value(id).source {
            Source::Node(index) => Some(&self.nodes()[index].op),
            _ => None,
        }
    }

    /// What made a value that is read or given back once.
    pub(super) fn only_used_by(&self, id: ValueId) -> Option<&Op> {
        if self.uses(id) == 1 { self.made_by(id) } else { None }
    }

    /// How often a value is read or given back.
    fn uses(&self, id: ValueId) -> usize {
        let reads = self.nodes().iter().flat_map(|node| node.op.operands()).filter(|&operand| operand == Some(id));
        reads.count() + self.outputs().iter().filter(|&&output| output == id).count()
    }

    /// The tensor whose heads a value is, and how many they are.
    fn split(&self, heads: ValueId) -> Option<(Columns, usize)> {
        let Op::TransposeQkv(op) = self.made_by(heads)? else { return None };
        let count = *self.value(op.input).shape.axes().last()?;
        Some((Columns { tensor: op.input, first: 0, count }, op.num_heads))
    }
}

/// An attention made of single ops.
struct Unfused {
    attention: Attention,
    joined: ValueId,
    /// What the softmax gave.
    weights: ValueId,
    /// What dropout left of it.
    dropped: Option<(ValueId, Dropout)>,
    /// Values that nobody needs any more, but for those that are asked for.
    gone: Vec<ValueId>,
}

impl Unfused {
    /// Whether a value of the old graph is made by the streaming op, or from what it gives.
    fn makes(&self, id: ValueId) -> bool {
        let dropped = self.dropped.as_ref().map(|(dropped, _)| *dropped);
        self.joined == id || self.weights == id || dropped == Some(id)
    }
}

/// A graph that is built again, value by value.
pub(super) struct Copying<'a> {
    graph: &'a Graph,
    pub(super) builder: GraphBuilder,
    /// For each value of the old graph, the one of the new.
    pub(super) ids: Vec<ValueId>,
}

impl<'a> Copying<'a> {
    pub(super) fn of(graph: &'a Graph) -> Self {
        Self { graph, builder: GraphBuilder::new(), ids: vec![ValueId(0); graph.values().count()] }
    }

    pub(super) fn value(&mut self, id: ValueId) -> Result<(), Error> {
        self.value_with(id, &BTreeMap::new())
    }

    /// Copies a value; columns of one that was `moved` are read from where they are now.
    fn value_with(&mut self, id: ValueId, moved: &BTreeMap<ValueId, (ValueId, usize)>) -> Result<(), Error> {
        let value = self.graph.value(id);
        self.ids[id.0] = match value.source {
            Source::Node(index) => {
                let mut op = self.graph.nodes()[index].op.clone();
                for (tensor, first_column) in op.columns_mut() {
                    *first_column += moved.get(&tensor).map_or(0, |(_, first)| *first);
                }
                self.builder.rebuild(&value.name, &op, &self.ids, &value.shape)?
            }
            source => self.builder.given(&value.name, value.shape.clone(), value.dtype, source)?,
        };
        Ok(())
    }

    /// One product in place of those that make `group`.
    fn pack(&mut self, group: &[ValueId]) -> Result<ValueId, Error> {
        let ops = group.iter().map(|&id| match self.graph.made_by(id) {
            Some(Op::Matmul(op)) => op,
            _ => unreachable!("a projection should be a product"),
        });
        let ops: Vec<&Matmul> = ops.collect();
        let name = |ids: &mut dyn Iterator<Item = ValueId>| {
            ids.map(|id| self.graph.value(id).name.clone()).collect::<Vec<_>>().join("·")
        };
        let (names, weights) = (name(&mut group.iter().copied()), name(&mut ops.iter().map(|op| op.rhs)));
        let biases = name(&mut ops.iter().filter_map(|op| op.bias));
        let count = |op: &Matmul| self.graph.value(op.rhs).shape.axes()[0];
        let part = |value: Option<ValueId>, count| PackPart { value: value.map(|id| self.ids[id.0]), count };
        let parts = ops.iter().map(|op| part(Some(op.rhs), count(op))).collect();
        let bias_parts: Vec<_> = ops.iter().map(|op| part(op.bias, count(op))).collect();
        let lhs = self.ids[ops[0].lhs.0];
        let rhs = self.builder.pack(&format!("{weights}.packed"), Pack { parts })?;
        let bias = match (ops.len(), biases.is_empty()) {
            (_, true) => None,
            (1, false) => bias_parts[0].value,
            _ => Some(self.builder.pack(&format!("{biases}.packed"), Pack { parts: bias_parts })?),
        };
        self.builder.matmul(&names, Matmul { bias, ..Matmul::of(lhs, rhs) })
    }

    pub(super) fn finish(self) -> Graph {
        let outputs: Vec<_> = self.graph.outputs().iter().map(|id| self.ids[id.0]).collect();
        self.builder.finish(&outputs)
    }
}

impl GraphBuilder {
    /// The first columns of a wider tensor, as a tensor of their own of shape `axes`.
    fn leading_columns(&mut self, name: &str, whole: ValueId, axes: &[usize]) -> Result<ValueId, Error> {
        let &[batch, length, width] = axes else {
            unreachable!("joined heads should have three axes");
        };
        let stride = self.shape(whole).axes()[2];
        let copy = CopyStrided {
            input: whole,
            axes: [batch, length, 1, width],
            from: [length * stride, stride, 0, 1],
            to: [length * width, width, 0, 1],
        };
        let copied = self.copy(name, copy)?;
        Ok(self.reshaped(copied, axes.to_vec().into()))
    }
}

impl Op {
    /// Of the wider tensors of which the op reads columns: which, and the first column.
    fn columns_mut(&mut self) -> Vec<(ValueId, &mut usize)> {
        let columns = match self {
            Self::Attention(op) => vec![&mut op.scores.query, &mut op.scores.key, &mut op.value],
            Self::AttentionWeights(op) => vec![&mut op.scores.query, &mut op.scores.key],
            Self::PartialAttention(op) => vec![&mut op.scores.query, &mut op.scores.key, &mut op.value],
            Self::AppendRows(op) => vec![&mut op.rows],
            Self::Matmul(op) => {
                let heads = [(op.lhs, &mut op.heads.lhs), (op.rhs, &mut op.heads.rhs)];
                let firsts = heads.map(|(tensor, heads)| heads.as_mut().map(|heads| (tensor, &mut heads.first)));
                return firsts.into_iter().flatten().collect();
            }
            _ => Vec::new(),
        };
        columns.into_iter().map(|columns| (columns.tensor, &mut columns.first)).collect()
    }
}
