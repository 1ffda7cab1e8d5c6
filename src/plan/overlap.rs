//! Tensors of the user's that lie on each other in one buffer: whether the schedule lets them.

use std::ops::Range;

use super::Tensor;
use super::program::Dispatch;
use crate::error::Error;
use crate::graph::copy::{dense_strides, span};
use crate::graph::{DType, Graph, Source, Value, ValueId};

/// A tensor of the user's: the value of the compiled graph, and its axes as the user sees them.
pub(super) struct Laid<'a> {
    pub(super) id: ValueId,
    pub(super) tensor: &'a Tensor,
    /// In the graph before strides were copied.
    pub(super) value: &'a Value,
}

/// Refuses tensors that one run would read or give back after another one was written over them.
///
/// In place is right where nothing reads what was there any more: the output where the query was.
pub(super) fn check(graph: &Graph, dispatches: &[Dispatch], laid: &[Laid<'_>]) -> Result<(), Error> {
    let times = Times { graph, dispatches };
    for (index, one) in laid.iter().enumerate() {
        for other in &laid[..index] {
            let lie_on_each_other = || one.tensor.buffer() == other.tensor.buffer() && overlap(one, other);
            if let Some(why) = times.conflict(one, other)
                && lie_on_each_other()
            {
                return Err(Error::Invalid(format!(
                    "{} at bytes {:?} and {} at bytes {:?} lie on each other in one buffer, but {why}; give each a place of its own",
                    other.value.name,
                    other.reach(),
                    one.value.name,
                    one.reach()
                )));
            }
        }
    }
    Ok(())
}

/// When a run reads and writes what.
struct Times<'a> {
    graph: &'a Graph,
    dispatches: &'a [Dispatch],
}

impl Times<'_> {
    fn first_written(&self, id: ValueId) -> Option<usize> {
        self.dispatches.iter().position(|dispatch| self.graph.nodes()[dispatch.node].output == id)
    }

    fn last_read(&self, id: ValueId) -> Option<usize> {
        let lies_there = |operand: ValueId| self.graph.resident(operand) == id;
        let operands = |dispatch: &Dispatch| self.graph.nodes()[dispatch.node].op.operands().into_iter().flatten();
        let reads = |dispatch: &Dispatch| operands(dispatch).any(lies_there);
        self.dispatches.iter().rposition(reads)
    }

    /// Why two tensors may not share bytes, if they may not.
    fn conflict(&self, one: &Laid<'_>, other: &Laid<'_>) -> Option<String> {
        let is_written = |laid: &Laid<'_>| matches!(self.graph.value(laid.id).source, Source::Node(_));
        match (is_written(one), is_written(other)) {
            (false, false) => None,
            (true, true) => Some("both are written".into()),
            (true, false) => self.overwritten(other, one),
            (false, true) => self.overwritten(one, other),
        }
    }

    /// Why `given` may not be written over by `written`.
    fn overwritten(&self, given: &Laid<'_>, written: &Laid<'_>) -> Option<String> {
        let first_written = self.first_written(written.id)?;
        let (given_name, written_name) = (&given.value.name, &written.value.name);
        if self.graph.value(given.id).source == Source::Parameter {
            return Some(format!("{given_name} is read by every run and {written_name} written by each"));
        }
        let is_output = self.graph.outputs().contains(&given.id);
        let is_read_later = self.last_read(given.id).is_some_and(|last| last >= first_written);
        (is_output || is_read_later).then(|| format!("{given_name} is needed after {written_name} is written"))
    }
}

/// More stretches than this are not looked at one by one.
const MOST_STRETCHES: usize = 1 << 20;

impl Laid<'_> {
    /// From the first byte to the last.
    fn reach(&self) -> Range<u64> {
        let axes = self.value.shape.axes();
        let elements = self.tensor.strides().map_or(Some(self.value.len()), |strides| span(axes, strides));
        let start = self.tensor.offset();
        start..start.saturating_add(self.value.dtype.bytes(elements.unwrap_or(usize::MAX)))
    }

    /// The bytes of its elements as stretches without gaps, in their order.
    fn stretches(&self) -> Vec<Range<u64>> {
        let axes = self.value.shape.axes();
        let dense = dense_strides(axes);
        let strides = self.tensor.strides().unwrap_or(&dense);
        if self.value.dtype == DType::Bool || self.value.is_empty() {
            return vec![self.reach()];
        }
        let mut steps: Vec<_> = axes.iter().zip(strides).filter(|(axis, _)| **axis > 1).collect();
        steps.sort_by_key(|(_, stride)| **stride);
        // The axes that leave no gaps make one stretch; the others repeat it.
        let mut length = 1;
        let gapless = steps.iter().take_while(|(axis, stride)| {
            let joins = **stride <= length;
            length += if joins { (**axis - 1) * **stride } else { 0 };
            joins
        });
        let gapless = gapless.count();
        let repeated = &steps[gapless..];
        let count = repeated.iter().try_fold(1_usize, |count, (axis, _)| count.checked_mul(**axis));
        if count.is_none_or(|count| count > MOST_STRETCHES) {
            return vec![self.reach()];
        }
        let mut starts = vec![0];
        for (axis, stride) in repeated {
            starts = starts.iter().flat_map(|start| (0..**axis).map(move |index| start + index * **stride)).collect();
        }
        starts.sort_unstable();
        let bytes = |elements: usize| self.tensor.offset() + self.value.dtype.bytes(elements);
        starts.into_iter().map(|start| bytes(start)..bytes(start + length)).collect()
    }
}

/// Whether two tensors of one buffer share a byte.
fn overlap(one: &Laid<'_>, other: &Laid<'_>) -> bool {
    let meet = |a: &Range<u64>, b: &Range<u64>| a.start.max(b.start) < a.end.min(b.end);
    if !meet(&one.reach(), &other.reach()) {
        return false;
    }
    let (ours, theirs) = (one.stretches(), other.stretches());
    let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
    while let (Some(a), Some(b)) = (ours.peek(), theirs.peek()) {
        if meet(a, b) {
            return true;
        }
        // Stretches of one tensor are equally long, so that the one that ends first meets nothing further on.
        if a.end <= b.end {
            ours.next()
        } else {
            theirs.next()
        };
    }
    false
}
