//! Working a graph off on the CPU.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::append_key::append_key;
use super::append_rows::append_rows;
use super::attention::{self, Form, Scores, attention, attention_weights};
use super::copy::copy;
use super::dropout::dropout;
use super::matmul::{self, matmul};
use super::pack::{Part, pack};
use super::partial_attention::{SharingOut, merge_partials, partial_attention};
use super::softmax::{Masks, softmax};
use super::transpose::{Heads, transpose_output, transpose_qkv};
use super::view::{Real, View};
use crate::error::Error;
use crate::graph::footprint::Block;
use crate::graph::schedule::{InTextures, Limits, Schedule, Step};
use crate::graph::{
    self, Columns, Custom, DType, DropoutPattern, Graph, HostValue, Inputs, KeyBand, Node, Op, PackPart, ScoreSizes,
    Source, TransposeHeads, ValueId,
};
use crate::shape::HostTensor;

/// Computes a graph's outputs, by name, in the arithmetic of `T`.
///
/// # Errors
/// Those of missing or misshapen tensors; [`Error::Invalid`] when memory runs out.
///
/// # Example
/// ```
/// use multihead::{DType, GraphBuilder, HostTensor, Inputs, reference};
/// let mut builder = GraphBuilder::new();
/// let x = builder.input("x", [1, 2], DType::F32)?;
/// let w = builder.parameter("W", [1, 2])?;
/// let y = builder.linear("y", x, w, None)?;
/// let graph = builder.finish(&[y]);
/// let (x, w) = (HostTensor::new([1, 2], vec![1.0, 2.0])?, HostTensor::new([1, 2], vec![3.0, 4.0])?);
/// let outputs = reference::interpret::<f64>(&graph, &Inputs::new().with("W", &w), &Inputs::new().with("x", &x))?;
/// assert_eq!(outputs["y"].data(), [11.0]);
/// # Ok::<(), multihead::Error>(())
/// ```
pub fn interpret<T: Real>(
    graph: &Graph,
    parameters: &Inputs<'_>,
    inputs: &Inputs<'_>,
) -> Result<BTreeMap<String, HostTensor<T>>, Error> {
    interpret_watched(graph, parameters, inputs, &mut |_, _| ())
}

/// As [`interpret`], and tells of each node and block of it when it is done.
///
/// # Errors
/// As [`interpret`].
pub(crate) fn interpret_watched<T: Real>(
    graph: &Graph,
    parameters: &Inputs<'_>,
    inputs: &Inputs<'_>,
    done: &mut dyn FnMut(&Node, &Block),
) -> Result<BTreeMap<String, HostTensor<T>>, Error> {
    interpret_within(graph, parameters, inputs, Limits::HOST, done)
}

/// As [`interpret`], in blocks that fit `limits`.
fn interpret_within<T: Real>(
    graph: &Graph,
    parameters: &Inputs<'_>,
    inputs: &Inputs<'_>,
    limits: Limits,
    done: &mut dyn FnMut(&Node, &Block),
) -> Result<BTreeMap<String, HostTensor<T>>, Error> {
    let mut given = parameters.of(graph, Source::Parameter, &BTreeSet::new())?;
    given.extend(inputs.of(graph, Source::Input, &BTreeSet::new())?);
    let mut memory = Memory { graph, stored: graph.values().map(|_| Stored::Absent).collect() };
    for (id, _, value) in given {
        memory.stored[id.0] = match value {
            HostValue::F32(tensor) => Stored::Real { data: T::all_of(tensor.data()), base: 0 },
            HostValue::U32(tensor) => Stored::Integers(tensor.data()),
            HostValue::Bool(tensor) => Stored::Bools(tensor.data()),
            HostValue::F16(tensor) => {
                Stored::Real { data: tensor.data().iter().map(|x| T::of(x.to_f32())).collect(), base: 0 }
            }
        };
    }
    let schedule = Schedule::new(graph, limits, &InTextures::default())?;
    let lifetimes = schedule.lifetimes(graph);
    for (index, step) in schedule.steps.iter().enumerate() {
        let node = &graph.nodes()[step.node];
        memory.run(step, schedule.scratch.contains(&node.output))?;
        done(node, &step.block);
        for (value, life) in lifetimes.iter().enumerate() {
            let ends = life.as_ref().is_some_and(|life| *life.end() == index);
            if ends && !graph.outputs().contains(&ValueId(value)) {
                memory.stored[value] = Stored::Absent;
            }
        }
    }
    graph.outputs().iter().map(|&id| memory.take_output(id)).collect()
}

/// A value while it lives; what was given lies where it is.
enum Stored<'a, T: Real> {
    Absent,
    Real { data: Cow<'a, [T]>, base: usize },
    Integers(&'a [u32]),
    Bools(&'a [bool]),
}

struct Memory<'a, T: Real> {
    graph: &'a Graph,
    stored: Vec<Stored<'a, T>>,
}

impl<T: Real> Memory<'_, T> {
    fn run(&mut self, step: &Step, scratch: bool) -> Result<(), Error> {
        let node = &self.graph.nodes()[step.node];
        let (mut data, base) = match node.op.in_place() {
            Some(operand) => self.taken(operand, node.output),
            None => self.output_storage(step, scratch)?,
        };
        let write = |index: usize, row: &[T]| data[index - base..index - base + row.len()].copy_from_slice(row);
        let block = &step.block;
        let [_, rows, cols] = self.graph.space(node);
        match &node.op {
            Op::Matmul(op) => {
                let operands = matmul::Operands {
                    lhs: (self.real(op.lhs), self.graph.lhs_matrices(op)),
                    rhs: (self.real(op.rhs), self.graph.rhs_matrices(op)),
                    bias: op.bias.map(|bias| self.real(bias)),
                    out: self.graph.out_matrices(op, node.output),
                    inner: self.graph.inner(op),
                };
                matmul(op, &operands, block, write);
            }
            Op::Softmax(op) => {
                let ids = [op.valid_lens, op.attend_mask, op.bias];
                let masks = self.masks(ids, self.graph.softmax_sizes(op), op.scale, op.band);
                softmax(&masks, self.real(op.scores), cols, block, write);
            }
            Op::Dropout(op) => {
                let pattern = DropoutPattern::from_words(self.integers(op.pattern));
                dropout(&pattern, op.num_heads, self.real(op.weights), [rows, cols], block, write);
            }
            Op::Attention(op) => {
                let value = self.heads(op.value, op.scores.num_kv_heads);
                let pattern = op.dropout.map(|id| DropoutPattern::from_words(self.integers(id)));
                let form = Form { width: cols, statistics: op.statistics, dropout: pattern };
                attention(&self.scores(&op.scores), value, &form, block, write);
            }
            Op::AttentionWeights(op) => attention_weights(&self.scores(&op.scores), block, write),
            Op::PartialAttention(op) => {
                let value = self.heads(op.value, op.scores.num_kv_heads);
                let mut scores = self.scores(&op.scores);
                let cached = op.lengths.map(|id| (self.integers(id), op.scores.band));
                // The band of a cached query starts at its position.
                scores.masks.band = if cached.is_some() { KeyBand::ALL } else { op.scores.band };
                let dropout = op.dropout.map(|id| DropoutPattern::from_words(self.integers(id)));
                let parts = SharingOut { cached, parts: op.parts, keys: op.keys, value_dim: op.value_dim, dropout };
                partial_attention(&scores, value, &parts, block, write);
            }
            Op::MergePartials(op) => {
                merge_partials(self.real(op.partials), [rows, cols], [op.num_heads, op.parts], block, write);
            }
            Op::Pack(op) => {
                let part = |part: &PackPart| Part { data: part.value.map(|id| self.real(id).data), count: part.count };
                let axes = self.graph.value(node.output).shape.axes();
                let inner = if axes.len() == 2 { axes[0] } else { 1 };
                data = pack(&op.parts.iter().map(part).collect::<Vec<_>>(), inner);
            }
            Op::TransposeQkv(op) => transpose_qkv(heads(op, rows, cols), self.real(op.input), block, write),
            Op::TransposeOutput(op) => transpose_output(heads(op, rows, cols), self.real(op.input), block, write),
            Op::AppendKey(op) => append_key([rows - 1, cols], self.real(op.input), self.real(op.key), block, write),
            Op::AppendRows(op) => {
                let cache = self.graph.value(op.cache);
                let sizes = [rows, cache.shape.axes()[1], cols];
                let round = |x: T| if cache.dtype == DType::F16 { x.halved() } else { x };
                let from = self.heads(op.rows, op.num_heads);
                append_rows(from, self.integers(op.lengths), sizes, block, round, &mut data);
            }
            Op::Copy(op) => copy(op, self.real(op.input), block, write),
            Op::Custom(op) => self.custom(op, &mut data)?,
        }
        self.stored[node.output.0] = Stored::Real { data: Cow::Owned(data), base };
        Ok(())
    }

    /// What hides keys, and what is added to scores: `valid_lens`, `attend_mask`, `bias`.
    fn masks(&self, ids: [Option<ValueId>; 3], sizes: ScoreSizes, scale: f64, band: KeyBand) -> Masks<'_, T> {
        let [lens, mask, bias] = ids;
        Masks {
            valid_lens: lens.map(|id| (self.integers(id), self.graph.value(id).shape.rank() == 2)),
            attend_mask: mask.map(|id| (self.bools(id), self.graph.mask_strides(sizes, id))),
            bias: bias.map(|id| (self.real(id), self.graph.mask_strides(sizes, id))),
            sizes,
            scale: T::of_f64(scale),
            band,
        }
    }

    fn scores(&self, op: &graph::Scores) -> Scores<'_, T> {
        let sizes = self.graph.score_sizes(op);
        Scores {
            query: self.heads(op.query, op.num_heads),
            key: self.heads(op.key, op.num_kv_heads),
            masks: self.masks([op.valid_lens, op.attend_mask, op.bias], sizes, op.scale, op.band),
            num_columns: sizes.num_keys + op.extra_keys,
        }
    }

    fn heads(&self, columns: Columns, num_heads: usize) -> attention::Heads<'_, T> {
        let stride = self.graph.value(columns.tensor).shape.axes()[2];
        attention::Heads { data: self.real(columns.tensor), columns, stride, count: num_heads }
    }

    /// Runs a user's twin, which computes in 64 bits.
    fn custom(&self, op: &Custom, output: &mut [T]) -> Result<(), Error> {
        let Some(twin) = &op.kernel.cpu else {
            return Err(Error::Invalid(format!(
                "{} has no CPU twin; compute on a GPU, or give the kernel one",
                op.kernel.name
            )));
        };
        let wide = |data: &[T]| data.iter().map(|&x| x.to_f64().unwrap_or(f64::NAN)).collect::<Vec<_>>();
        let inputs: Vec<_> = op.inputs.iter().map(|&id| wide(self.real(id).data)).collect();
        let inputs: Vec<_> = inputs.iter().map(Vec::as_slice).collect();
        let mut computed = vec![0.0; output.len()];
        twin(&inputs, &mut computed);
        for (output, computed) in output.iter_mut().zip(computed) {
            *output = T::of_f64(computed);
        }
        Ok(())
    }

    /// What an op works on in place: the operand, or what an earlier block has made of it.
    fn taken(&mut self, operand: ValueId, output: ValueId) -> (Vec<T>, usize) {
        for id in [output, operand] {
            if let Stored::Real { data, base } = std::mem::replace(&mut self.stored[id.0], Stored::Absent) {
                return (data.into_owned(), base);
            }
        }
        (Vec::new(), 0)
    }

    /// Room for what a step writes: the whole value, kept from step to step, or one block of it.
    fn output_storage(&mut self, step: &Step, scratch: bool) -> Result<(Vec<T>, usize), Error> {
        let node = &self.graph.nodes()[step.node];
        let value = self.graph.value(node.output);
        let range = if scratch { self.graph.output_footprint(node, &step.block) } else { 0..value.len() };
        match std::mem::replace(&mut self.stored[node.output.0], Stored::Absent) {
            Stored::Real { data, base } if !scratch => Ok((data.into_owned(), base)),
            _ => {
                let mut data = Vec::new();
                data.try_reserve_exact(range.len()).map_err(|_| {
                    let bytes = range.len() as u64 * size_of::<T>() as u64;
                    Error::Invalid(format!(
                        "{} {} needs {bytes} bytes, more memory than is left; cut the batch into pieces",
                        value.name, value.shape
                    ))
                })?;
                data.resize(range.len(), T::zero());
                Ok((data, range.start))
            }
        }
    }

    /// A value of numbers; one that no step wrote is empty.
    fn real(&self, id: ValueId) -> View<'_, T> {
        match &self.stored[id.0] {
            Stored::Real { data, base } => View { data, base: *base },
            _ => View { data: &[], base: 0 },
        }
    }

    fn integers(&self, id: ValueId) -> &[u32] {
        match &self.stored[id.0] {
            Stored::Integers(data) => data,
            _ => &[],
        }
    }

    fn bools(&self, id: ValueId) -> &[bool] {
        match &self.stored[id.0] {
            Stored::Bools(data) => data,
            _ => &[],
        }
    }

    fn take_output(&mut self, id: ValueId) -> Result<(String, HostTensor<T>), Error> {
        let value = self.graph.value(id);
        let data = match &mut self.stored[id.0] {
            Stored::Real { data, .. } => std::mem::take(data).into_owned(),
            _ => Vec::new(),
        };
        Ok((value.name.clone(), HostTensor::new(value.shape.clone(), data)?))
    }
}

fn heads(op: &TransposeHeads, length: usize, head_dim: usize) -> Heads {
    Heads { num_heads: op.num_heads, length, head_dim }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{DType, GraphBuilder, KeyBand, Matmul, Softmax};

    /// Attention of 3 batch entries, 4 query heads over 2 key/value heads, 5 queries, 7 keys, with every kind of mask.
    fn attention() -> Graph {
        let mut builder = GraphBuilder::new();
        let mut input = |name: &str, shape: &[usize], dtype| builder.input(name, shape.to_vec(), dtype).unwrap();
        let query = input("query", &[3, 5, 8], DType::F32);
        let key = input("key", &[3, 7, 4], DType::F32);
        let value = input("value", &[3, 7, 6], DType::F32);
        let valid_lens = Some(input("valid_lens", &[3, 5], DType::U32));
        let attend_mask = Some(input("attend_mask", &[1, 4, 5, 7], DType::Bool));
        let bias = Some(input("bias", &[3, 1, 5, 7], DType::F32));
        let mut split =
            |name: &str, input, num_heads| builder.transpose_qkv(name, TransposeHeads { input, num_heads }).unwrap();
        let [q, k, v] = [split("q", query, 4), split("k", key, 2), split("v", value, 2)];
        let product = |lhs, rhs, transpose_rhs, skip_hidden| Matmul {
            transpose_rhs,
            group: 2,
            skip_hidden,
            ..Matmul::of(lhs, rhs)
        };
        let scores = builder.matmul("scores", product(q, k, true, false)).unwrap();
        let band = KeyBand::new(true, 2, Some(5));
        let softmax = Softmax { scores, valid_lens, attend_mask, bias, num_heads: 4, scale: 0.5, band, extra_keys: 0 };
        let weights = builder.softmax("weights", softmax).unwrap();
        let heads = builder.matmul("heads", product(weights, v, false, true)).unwrap();
        let joined = builder.transpose_output("joined", TransposeHeads { input: heads, num_heads: 4 }).unwrap();
        builder.finish(&[joined])
    }

    #[test]
    fn blocks_of_any_size_give_the_same_bits_as_the_whole() {
        let graph = attention();
        let mut rng = fastrand::Rng::with_seed(7);
        let mut random = |shape: &[usize]| {
            let len = shape.iter().product();
            HostTensor::new(shape.to_vec(), (0..len).map(|_| rng.f32() - 0.5).collect()).unwrap()
        };
        let [query, key, value, bias] =
            [random(&[3, 5, 8]), random(&[3, 7, 4]), random(&[3, 7, 6]), random(&[3, 1, 5, 7])];
        let lens = HostTensor::new([3, 5], (0..15).map(|_| rng.u32(0..=7)).collect()).unwrap();
        let mask = HostTensor::new([1, 4, 5, 7], (0..140).map(|_| rng.bool()).collect()).unwrap();
        let inputs = Inputs::new().with("query", &query).with("key", &key).with("value", &value);
        let inputs = inputs.with("valid_lens", &lens).with("attend_mask", &mask).with("bias", &bias);
        let run = |binding_bytes| {
            let limits = Limits { binding_bytes, alignment: 4, work: u64::MAX };
            let steps = Schedule::new(&graph, limits, &InTextures::default()).unwrap();
            (interpret_within::<f32>(&graph, &Inputs::new(), &inputs, limits, &mut |_, _| ()).unwrap(), steps)
        };
        let (whole, one_each) = run(1 << 20);
        assert_eq!((one_each.steps.len(), one_each.scratch.len()), (7, 0));
        let mut most_steps = 0;
        for binding_bytes in [2000, 1680, 1000, 500, 240, 168, 128] {
            let (got, schedule) = run(binding_bytes);
            assert_eq!(got, whole, "bindings of {binding_bytes} bytes");
            most_steps = most_steps.max(schedule.steps.len());
            // Scores of 12·5·7 words pass from node to node without being stored whole.
            assert_eq!(schedule.scratch.len(), if binding_bytes < 1680 { 2 } else { 0 }, "{binding_bytes} bytes");
        }
        assert!(most_steps > 100, "{most_steps} steps are no test of splitting");
        let too_small =
            Schedule::new(&graph, Limits { binding_bytes: 16, alignment: 4, work: u64::MAX }, &InTextures::default());
        insta::assert_snapshot!(too_small.unwrap_err(), @"the smallest piece of query (3, 5, 8) that transpose_qkv can work on needs 32 bytes, but the device's max_storage_buffer_binding_size is 16; cut the sequences or the layer's width into pieces, or compute on the CPU");
    }
}
