//! Where a cache keeps its numbers.

use half::f16;
use half::vec::HalfBitsVecExt;

use super::{CacheOptions, CacheStorage};
use crate::device::Device;
use crate::error::Error;
use crate::gpu::Gpu;
use crate::shape::HostTensor;

/// Bytes that are copied from one batch entry to another at a time.
const MOST_BETWEEN: usize = 1 << 20;

/// Where the numbers are: keys, then values.
#[derive(Debug)]
pub(in crate::attention) enum Store {
    Gpu(Box<OnGpu>),
    Cpu([Kept; 2]),
}

/// Keys and values on a GPU.
#[derive(Debug)]
pub(in crate::attention) struct OnGpu {
    pub(in crate::attention) gpu: Gpu,
    pub(in crate::attention) buffers: [wgpu::Buffer; 2],
    /// Through which entries are copied, a part at a time; none where there is only one entry.
    between: Option<wgpu::Buffer>,
    /// Of one row of each.
    row_bytes: [u64; 2],
}

/// Keys or values in main memory, (B, capacity, G · width of a head with its zeros).
#[derive(Debug)]
pub(in crate::attention) enum Kept {
    F32(HostTensor),
    F16(HostTensor<f16>),
}

impl Store {
    /// Room for keys and values of these shapes, (B, capacity, G · width of a head with its zeros).
    pub(in crate::attention) async fn new(
        device: &Device,
        options: &CacheOptions,
        shapes: [[usize; 3]; 2],
    ) -> Result<Self, Error> {
        let [keys, values] = shapes;
        Ok(match device {
            Device::Gpu(gpu) => Self::Gpu(Box::new(OnGpu::new(gpu, options, shapes).await?)),
            Device::Cpu(_) => Self::Cpu([kept(options, keys)?, kept(options, values)?]),
        })
    }

    /// Copies the first `length` rows of an entry to another.
    pub(in crate::attention) async fn copy_entry(
        &mut self,
        entries: [usize; 2],
        length: usize,
        options: &CacheOptions,
    ) -> Result<(), Error> {
        match self {
            Self::Gpu(store) => store.copy_entry(entries, length, options.capacity).await?,
            Self::Cpu(kept) => kept.iter_mut().for_each(|kept| kept.copy_entry(entries, length, options.capacity)),
        }
        Ok(())
    }
}

/// Bytes of a tensor of the cache; a number that does not exist is more than any device has.
fn bytes(options: &CacheOptions, [batch, capacity, width]: [usize; 3]) -> Result<u64, Error> {
    let elements = batch.checked_mul(capacity).and_then(|rows| rows.checked_mul(width));
    elements.map(|elements| options.storage.dtype().bytes(elements)).ok_or_else(|| {
        Error::Invalid(format!(
            "a cache of {batch} sequences of {capacity} rows has more elements than can be counted; make it smaller"
        ))
    })
}

fn kept(options: &CacheOptions, shape: [usize; 3]) -> Result<Kept, Error> {
    let need = bytes(options, shape)?;
    let elements = shape.iter().product();
    Ok(match options.storage {
        CacheStorage::F32 => {
            check_room::<f32>(elements, need)?;
            Kept::F32(HostTensor::new(shape, vec![0.0; elements])?)
        }
        CacheStorage::F16 => {
            check_room::<u16>(elements, need)?;
            Kept::F16(HostTensor::new(shape, vec![0_u16; elements].reinterpret_into())?)
        }
    })
}

/// Whether the system grants so much. It is then asked again for zeros, of which it gives no page before something is
/// written there, and aborts the process where it has none: hence the question.
fn check_room<T>(elements: usize, bytes: u64) -> Result<(), Error> {
    Vec::<T>::new().try_reserve_exact(elements).map_err(|_| {
        Error::Invalid(format!(
            "a cache of {bytes} bytes is more memory than is left; make its batch or capacity smaller"
        ))
    })
}

async fn buffer(gpu: &Gpu, what: &str, bytes: u64) -> Result<wgpu::Buffer, Error> {
    use wgpu::BufferUsages as Usage;
    let have = gpu.profile().max_buffer_bytes;
    if bytes > have {
        return Err(Error::LimitExceeded {
            what: format!("a cache's {what}"),
            need: bytes,
            have,
            unit: "bytes",
            limit: format!("the largest buffer of \"{}\"", gpu.profile().name),
            hint: "make its batch or capacity smaller, store 16-bit floats, or compute on the CPU".into(),
        });
    }
    let label = format!("mha.cache {what} {bytes} bytes");
    let descriptor = wgpu::BufferDescriptor {
        label: Some(&label),
        // Windows that kernels read end at whole groups of four words.
        size: bytes.next_multiple_of(16),
        usage: Usage::STORAGE | Usage::COPY_SRC | Usage::COPY_DST,
        mapped_at_creation: false,
    };
    gpu.guarded(&label, |device| device.create_buffer(&descriptor)).await
}

/// A kernel goes through all rows of a sequence, which it has to see at once.
fn check_window(gpu: &Gpu, entry_bytes: u64) -> Result<(), Error> {
    let have = gpu.profile().max_binding_bytes;
    if entry_bytes <= have {
        return Ok(());
    }
    Err(Error::LimitExceeded {
        what: "one sequence of a cache".into(),
        need: entry_bytes,
        have,
        unit: "bytes",
        limit: format!("what a shader sees of a buffer on \"{}\"", gpu.profile().name),
        hint: "make its capacity smaller, store 16-bit floats, or compute on the CPU".into(),
    })
}

impl OnGpu {
    async fn new(gpu: &Gpu, options: &CacheOptions, shapes: [[usize; 3]; 2]) -> Result<Self, Error> {
        let [keys, values] = shapes.map(|shape| bytes(options, shape));
        let [keys, values] = [keys?, values?];
        let rows = (options.batch * options.capacity) as u64;
        let row_bytes = [keys / rows, values / rows];
        let entry_bytes = keys.max(values) / options.batch as u64;
        check_window(gpu, entry_bytes)?;
        let between = match options.batch {
            1 => None,
            _ => Some(buffer(gpu, "part of an entry", entry_bytes.min(MOST_BETWEEN as u64)).await?),
        };
        let buffers = [buffer(gpu, "keys", keys).await?, buffer(gpu, "values", values).await?];
        Ok(Self { gpu: gpu.clone(), buffers, between, row_bytes })
    }

    /// By way of a buffer between: WebGPU copies no buffer to itself.
    async fn copy_entry(&self, [from, to]: [usize; 2], length: usize, capacity: usize) -> Result<(), Error> {
        let Some(between) = &self.between else { return Ok(()) };
        let copy = |device: &wgpu::Device| {
            let descriptor = wgpu::CommandEncoderDescriptor { label: Some("multihead.copy_entry") };
            let mut encoder = device.create_command_encoder(&descriptor);
            for (buffer, row_bytes) in self.buffers.iter().zip(self.row_bytes) {
                let [from, to] = [from, to].map(|entry| (entry * capacity) as u64 * row_bytes);
                let all = length as u64 * row_bytes;
                for done in (0..all).step_by(MOST_BETWEEN) {
                    let bytes = (all - done).min(MOST_BETWEEN as u64);
                    encoder.copy_buffer_to_buffer(buffer, from + done, between, 0, bytes);
                    encoder.copy_buffer_to_buffer(between, 0, buffer, to + done, bytes);
                }
            }
            self.gpu.queue().submit([encoder.finish()]);
        };
        self.gpu.guarded("the copy of a cache's entry", copy).await
    }
}

impl Kept {
    fn copy_entry(&mut self, entries: [usize; 2], length: usize, capacity: usize) {
        fn copied<T: Copy>(tensor: &mut HostTensor<T>, [from, to]: [usize; 2], [length, capacity]: [usize; 2]) {
            let width = tensor.shape().axes()[2];
            let first = from * capacity * width;
            tensor.data_mut().copy_within(first..first + length * width, to * capacity * width);
        }
        match self {
            Self::F32(tensor) => copied(tensor, entries, [length, capacity]),
            Self::F16(tensor) => copied(tensor, entries, [length, capacity]),
        }
    }

    /// A copy of the first `rows` rows of each sequence.
    pub(in crate::attention) fn first_rows(&self, rows: usize) -> Result<Self, Error> {
        fn copied<T: Copy>(tensor: &HostTensor<T>, rows: usize) -> Result<HostTensor<T>, Error> {
            let &[batch, capacity, width] = tensor.shape().axes() else {
                unreachable!("a cache should have three axes");
            };
            let mut data = Vec::with_capacity(batch * rows * width);
            for entry in tensor.data().chunks_exact(capacity * width) {
                data.extend_from_slice(&entry[..rows * width]);
            }
            HostTensor::new([batch, rows, width], data)
        }
        Ok(match self {
            Self::F32(tensor) => Self::F32(copied(tensor, rows)?),
            Self::F16(tensor) => Self::F16(copied(tensor, rows)?),
        })
    }

    /// Puts `rows` (B, Lq, G · width of a head) where the lengths say, as `append_rows` does on a GPU.
    pub(in crate::attention) fn append(&mut self, rows: &HostTensor, num_heads: usize, lengths: &[[usize; 2]]) {
        match self {
            Self::F32(tensor) => append(tensor, rows, num_heads, lengths, |x| x),
            Self::F16(tensor) => append(tensor, rows, num_heads, lengths, f16::from_f32),
        }
    }
}

fn append<T: Copy>(
    cache: &mut HostTensor<T>,
    rows: &HostTensor,
    num_heads: usize,
    lengths: &[[usize; 2]],
    stored: impl Fn(f32) -> T,
) {
    let [capacity, width] = [cache.shape().axes()[1], cache.shape().axes()[2]];
    let [num_rows, row_width] = [rows.shape().axes()[1], rows.shape().axes()[2]];
    for (entry, &[before, added]) in lengths.iter().enumerate() {
        for row in 0..added {
            let to = (entry * capacity + before + row) * width;
            let from = (entry * num_rows + row) * row_width;
            let heads = cache.data_mut()[to..to + width].chunks_exact_mut(width / num_heads);
            // Behind a head its zeros stay.
            for (out, head) in heads.zip(rows.data()[from..from + row_width].chunks_exact(row_width / num_heads)) {
                out.iter_mut().zip(head).for_each(|(out, &x)| *out = stored(x));
            }
        }
    }
}
