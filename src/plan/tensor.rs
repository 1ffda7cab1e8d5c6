//! Tensors in buffers of the user's.

use crate::error::Error;
use crate::graph::copy::span;
use crate::graph::{Graph, Value, ValueId};

/// A tensor in a buffer on the device, for an input, a parameter or an output that lies in the user's own memory.
///
/// Tensors may lie on each other where a run loses nothing by it: an output in the place of an input that has been
/// read for the last time before. The plan refuses the rest.
///
/// # Example
/// ```no_run
/// # fn of(buffer: &wgpu::Buffer) -> multihead::Tensor {
/// // (B, L, E) inside rows of 3·E, as a packed projection of query, key and value leaves them.
/// let [length, num_hiddens] = [128, 64];
/// multihead::Tensor::new(buffer).at(4096).with_strides([length * 3 * num_hiddens, 3 * num_hiddens, 1])
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    buffer: wgpu::Buffer,
    offset: u64,
    strides: Option<Vec<usize>>,
}

impl Tensor {
    /// A tensor without gaps from the first byte of a buffer on. The buffer needs the usage `STORAGE`, and must come from
    /// the device that the plan is compiled for. wgpu cannot tell a buffer of another `wgpu::Instance` from one of its
    /// own: it panics, or takes the wrong one.
    ///
    /// `valid_lens` are 32-bit unsigned integers there, which nobody checks: beyond Lk they hide no key. Truth values of
    /// `attend_mask` lie 32 to a word, lowest bit first.
    #[must_use]
    pub fn new(buffer: &wgpu::Buffer) -> Self {
        Self { buffer: buffer.clone(), offset: 0, strides: None }
    }

    /// The same, from this byte on, a multiple of 4.
    #[must_use]
    pub fn at(self, offset: u64) -> Self {
        Self { offset, ..self }
    }

    /// The same, with this many elements from one index of each axis to the next.
    ///
    /// Elements are then copied together (or, of an output, apart) by a dispatch of their own.
    #[must_use]
    pub fn with_strides(self, strides: impl Into<Vec<usize>>) -> Self {
        Self { strides: Some(strides.into()), ..self }
    }

    /// The buffer.
    #[must_use]
    pub fn buffer(&self) -> &wgpu::Buffer {
        &self.buffer
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn strides(&self) -> Option<&Vec<usize>> {
        self.strides.as_ref()
    }

    /// The end of the buffer, as far as whole words go.
    pub(super) fn end(&self) -> u64 {
        self.buffer.size() / 4 * 4
    }

    /// Checks that the buffer can hold a value where the tensor says.
    pub(super) fn check(&self, value: &Value) -> Result<(), Error> {
        let name = &value.name;
        if !self.buffer.usage().contains(wgpu::BufferUsages::STORAGE) {
            return Err(Error::Invalid(format!(
                "the buffer of {name} has usage {:?}, but a shader needs STORAGE",
                self.buffer.usage()
            )));
        }
        if !self.offset.is_multiple_of(4) {
            return Err(Error::OutOfRange {
                what: format!("the offset of {name}"),
                value: self.offset.to_string(),
                allowed: "must be a multiple of 4 bytes".into(),
            });
        }
        let elements = match &self.strides {
            Some(strides) => span(value.shape.axes(), strides).unwrap_or(usize::MAX),
            None => value.len(),
        };
        let need = self.offset.saturating_add(value.dtype.bytes(elements));
        if need > self.end() {
            return Err(Error::LimitExceeded {
                what: format!("{name} {} at byte {}", value.shape, self.offset),
                need,
                have: self.buffer.size(),
                unit: "bytes",
                limit: "its buffer".into(),
                hint: "make the buffer larger, or check offset and strides".into(),
            });
        }
        Ok(())
    }
}

/// The value of the user's tensor, which must be an input, a parameter or an output.
pub(super) fn value_named<'g>(graph: &'g Graph, name: &str) -> Result<(ValueId, &'g Value), Error> {
    let own = |id: ValueId, value: &Value| {
        !matches!(value.source, crate::graph::Source::Node(_)) || graph.outputs().contains(&id)
    };
    let mut named = graph.values().filter(|&(id, value)| own(id, value));
    named.find(|(_, value)| value.name == name).ok_or_else(|| {
        let names: Vec<_> =
            graph.values().filter(|&(id, value)| own(id, value)).map(|(_, v)| v.name.as_str()).collect();
        Error::Invalid(format!("the graph has no input, parameter or output \"{name}\"; it has {}", names.join(", ")))
    })
}
