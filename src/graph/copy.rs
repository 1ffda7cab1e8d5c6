//! Strided copies: how a tensor that lies with gaps in somebody's buffer enters and leaves a graph.

use std::collections::BTreeMap;
use std::ops::Range;

use super::footprint::Block;
use super::{DType, Graph, GraphBuilder, Op, Scores, Source, ValueId};
use crate::error::Error;
use crate::shape::Shape;

/// `output[Σ iₐ·to[a]] = input[Σ iₐ·from[a]]` for every index of up to four axes.
///
/// What the output's strides leave out is not written. A plan adds such nodes where the user's tensors have strides.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyStrided {
    /// Any shape; read as one row of elements.
    pub input: ValueId,
    /// The sizes of four axes, outermost first; unused ones are 1.
    pub axes: [usize; 4],
    /// Elements of the input from one index of an axis to the next; 0 repeats.
    pub from: [usize; 4],
    /// Elements of the output from one index of an axis to the next.
    pub to: [usize; 4],
}

impl CopyStrided {
    /// The smallest range around the elements that a block of indices touches on one side.
    pub(super) fn footprint(&self, strides: [usize; 4], block: &Block) -> Range<usize> {
        let [_, _, inner, cols] = self.axes;
        if inner == 0 || cols == 0 {
            return 0..0;
        }
        let first = block.batches.start * strides[0] + block.rows.start * strides[1];
        let last = (block.batches.end - 1) * strides[0] + (block.rows.end - 1) * strides[1];
        first..last + (inner - 1) * strides[2] + (cols - 1) * strides[3] + 1
    }
}

/// How many elements lie between the first and the last of a strided tensor, both counted; `None` if that overflows.
pub(crate) fn span(axes: &[usize], strides: &[usize]) -> Option<usize> {
    if axes.contains(&0) {
        return Some(0);
    }
    let reach = axes.iter().zip(strides).map(|(&axis, &stride)| (axis - 1).checked_mul(stride));
    reach.into_iter().try_fold(1_usize, |sum, reach| sum.checked_add(reach?))
}

/// The strides of a tensor without gaps.
pub(crate) fn dense_strides(axes: &[usize]) -> Vec<usize> {
    let mut strides = vec![1_usize; axes.len()];
    for axis in (1..axes.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(axes[axis]);
    }
    strides
}

/// Whether no two indices share an element: each axis steps over all that the smaller steps reach.
fn is_injective(axes: &[usize], strides: &[usize]) -> bool {
    let mut steps: Vec<_> = axes.iter().zip(strides).filter(|(axis, _)| **axis > 1).collect();
    steps.sort_by_key(|(_, stride)| **stride);
    let mut reach = 1;
    for (&axis, &stride) in steps {
        if stride < reach {
            return false;
        }
        reach = stride.saturating_mul(axis - 1).saturating_add(reach);
    }
    true
}

/// Four numbers: all but the last in front, where work is split, the last one at the end, `fill` between.
fn padded(numbers: &[usize], fill: usize) -> [usize; 4] {
    let mut all = [fill; 4];
    if let [leading @ .., last] = numbers {
        all[..leading.len()].copy_from_slice(leading);
        all[3] = *last;
    }
    all
}

impl Graph {
    /// The same graph, but with the named inputs, parameters and outputs lying strided in a row of elements: inputs are
    /// copied together before they are used, outputs apart after they are computed.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a name that the graph does not have, strides that are not one for each of at most four
    /// axes, or output strides by which elements would fall on each other.
    pub(crate) fn with_strides(&self, strides: &BTreeMap<String, Vec<usize>>) -> Result<Self, Error> {
        self.check_outputs()?;
        for (name, strides) in strides {
            self.check_strides(name, strides)?;
        }
        let mut builder = GraphBuilder::new();
        let mut ids: Vec<ValueId> = Vec::new();
        let mut outputs: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        for (id, value) in self.values() {
            let strides = strides.get(&value.name);
            let axes = value.shape.axes();
            let dense = format!("{}.dense", value.name);
            let new = match (value.source, strides) {
                (Source::Node(index), None) => {
                    builder.rebuild(&value.name, &self.nodes()[index].op, &ids, &value.shape)?
                }
                (Source::Node(index), Some(strides)) => {
                    let input = builder.rebuild(&dense, &self.nodes()[index].op, &ids, &value.shape)?;
                    let copy = copy(input, axes, &dense_strides(axes), strides);
                    outputs.insert(id, builder.copy(&value.name, copy)?);
                    input
                }
                (source, None) => builder.given(&value.name, value.shape.clone(), value.dtype, source)?,
                (source, Some(strides)) => {
                    let row = Shape::from([span(axes, strides).unwrap_or(usize::MAX)]);
                    let input = builder.given(&value.name, row, value.dtype, source)?;
                    // An output that is given lies where it is given.
                    outputs.insert(id, input);
                    let copied = builder.copy(&dense, copy(input, axes, strides, &dense_strides(axes)))?;
                    builder.reshaped(copied, value.shape.clone())
                }
            };
            ids.push(new);
        }
        let finished: Vec<_> = self.outputs().iter().map(|id| outputs.get(id).copied().unwrap_or(ids[id.0])).collect();
        Ok(builder.finish(&finished))
    }

    fn check_strides(&self, name: &str, strides: &[usize]) -> Result<(), Error> {
        let found = self.values().find(|(id, value)| {
            value.name == name && (!matches!(value.source, Source::Node(_)) || self.outputs().contains(id))
        });
        let Some((_, value)) = found else {
            return Err(Error::Invalid(format!(
                "the graph has no input, parameter or output \"{name}\" to be strided"
            )));
        };
        if value.dtype != DType::F32 {
            let sentence =
                format!("{name} is {}, and only {} can be strided; give it without gaps", value.dtype, DType::F32);
            return Err(Error::Invalid(sentence));
        }
        let axes = value.shape.axes();
        if strides.len() != axes.len() || axes.len() > 4 {
            return Err(Error::Invalid(format!(
                "{name} {} has strides {strides:?}, but needs one for each of at most four axes",
                value.shape
            )));
        }
        if matches!(value.source, Source::Node(_)) && !is_injective(axes, strides) {
            return Err(Error::Invalid(format!(
                "{name} {} would be written with strides {strides:?}, by which elements fall on each other",
                value.shape
            )));
        }
        Ok(())
    }
}

fn copy(input: ValueId, axes: &[usize], from: &[usize], to: &[usize]) -> CopyStrided {
    CopyStrided { input, axes: padded(axes, 1), from: padded(from, 0), to: padded(to, 0) }
}

impl Op {
    /// The same op on other values.
    pub(super) fn on(&self, ids: &[ValueId]) -> Self {
        let mut op = self.clone();
        let all: Vec<&mut ValueId> = match &mut op {
            Self::Matmul(op) => [&mut op.lhs, &mut op.rhs].into_iter().chain(&mut op.bias).collect(),
            Self::Softmax(op) => std::iter::once(&mut op.scores)
                .chain(&mut op.valid_lens)
                .chain(&mut op.attend_mask)
                .chain(&mut op.bias)
                .collect(),
            Self::Dropout(op) => vec![&mut op.weights, &mut op.pattern],
            Self::TransposeQkv(op) | Self::TransposeOutput(op) => vec![&mut op.input],
            Self::Attention(op) => {
                let mut all = op.scores.values_mut();
                all.push(&mut op.value.tensor);
                all.extend(&mut op.dropout);
                all
            }
            Self::AttentionWeights(op) => {
                let mut all = op.scores.values_mut();
                all.push(&mut op.attention);
                all
            }
            Self::PartialAttention(op) => {
                let mut all = op.scores.values_mut();
                all.push(&mut op.value.tensor);
                all.extend(&mut op.lengths);
                all.extend(&mut op.dropout);
                all
            }
            Self::MergePartials(op) => vec![&mut op.partials],
            Self::AppendRows(op) => vec![&mut op.cache, &mut op.rows.tensor, &mut op.lengths],
            Self::AppendKey(op) => vec![&mut op.input, &mut op.key],
            Self::Pack(op) => op.parts.iter_mut().filter_map(|part| part.value.as_mut()).collect(),
            Self::Copy(op) => vec![&mut op.input],
            Self::Custom(op) => op.inputs.iter_mut().collect(),
        };
        for id in all {
            *id = ids[id.0];
        }
        op
    }
}

impl Scores {
    fn values_mut(&mut self) -> Vec<&mut ValueId> {
        let masks = self.valid_lens.iter_mut().chain(&mut self.attend_mask).chain(&mut self.bias);
        [&mut self.query.tensor, &mut self.key.tensor].into_iter().chain(masks).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_count_from_the_first_to_the_last_element() {
        assert_eq!(span(&[2, 3], &[10, 1]), Some(13));
        assert_eq!(span(&[2, 0], &[10, 1]), Some(0));
        assert_eq!(span(&[usize::MAX, 2], &[usize::MAX, 1]), None);
        assert_eq!(dense_strides(&[2, 3, 4]), [12, 4, 1]);
    }

    #[test]
    fn lengths_and_truth_values_cannot_be_strided() {
        for dtype in [DType::U32, DType::Bool] {
            let mut builder = GraphBuilder::new();
            let input = builder.input("x", [2], dtype).unwrap();
            let op = CopyStrided { input, axes: [2, 1, 1, 1], from: [1, 0, 0, 0], to: [1, 0, 0, 0] };
            assert!(builder.copy("copied", op).is_err());
            let error = builder.finish(&[]).with_strides(&[("x".to_owned(), vec![2])].into()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("x is {dtype}")), "{error}");
        }
    }

    #[test]
    fn strides_by_which_elements_fall_on_each_other_are_seen() {
        assert!(is_injective(&[2, 3], &[3, 1]));
        assert!(is_injective(&[2, 3], &[1, 2]));
        assert!(is_injective(&[1, 3], &[0, 5]));
        assert!(!is_injective(&[2, 3], &[2, 1]));
        assert!(!is_injective(&[2, 3], &[0, 1]));
    }
}
