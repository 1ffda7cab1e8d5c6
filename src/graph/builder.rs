//! Building a graph: every method checks the shapes it is given.

use super::copy::span;
use super::{
    AppendKey, Attention, AttentionWeights, Columns, CopyStrided, DType, Graph, KeyBand, MaskStrides, Matmul, Node, Op,
    Pack, Scores, Softmax, Source, TransposeHeads, Value, ValueId,
};
use crate::error::Error;
use crate::shape::Shape;

/// Builds a [`Graph`] node by node.
///
/// # Example
/// ```
/// use multihead::{DType, GraphBuilder};
/// let mut builder = GraphBuilder::new();
/// let x = builder.input("x", [2, 3], DType::F32)?;
/// let w = builder.parameter("W", [5, 3])?;
/// let y = builder.linear("y", x, w, None)?;
/// let graph = builder.finish(&[y]);
/// assert_eq!(graph.value(y).shape, [2, 5]);
/// # Ok::<(), multihead::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct GraphBuilder {
    graph: Graph,
}

impl GraphBuilder {
    /// An empty graph.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Goes on where a graph ended: its values keep their ids, its outputs are chosen anew.
    #[must_use]
    pub fn continuing(mut graph: Graph) -> Self {
        graph.outputs.clear();
        Self { graph }
    }

    /// Ends the building; `outputs` are what a run gives back, each once. One that is of another graph, or no 32-bit
    /// floats, is refused when the graph is compiled or interpreted.
    #[must_use]
    pub fn finish(mut self, outputs: &[ValueId]) -> Graph {
        for output in outputs {
            if !self.graph.outputs.contains(output) {
                self.graph.outputs.push(*output);
            }
        }
        self.graph
    }

    /// A value that every run is given anew.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that is taken, [`Error::LimitExceeded`] for a size no device can index.
    pub fn input(&mut self, name: &str, shape: impl Into<Shape>, dtype: DType) -> Result<ValueId, Error> {
        self.value(name, shape.into(), dtype, Source::Input)
    }

    /// A 32-bit float value that is given once.
    ///
    /// # Errors
    /// As [`input`](Self::input).
    pub fn parameter(&mut self, name: &str, shape: impl Into<Shape>) -> Result<ValueId, Error> {
        self.value(name, shape.into(), DType::F32, Source::Parameter)
    }

    /// `x·Wᵀ + b`: `x` (…, in), `weight` (out, in), `bias` (out,) → (…, out).
    ///
    /// # Errors
    /// [`Error::WrongShape`] naming both shapes, [`Error::Invalid`] for a value of another graph or type.
    pub fn linear(&mut self, name: &str, x: ValueId, weight: ValueId, bias: Option<ValueId>) -> Result<ValueId, Error> {
        self.matmul(name, Matmul { lhs: x, rhs: weight, bias, transpose_rhs: true, group: 1, skip_hidden: false })
    }

    /// See [`Matmul`].
    ///
    /// # Errors
    /// [`Error::WrongShape`] naming both shapes, [`Error::Invalid`] for a value of another graph or type.
    pub fn matmul(&mut self, name: &str, op: Matmul) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.lhs), DType::F32), (Some(op.rhs), DType::F32), (op.bias, DType::F32)])?;
        if !(1..FAR).contains(&op.group) {
            return Err(Error::OutOfRange {
                what: format!("the group of {name}"),
                value: op.group.to_string(),
                allowed: format!("must be between 1 and {}", FAR - 1),
            });
        }
        let lhs = self.axes(op.lhs);
        let rhs = self.axes(op.rhs);
        let (inner, cols) = match (rhs, op.transpose_rhs) {
            ([.., cols, inner], true) | ([.., inner, cols], false) => (*inner, *cols),
            _ => return Err(self.wrong(op.rhs, "a matrix product needs at least two axes".into())),
        };
        if lhs.len() < 2 || lhs.last() != Some(&inner) {
            return Err(self.wrong(
                op.lhs,
                format!(
                    "its last axis must be {inner} to be multiplied with {} {}",
                    self.name(op.rhs),
                    self.shape(op.rhs)
                ),
            ));
        }
        if let [batch, _, _] = rhs
            && (lhs.len() != 3 || batch.checked_mul(op.group) != Some(lhs[0]))
        {
            return Err(self.wrong(
                op.lhs,
                format!("it must hold {} matrices for each of {} {}", op.group, self.name(op.rhs), self.shape(op.rhs)),
            ));
        }
        if let Some(bias) = op.bias
            && self.axes(bias) != [cols]
        {
            return Err(self.wrong(bias, format!("it must have one element for each of {cols} columns")));
        }
        let mut shape = lhs.to_vec();
        shape.pop();
        shape.push(cols);
        self.node(name, Shape::new(shape), Op::Matmul(op))
    }

    /// See [`Softmax`].
    ///
    /// # Errors
    /// [`Error::WrongShape`] for lengths, masks or biases of a shape that is not in the list, never a guess; otherwise as
    /// [`matmul`](Self::matmul).
    pub fn softmax(&mut self, name: &str, op: Softmax) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.scores), DType::F32)])?;
        self.reads_masks(name, [op.valid_lens, op.attend_mask, op.bias])?;
        let &[batch_heads, num_queries, columns] = self.axes(op.scores) else {
            return Err(self.wrong(op.scores, "scores must have shape (B·H, Lq, Lk)".into()));
        };
        let num_keys = columns.checked_sub(op.extra_keys);
        let (Some(num_keys), true) = (num_keys, op.num_heads > 0 && batch_heads % op.num_heads == 0) else {
            return Err(
                self.wrong(op.scores, format!("it must hold {} heads and {} extra keys", op.num_heads, op.extra_keys))
            );
        };
        let sizes = ScoreSizes { batch: batch_heads / op.num_heads, num_heads: op.num_heads, num_queries, num_keys };
        self.check_masks(sizes, [op.valid_lens, op.attend_mask, op.bias])?;
        let shape = self.shape(op.scores).clone();
        self.node(name, shape, Op::Softmax(op))
    }

    /// (B, L, H·d) → (B·H, L, d): D2L's `transpose_qkv`.
    ///
    /// # Errors
    /// [`Error::NotDivisible`] when the width is not a multiple of `num_heads`; otherwise as
    /// [`matmul`](Self::matmul).
    pub fn transpose_qkv(&mut self, name: &str, op: TransposeHeads) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.input), DType::F32)])?;
        let &[batch, length, width] = self.axes(op.input) else {
            return Err(self.wrong(op.input, "transpose_qkv needs shape (B, L, H·d)".into()));
        };
        if op.num_heads == 0 || width % op.num_heads != 0 {
            return Err(self.not_divisible("width", op.input, width, op.num_heads));
        }
        let batch_heads = checked_product(name, batch, op.num_heads)?;
        self.node(name, [batch_heads, length, width / op.num_heads].into(), Op::TransposeQkv(op))
    }

    /// (B·H, L, d) → (B, L, H·d): D2L's `transpose_output`.
    ///
    /// # Errors
    /// [`Error::NotDivisible`] when the first axis is not a multiple of `num_heads`; otherwise as
    /// [`matmul`](Self::matmul).
    pub fn transpose_output(&mut self, name: &str, op: TransposeHeads) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.input), DType::F32)])?;
        let &[batch_heads, length, head_dim] = self.axes(op.input) else {
            return Err(self.wrong(op.input, "transpose_output needs shape (B·H, L, d)".into()));
        };
        if op.num_heads == 0 || batch_heads % op.num_heads != 0 {
            return Err(self.not_divisible("first axis", op.input, batch_heads, op.num_heads));
        }
        let width = checked_product(name, op.num_heads, head_dim)?;
        self.node(name, [batch_heads / op.num_heads, length, width].into(), Op::TransposeOutput(op))
    }

    /// See [`Attention`].
    ///
    /// # Errors
    /// [`Error::WrongShape`] for columns that are not there, heads that do not divide them, lengths, masks or biases of a
    /// shape that is not in the list.
    pub fn attention(&mut self, name: &str, op: Attention) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.value.tensor), DType::F32)])?;
        self.reads_scores(name, &op.scores)?;
        let sizes = self.check_scores(&op.scores)?;
        let Scores { key, num_heads, num_kv_heads, .. } = op.scores;
        self.check_columns(op.value, num_kv_heads)?;
        if self.axes(op.value.tensor)[..2] != self.axes(key.tensor)[..2] {
            let expected =
                format!("it must have the batch and length of {} {}", self.name(key.tensor), self.shape(key.tensor));
            return Err(self.wrong(op.value.tensor, expected));
        }
        let joined = checked_product(name, num_heads, op.value.count / num_kv_heads)?;
        let with_statistics = || joined.checked_add(num_heads.checked_mul(2)?)?.checked_next_multiple_of(4);
        let width = if op.statistics { with_statistics().unwrap_or(usize::MAX) } else { joined };
        self.node(name, [sizes.batch, sizes.num_queries, width].into(), Op::Attention(op))
    }

    /// See [`AttentionWeights`].
    ///
    /// # Errors
    /// As [`attention`](Self::attention), of whose statistics the operand must be.
    pub fn attention_weights(&mut self, name: &str, op: AttentionWeights) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.attention), DType::F32)])?;
        self.reads_scores(name, &op.scores)?;
        let sizes = self.check_scores(&op.scores)?;
        let source = self.graph.values[op.attention.0].source;
        let has_statistics = match source {
            Source::Node(index) => {
                matches!(&self.graph.nodes[index].op, Op::Attention(attention) if attention.statistics)
            }
            _ => false,
        };
        if !has_statistics || self.axes(op.attention)[..2] != [sizes.batch, sizes.num_queries] {
            return Err(self.wrong(op.attention, "it must be the output of such an attention with statistics".into()));
        }
        let batch_heads = checked_product(name, sizes.batch, sizes.num_heads)?;
        let columns = sizes.num_keys + op.scores.extra_keys;
        self.node(name, [batch_heads, sizes.num_queries, columns].into(), Op::AttentionWeights(op))
    }

    /// See [`Pack`].
    ///
    /// # Errors
    /// [`Error::WrongShape`] where the parts do not fit beside each other.
    pub fn pack(&mut self, name: &str, op: Pack) -> Result<ValueId, Error> {
        self.reads(name, op.parts.iter().map(|part| (part.value, DType::F32)))?;
        let parts: Vec<_> = op.parts.iter().filter_map(|part| Some((part.value?, part.count))).collect();
        let Some(&(first, _)) = parts.first() else {
            return Err(Error::Missing {
                what: format!("what {name} is packed of"),
                hint: "name at least one parameter".into(),
            });
        };
        let inner = self.axes(first).get(1).copied();
        for (value, count) in parts {
            let axes = self.axes(value);
            if axes.first() != Some(&count) || axes.get(1).copied() != inner || axes.len() > 2 {
                return Err(
                    self.wrong(value, format!("it must have {count} rows, of the length of {}", self.name(first)))
                );
            }
        }
        let count = op.parts.iter().fold(0_usize, |sum, part| sum.saturating_add(part.count));
        let shape = inner.map_or(Shape::from([count]), |inner| Shape::from([inner, count]));
        self.node(name, shape, Op::Pack(op))
    }

    /// Sizes of a streaming op's scores, whose operands must fit.
    fn check_scores(&self, op: &Scores) -> Result<ScoreSizes, Error> {
        let Scores { query, key, num_heads, num_kv_heads, extra_keys, .. } = *op;
        self.check_columns(query, num_heads)?;
        self.check_columns(key, num_kv_heads)?;
        let [batch, num_queries] = [self.axes(query.tensor)[0], self.axes(query.tensor)[1]];
        let num_keys = self.axes(key.tensor)[1].checked_sub(extra_keys);
        let fits = self.axes(key.tensor)[0] == batch
            && num_heads % num_kv_heads == 0
            && query.count / num_heads == key.count / num_kv_heads;
        let (true, Some(num_keys)) = (fits, num_keys) else {
            let expected = format!(
                "it must hold {num_kv_heads} heads for the {num_heads} of {} {}",
                self.name(query.tensor),
                self.shape(query.tensor)
            );
            return Err(self.wrong(key.tensor, expected));
        };
        let sizes = ScoreSizes { batch, num_heads, num_queries, num_keys };
        self.check_masks(sizes, [op.valid_lens, op.attend_mask, op.bias])?;
        Ok(sizes)
    }

    fn check_columns(&self, columns: Columns, num_heads: usize) -> Result<(), Error> {
        let Columns { tensor, first, count } = columns;
        let fits = matches!(self.axes(tensor), &[_, _, width] if first.saturating_add(count) <= width);
        if fits && num_heads > 0 && count % num_heads == 0 {
            return Ok(());
        }
        Err(self.wrong(
            tensor,
            format!("{num_heads} heads are read from columns {first} to {} of it", first.saturating_add(count)),
        ))
    }

    fn check_masks(&self, sizes: ScoreSizes, [lens, mask, bias]: [Option<ValueId>; 3]) -> Result<(), Error> {
        if let Some(valid_lens) = lens {
            sizes.check_valid_lens(self.axes(valid_lens)).map_err(|expected| self.wrong(valid_lens, expected))?;
        }
        for mask in [mask, bias].into_iter().flatten() {
            sizes.mask_strides(self.axes(mask)).map_err(|expected| self.wrong(mask, expected))?;
        }
        Ok(())
    }

    /// See [`AppendKey`].
    ///
    /// # Errors
    /// As [`matmul`](Self::matmul).
    pub fn append_key(&mut self, name: &str, op: AppendKey) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.input), DType::F32), (Some(op.key), DType::F32)])?;
        let &[batch, length, width] = self.axes(op.input) else {
            return Err(self.wrong(op.input, "append_key needs shape (B, L, W)".into()));
        };
        if self.axes(op.key) != [1, 1, width] {
            return Err(self.wrong(
                op.key,
                format!("{} {} needs one of shape (1, 1, {width})", self.name(op.input), self.shape(op.input)),
            ));
        }
        self.node(name, [batch, length + 1, width].into(), Op::AppendKey(op))
    }

    /// See [`CopyStrided`]; the output is one row of elements, up to the last that is written.
    ///
    /// # Errors
    /// [`Error::WrongShape`] where the input ends before the last element that is read; otherwise as
    /// [`matmul`](Self::matmul).
    pub fn copy(&mut self, name: &str, op: CopyStrided) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.input), DType::F32)])?;
        check_size(name, &Shape::from(op.axes))?;
        let reach = |strides: [usize; 4]| span(&op.axes, &strides).unwrap_or(usize::MAX);
        let length = self.shape(op.input).checked_len().unwrap_or(0);
        if reach(op.from) > length {
            let expected = format!("strides {:?} over {:?} need {} elements", op.from, op.axes, reach(op.from));
            return Err(self.wrong(op.input, expected));
        }
        self.node(name, [reach(op.to)].into(), Op::Copy(op))
    }

    /// An input or a parameter.
    pub(super) fn given(&mut self, name: &str, shape: Shape, dtype: DType, source: Source) -> Result<ValueId, Error> {
        self.value(name, shape, dtype, source)
    }

    /// A node of a checked graph on the values of this one, which have the same shapes.
    pub(super) fn rebuild(&mut self, name: &str, op: &Op, ids: &[ValueId], shape: &Shape) -> Result<ValueId, Error> {
        self.node(name, shape.clone(), op.on(ids))
    }

    /// Reads a value's elements, which stay where they are, as another shape of as many.
    pub(super) fn reshaped(&mut self, id: ValueId, shape: Shape) -> ValueId {
        self.graph.values[id.0].shape = shape;
        id
    }

    /// The shape of a value built so far.
    ///
    /// # Panics
    /// If `id` comes from another, larger graph.
    #[must_use]
    pub fn shape(&self, id: ValueId) -> &Shape {
        &self.graph.values[id.0].shape
    }

    fn axes(&self, id: ValueId) -> &[usize] {
        self.shape(id).axes()
    }

    fn name(&self, id: ValueId) -> &str {
        &self.graph.values[id.0].name
    }

    fn wrong(&self, id: ValueId, expected: String) -> Error {
        Error::WrongShape { what: self.name(id).into(), got: self.shape(id).clone(), expected }
    }

    fn not_divisible(&self, axis: &str, id: ValueId, value: usize, num_heads: usize) -> Error {
        Error::NotDivisible {
            what: format!("the {axis} of {}", self.name(id)),
            value,
            divisor_name: "num_heads".into(),
            divisor: num_heads,
        }
    }

    /// Checks that what the node `name` is to read is of this graph and of the type that its op computes with.
    pub(super) fn reads(
        &self,
        name: &str,
        operands: impl IntoIterator<Item = (Option<ValueId>, DType)>,
    ) -> Result<(), Error> {
        for (id, needed) in operands {
            let Some(id) = id else { continue };
            let value = self.graph.values.get(id.0).ok_or_else(|| {
                let num_values = self.graph.values.len();
                Error::Invalid(format!(
                    "{name} would read value {} of a graph that has {num_values}; the value is of another graph",
                    id.0
                ))
            })?;
            if value.dtype != needed {
                let read = &value.name;
                return Err(Error::Invalid(format!(
                    "{name} would read {read} as {needed}, but {read} is {}",
                    value.dtype
                )));
            }
        }
        Ok(())
    }

    fn reads_scores(&self, name: &str, op: &Scores) -> Result<(), Error> {
        self.reads(name, [op.query, op.key].map(|columns| (Some(columns.tensor), DType::F32)))?;
        self.reads_masks(name, [op.valid_lens, op.attend_mask, op.bias])
    }

    fn reads_masks(&self, name: &str, [lens, mask, bias]: [Option<ValueId>; 3]) -> Result<(), Error> {
        self.reads(name, [(lens, DType::U32), (mask, DType::Bool), (bias, DType::F32)])
    }

    pub(super) fn node(&mut self, name: &str, shape: Shape, op: Op) -> Result<ValueId, Error> {
        let output = self.value(name, shape, DType::F32, Source::Node(self.graph.nodes.len()))?;
        self.graph.nodes.push(Node { op, output });
        Ok(output)
    }

    fn value(&mut self, name: &str, shape: Shape, dtype: DType, source: Source) -> Result<ValueId, Error> {
        if self.graph.values.iter().any(|value| value.name == name) {
            return Err(Error::Invalid(format!("the graph already has a value named \"{name}\"")));
        }
        check_size(name, &shape)?;
        self.graph.values.push(Value { name: name.into(), shape, dtype, source });
        Ok(ValueId(self.graph.values.len() - 1))
    }
}

/// No axis is as long. Positions are compared as i32 sums of a row and a band, so none may reach the band's far end.
const FAR: usize = KeyBand::FAR.unsigned_abs() as usize;

/// Refuses what cannot be counted or indexed.
fn check_size(name: &str, shape: &Shape) -> Result<(), Error> {
    let longest = shape.axes().iter().copied().max().unwrap_or(0);
    if shape.checked_len().is_none_or(|len| len > isize::MAX as usize / 8) {
        let sentence = format!("{name} {shape} has more elements than can be counted; cut the sequences into pieces");
        return Err(Error::Invalid(sentence));
    }
    if longest >= FAR {
        return Err(Error::LimitExceeded {
            what: format!("{name} {shape}"),
            need: longest as u64,
            have: FAR as u64 - 1,
            unit: "elements along one axis",
            limit: "the longest that can be indexed".into(),
            hint: "cut the sequences into pieces".into(),
        });
    }
    Ok(())
}

/// `a · b`, or a sentence about `name`.
fn checked_product(name: &str, a: usize, b: usize) -> Result<usize, Error> {
    a.checked_mul(b).ok_or_else(|| Error::Invalid(format!("{name} would have an axis of {a}·{b} elements")))
}

/// The four sizes that masks are measured against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoreSizes {
    pub(crate) batch: usize,
    pub(crate) num_heads: usize,
    pub(crate) num_queries: usize,
    pub(crate) num_keys: usize,
}

impl ScoreSizes {
    /// `Err` ends the sentence "`valid_lens` has shape …, but".
    fn check_valid_lens(self, axes: &[usize]) -> Result<(), String> {
        let Self { batch, num_queries, .. } = self;
        if axes == [batch] || axes == [batch, num_queries] {
            return Ok(());
        }
        Err(format!("must have shape (B,) = ({batch},) or (B, Lq) = ({batch}, {num_queries})"))
    }

    /// Where elements of a mask of these axes lie; `Err` ends the sentence "`attend_mask` has shape …, but".
    pub(crate) fn mask_strides(self, axes: &[usize]) -> Result<MaskStrides, String> {
        let Self { batch, num_heads, num_queries, num_keys } = self;
        let map = num_queries * num_keys;
        match *axes {
            [q, k] if [q, k] == [num_queries, num_keys] => Ok(MaskStrides { batch: 0, head: 0 }),
            [b, q, k] if [b, q, k] == [batch, num_queries, num_keys] => Ok(MaskStrides { batch: map, head: 0 }),
            [b, h, q, k]
                if (b == 1 || b == batch) && (h == 1 || h == num_heads) && [q, k] == [num_queries, num_keys] =>
            {
                Ok(MaskStrides { batch: if b == 1 { 0 } else { h * map }, head: if h == 1 { 0 } else { map } })
            }
            _ => Err(format!(
                "must have shape (Lq, Lk), (B, Lq, Lk) or (1|B, 1|H, Lq, Lk) with B = {batch}, H = {num_heads}, Lq = {num_queries}, Lk = {num_keys}"
            )),
        }
    }
}

impl Graph {
    /// The strides of a mask of checked shape.
    pub(crate) fn mask_strides(&self, sizes: ScoreSizes, mask: ValueId) -> MaskStrides {
        sizes.mask_strides(self.value(mask).shape.axes()).expect("the builder should have checked the mask")
    }

    /// What the masks of a softmax are measured against.
    pub(crate) fn softmax_sizes(&self, op: &Softmax) -> ScoreSizes {
        let &[batch_heads, num_queries, columns] = self.value(op.scores).shape.axes() else {
            unreachable!("the builder should have checked the scores");
        };
        let batch = batch_heads / op.num_heads;
        ScoreSizes { batch, num_heads: op.num_heads, num_queries, num_keys: columns - op.extra_keys }
    }

    /// What the masks of a streaming op are measured against.
    pub(crate) fn score_sizes(&self, op: &Scores) -> ScoreSizes {
        let length = |id: ValueId| self.value(id).shape.axes()[1];
        let batch = self.value(op.query.tensor).shape.axes()[0];
        let num_keys = length(op.key.tensor) - op.extra_keys;
        ScoreSizes { batch, num_heads: op.num_heads, num_queries: length(op.query.tensor), num_keys }
    }
}
