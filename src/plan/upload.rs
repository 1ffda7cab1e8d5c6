//! Host tensors as a device stores them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::graph::{DType, Graph, HostValue, Op, Value, ValueId};
use crate::reference::{Part, pack};

/// Words to a piece, where a buffer is filled piece by piece.
const PIECE: usize = 1 << 16;

/// Hands the tensors of values to the queue, each for the value's buffer.
pub(super) fn write_all(
    queue: &wgpu::Queue,
    buffers: &BTreeMap<ValueId, wgpu::Buffer>,
    given: &[(ValueId, &Value, HostValue<'_>)],
) {
    for (id, _, value) in given {
        write(queue, &buffers[id], *value);
    }
}

/// Hands a tensor's bytes to the queue.
fn write(queue: &wgpu::Queue, buffer: &wgpu::Buffer, value: HostValue<'_>) {
    match value {
        HostValue::F32(tensor) => queue.write_buffer(buffer, 0, bytemuck::cast_slice(tensor.data())),
        HostValue::U32(tensor) => queue.write_buffer(buffer, 0, bytemuck::cast_slice(tensor.data())),
        HostValue::Bool(tensor) => queue.write_buffer(buffer, 0, bytemuck::cast_slice(&packed(tensor.data()))),
        HostValue::F16(tensor) => queue.write_buffer(buffer, 0, bytemuck::cast_slice(&paired(tensor.data()))),
    }
}

/// What is known when a graph is compiled: its parameters, and what is packed of them.
pub(super) fn constants<'a>(
    graph: &Graph,
    parameters: &[(ValueId, &Value, HostValue<'a>)],
) -> Vec<(ValueId, Cow<'a, [f32]>)> {
    let given: BTreeMap<ValueId, &'a [f32]> = parameters
        .iter()
        .filter_map(|&(id, _, value)| match value {
            HostValue::F32(tensor) => Some((id, tensor.data())),
            HostValue::U32(_) | HostValue::Bool(_) | HostValue::F16(_) => None,
        })
        .collect();
    let packed = graph.nodes().iter().filter_map(|node| {
        let Op::Pack(op) = &node.op else { return None };
        let part = |id: Option<ValueId>| id.and_then(|id| given.get(&id).copied());
        let parts: Vec<_> = op.parts.iter().map(|of| Part { data: part(of.value), count: of.count }).collect();
        let axes = graph.value(node.output).shape.axes();
        let inner = if axes.len() == 2 { axes[0] } else { 1 };
        Some((node.output, Cow::Owned(pack(&parts, inner))))
    });
    packed.chain(given.iter().map(|(&id, &data)| (id, Cow::Borrowed(data)))).collect()
}

/// Hands a constant to the queue, rounded where its value is stored as halves.
pub(super) fn write_constant(queue: &wgpu::Queue, buffer: &wgpu::Buffer, dtype: DType, words: &[f32]) {
    if dtype == DType::F16 {
        let halves: Vec<_> = words.iter().map(|&word| half::f16::from_f32(word)).collect();
        queue.write_buffer(buffer, 0, bytemuck::cast_slice(&paired(&halves)));
    } else {
        queue.write_buffer(buffer, 0, bytemuck::cast_slice(words));
    }
}

/// Fills a buffer with one word.
pub(super) fn fill(queue: &wgpu::Queue, buffer: &wgpu::Buffer, word: u32) {
    let words = vec![word; PIECE];
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    let mut offset = 0;
    while offset < buffer.size() {
        let piece = (buffer.size() - offset).min(bytes.len() as u64);
        let end = usize::try_from(piece).expect("a piece should fit in memory");
        queue.write_buffer(buffer, offset, &bytes[..end]);
        offset += piece;
    }
}

/// Halves two to a word, lower half first.
fn paired(values: &[half::f16]) -> Vec<u32> {
    let bits = |value: Option<&half::f16>| value.map_or(0, |value| u32::from(value.to_bits()));
    values.chunks(2).map(|pair| bits(pair.first()) | bits(pair.get(1)) << 16).collect()
}

/// Truth values 32 to a word, lowest bit first.
fn packed(values: &[bool]) -> Vec<u32> {
    values
        .chunks(32)
        .map(|chunk| chunk.iter().enumerate().fold(0, |word, (bit, &value)| word | u32::from(value) << bit))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn truth_values_are_packed_lowest_bit_first() {
        let mut values = [false; 33];
        values[0] = true;
        values[5] = true;
        values[32] = true;
        assert_eq!(super::packed(&values), [0b10_0001, 1]);
    }
}
