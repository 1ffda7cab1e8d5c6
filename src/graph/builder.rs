//! Building a graph: every method checks the shapes it is given.

mod cached;
mod rewritten;

pub(crate) use cached::STATISTICS;

use super::copy::span;
use super::{
    AppendKey, Columns, CopyStrided, DType, Dropout, DropoutPattern, Graph, HeadColumns, KeyBand, Matmul, Node, Op,
    ProductHeads, ScoreSizes, Softmax, Source, TransposeHeads, Value, ValueId,
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
        self.matmul(name, Matmul { bias, transpose_rhs: true, ..Matmul::of(x, weight) })
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
        if op.heads != ProductHeads::default() && self.axes(op.rhs).len() != 3 {
            return Err(self.wrong(op.rhs, "it must have three axes where heads are multiplied side by side".into()));
        }
        let [lhs, rhs] = [self.matrices(op.lhs, op.heads.lhs)?, self.matrices(op.rhs, op.heads.rhs)?];
        let (inner, cols) = match (&rhs[..], op.transpose_rhs) {
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
        if let [batch, _, _] = rhs[..]
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
        let mut shape = lhs;
        shape.pop();
        shape.push(cols);
        if let Some(num_heads) = op.heads.output {
            shape = self.joined(name, &op, &shape, num_heads)?;
        }
        self.node(name, Shape::new(shape), Op::Matmul(op))
    }

    /// Axes of the matrices that an operand of a product holds.
    fn matrices(&self, id: ValueId, heads: Option<HeadColumns>) -> Result<Vec<usize>, Error> {
        let Some(HeadColumns { first, num_heads, head_dim }) = heads else {
            return Ok(self.axes(id).to_vec());
        };
        let count = checked_product(self.name(id), num_heads, head_dim)?;
        self.check_columns(Columns { tensor: id, first, count }, num_heads)?;
        let axes = self.axes(id);
        Ok(vec![checked_product(self.name(id), axes[0], num_heads)?, axes[1], head_dim])
    }

    /// (B·H, M, N) as (B, M, H·N).
    fn joined(&self, name: &str, op: &Matmul, axes: &[usize], num_heads: usize) -> Result<Vec<usize>, Error> {
        match *axes {
            [batch_heads, rows, cols] if num_heads > 0 && batch_heads % num_heads == 0 => {
                Ok(vec![batch_heads / num_heads, rows, checked_product(name, num_heads, cols)?])
            }
            _ => {
                Err(self.wrong(op.lhs, format!("the product should be one of {num_heads} heads for each batch entry")))
            }
        }
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

    /// See [`Dropout`].
    ///
    /// # Errors
    /// As [`matmul`](Self::matmul).
    pub fn dropout(&mut self, name: &str, op: Dropout) -> Result<ValueId, Error> {
        self.reads(name, [(Some(op.weights), DType::F32)])?;
        self.reads_pattern(name, Some(op.pattern))?;
        if !matches!(*self.axes(op.weights), [batch_heads, _, _] if op.num_heads > 0 && batch_heads % op.num_heads == 0)
        {
            return Err(
                self.wrong(op.weights, format!("weights must have shape (B·H, Lq, Lk) with {} heads", op.num_heads))
            );
        }
        let shape = self.shape(op.weights).clone();
        self.node(name, shape, Op::Dropout(op))
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

    fn reads_masks(&self, name: &str, [lens, mask, bias]: [Option<ValueId>; 3]) -> Result<(), Error> {
        self.reads(name, [(lens, DType::U32), (mask, DType::Bool), (bias, DType::F32)])
    }

    /// Checks the words that say which weights are dropped.
    pub(super) fn reads_pattern(&self, name: &str, pattern: Option<ValueId>) -> Result<(), Error> {
        self.reads(name, [(pattern, DType::U32)])?;
        match pattern {
            Some(pattern) if self.axes(pattern) != [DropoutPattern::WORDS] => {
                Err(self.wrong(pattern, format!("a dropout pattern is {} words", DropoutPattern::WORDS)))
            }
            _ => Ok(()),
        }
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

    pub(super) fn node(&mut self, name: &str, shape: Shape, op: Op) -> Result<ValueId, Error> {
        let dtype = op.in_place().map_or(DType::F32, |operand| self.graph.values[operand.0].dtype);
        let output = self.value(name, shape, dtype, Source::Node(self.graph.nodes.len()))?;
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
    // A host's memory has no place for more, 8 bytes each; in a browser that is 2 GiB.
    let most = isize::MAX as usize / 8;
    if shape.checked_len().is_none_or(|len| len > most) {
        return Err(Error::LimitExceeded {
            what: format!("{name} {shape}"),
            need: shape.axes().iter().fold(1, |product, &axis| u64::saturating_mul(product, axis as u64)),
            have: most as u64,
            unit: "elements",
            limit: "the most that can be counted".into(),
            hint: "cut the sequences into pieces".into(),
        });
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
