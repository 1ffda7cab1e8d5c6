//! Keys and values that stay on the device from call to call.

use std::sync::Arc;

use half::f16;

use super::config::at_least_one;
use super::{HeadSizes, MultiHeadAttention};
use crate::device::Device;
use crate::error::Error;
use crate::gpu::Gpu;
use crate::graph::DType;
use crate::shape::HostTensor;

/// The size of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Sequences that grow together, B; at least 1.
    pub batch: usize,
    /// Rows that each of them can have; at least 1.
    pub capacity: usize,
    /// How numbers are stored.
    pub storage: CacheStorage,
}

/// How a cache stores numbers. They are computed with as 32-bit floats either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheStorage {
    /// 32-bit floats.
    #[default]
    F32,
    /// 16-bit floats, to the nearest of which keys and values are rounded (ties to even): half the bytes. What is larger
    /// than 65,504 becomes infinite.
    F16,
}

impl CacheStorage {
    pub(super) fn dtype(self) -> DType {
        match self {
            Self::F32 => DType::F32,
            Self::F16 => DType::F16,
        }
    }
}

/// The projected keys and values of B sequences on a device, each sequence with a length of its own.
///
/// Only key/value heads are kept: with G of them for H query heads, H/G times fewer bytes than with one for each. Memory is
/// taken once, for the whole capacity. [`MultiHeadAttention::compile_step`] makes the plan that appends to it and attends.
///
/// # Example
/// ```
/// use multihead::{
///     AttentionConfig, CacheOptions, CacheStorage, Device, DeviceChoice, HostTensor, MultiHeadAttention, StepInputs, StepShape,
/// };
/// // One head of width 1: with equal scores the output is the mean of the values so far.
/// let attention = MultiHeadAttention::core(AttentionConfig::new(1))?;
/// # pollster::block_on(async {
/// let device = Device::open(&DeviceChoice::Cpu).await?;
/// let options = CacheOptions { batch: 1, capacity: 4, storage: CacheStorage::F32 };
/// let shape = StepShape { key: Some(1), value: Some(1), ..StepShape::self_attention(1, 1) };
/// let mut cache = attention.cache(&device, &options, &shape).await?;
/// let step = attention.compile_step(&device, &cache, &shape).await?;
/// let row = |x| HostTensor::new([1, 1, 1], vec![x]);
/// for (value, mean) in [(1.0, 1.0), (2.0, 1.5), (4.0, 7.0 / 3.0), (8.0, 3.75)] {
///     let inputs = StepInputs { key: Some(row(0.0)?), value: Some(row(value)?), ..StepInputs::new(row(0.0)?) };
///     assert_eq!(step.run(&mut cache, &inputs).await?.output.data(), [mean]);
/// }
/// assert_eq!(cache.lengths(), [4]);
/// # Ok::<(), multihead::Error>(()) })?;
/// # Ok::<(), multihead::Error>(())
/// ```
#[derive(Debug)]
pub struct KvCache {
    pub(super) options: CacheOptions,
    pub(super) sizes: HeadSizes,
    pub(super) store: Store,
    pub(super) lengths: Vec<usize>,
    /// By which a plan knows its cache.
    pub(super) mark: Arc<()>,
}

/// Where the numbers are: keys, then values.
#[derive(Debug)]
pub(super) enum Store {
    Gpu(Box<OnGpu>),
    Cpu([Kept; 2]),
}

/// Keys and values on a GPU.
#[derive(Debug)]
pub(super) struct OnGpu {
    pub(super) gpu: Gpu,
    pub(super) buffers: [wgpu::Buffer; 2],
    /// One batch entry of each, through which entries are copied.
    between: [wgpu::Buffer; 2],
    entry_bytes: [u64; 2],
}

/// Keys or values in main memory, (B, capacity, G · width of a head with its zeros).
#[derive(Debug)]
pub(super) enum Kept {
    F32(HostTensor),
    F16(HostTensor<f16>),
}

/// The width of a head in a cache: the next multiple of four.
pub(super) fn padded(width: usize) -> usize {
    width.next_multiple_of(4)
}

impl KvCache {
    pub(super) async fn new(device: &Device, options: &CacheOptions, sizes: HeadSizes) -> Result<Self, Error> {
        at_least_one("the batch of a cache", options.batch)?;
        at_least_one("the capacity of a cache", options.capacity)?;
        let shapes = [sizes.head_dim, sizes.value_dim].map(|width| shape(options, sizes.num_kv_heads, width));
        let store = match device {
            Device::Gpu(gpu) => {
                let [keys, values] = shapes.map(|shape| bytes(options, shape));
                let [keys, values] = [keys?, values?];
                let entry_bytes = [keys, values].map(|bytes| bytes / options.batch as u64);
                Store::Gpu(Box::new(OnGpu {
                    gpu: gpu.clone(),
                    buffers: [buffer(gpu, "keys", keys).await?, buffer(gpu, "values", values).await?],
                    between: [
                        buffer(gpu, "keys of an entry", entry_bytes[0]).await?,
                        buffer(gpu, "values of an entry", entry_bytes[1]).await?,
                    ],
                    entry_bytes,
                }))
            }
            Device::Cpu(_) => {
                let [keys, values] = shapes.map(|shape| kept(options, shape));
                Store::Cpu([keys?, values?])
            }
        };
        Ok(Self { options: *options, sizes, store, lengths: vec![0; options.batch], mark: Arc::new(()) })
    }

    /// B.
    #[must_use]
    pub fn batch(&self) -> usize {
        self.options.batch
    }

    /// Rows that each sequence can have.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.options.capacity
    }

    /// Rows that each sequence has, (B,).
    #[must_use]
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// Bytes of all keys and values at full capacity: B · capacity · G · (d + dv), each head's width filled up to a multiple
    /// of four, times 4 or, as 16-bit floats, 2.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes_per_token().saturating_mul((self.options.batch * self.options.capacity) as u64)
    }

    /// Bytes that one row of one sequence takes.
    #[must_use]
    pub fn bytes_per_token(&self) -> u64 {
        let HeadSizes { num_kv_heads, head_dim, value_dim, .. } = self.sizes;
        self.options.storage.dtype().bytes(num_kv_heads * (padded(head_dim) + padded(value_dim)))
    }

    /// Forgets every row. Nothing is freed.
    pub fn reset(&mut self) {
        self.lengths.fill(0);
    }

    /// Forgets the rows of one sequence from `length` on.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a sequence that is not there, or a length beyond the one it has.
    pub fn truncate(&mut self, entry: usize, length: usize) -> Result<(), Error> {
        self.check_entry(entry)?;
        let have = self.lengths[entry];
        if length > have {
            return Err(Error::OutOfRange {
                what: "the length to truncate to".into(),
                value: length.to_string(),
                allowed: format!("must be at most the {have} rows that batch entry {entry} has"),
            });
        }
        self.lengths[entry] = length;
        Ok(())
    }

    /// Makes one sequence a copy of another: what beam search does when one hypothesis goes on in two ways.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a sequence that is not there; [`Error::Gpu`] and [`Error::DeviceLost`] where the device
    /// refuses.
    pub async fn copy_entry(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.check_entry(from)?;
        self.check_entry(to)?;
        if from == to {
            return Ok(());
        }
        let batch = self.options.batch;
        match &mut self.store {
            Store::Gpu(store) => store.copy_entry([from, to]).await?,
            Store::Cpu(kept) => kept.iter_mut().for_each(|kept| kept.copy_entry([from, to], batch)),
        }
        self.lengths[to] = self.lengths[from];
        Ok(())
    }

    fn check_entry(&self, entry: usize) -> Result<(), Error> {
        if entry < self.options.batch {
            return Ok(());
        }
        Err(Error::OutOfRange {
            what: "the batch entry".into(),
            value: entry.to_string(),
            allowed: format!("must be less than the cache's batch, {}", self.options.batch),
        })
    }
}

impl MultiHeadAttention {
    /// A cache for this layer, empty. Of `shape` only the widths matter, from which those of the heads follow.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a batch or a capacity of 0, [`Error::Invalid`] for a layer with a learned key
    /// (`bias_k`), [`Error::LimitExceeded`] with the numbers where the device has no such buffer; otherwise as
    /// [`sizes`](Self::sizes).
    pub async fn cache(
        &self,
        device: &Device,
        options: &CacheOptions,
        shape: &super::StepShape,
    ) -> Result<KvCache, Error> {
        KvCache::new(device, options, self.step_sizes(options.batch, shape)?).await
    }
}

/// (B, capacity, G · width of a head with its zeros).
pub(super) fn shape(options: &CacheOptions, num_kv_heads: usize, width: usize) -> [usize; 3] {
    [options.batch, options.capacity, num_kv_heads.saturating_mul(padded(width))]
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
    let too_large = |_| {
        Error::Invalid(format!(
            "a cache of {need} bytes is more memory than is left; make its batch or capacity smaller"
        ))
    };
    Ok(match options.storage {
        CacheStorage::F32 => {
            let mut data = Vec::new();
            data.try_reserve_exact(elements).map_err(too_large)?;
            data.resize(elements, 0.0);
            Kept::F32(HostTensor::new(shape, data)?)
        }
        CacheStorage::F16 => {
            let mut data = Vec::new();
            data.try_reserve_exact(elements).map_err(too_large)?;
            data.resize(elements, f16::ZERO);
            Kept::F16(HostTensor::new(shape, data)?)
        }
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

impl OnGpu {
    /// By way of buffers between: WebGPU copies no buffer to itself.
    async fn copy_entry(&self, [from, to]: [usize; 2]) -> Result<(), Error> {
        let copy = |device: &wgpu::Device| {
            let descriptor = wgpu::CommandEncoderDescriptor { label: Some("multihead.copy_entry") };
            let mut encoder = device.create_command_encoder(&descriptor);
            for ((buffer, between), bytes) in self.buffers.iter().zip(&self.between).zip(self.entry_bytes) {
                encoder.copy_buffer_to_buffer(buffer, from as u64 * bytes, between, 0, bytes);
                encoder.copy_buffer_to_buffer(between, 0, buffer, to as u64 * bytes, bytes);
            }
            self.gpu.queue().submit([encoder.finish()]);
        };
        self.gpu.guarded("the copy of a cache's entry", copy).await
    }
}

impl Kept {
    fn copy_entry(&mut self, [from, to]: [usize; 2], batch: usize) {
        fn copied<T: Copy>(tensor: &mut HostTensor<T>, [from, to]: [usize; 2], batch: usize) {
            let data = tensor.data_mut();
            let len = data.len() / batch;
            data.copy_within(from * len..(from + 1) * len, to * len);
        }
        match self {
            Self::F32(tensor) => copied(tensor, [from, to], batch),
            Self::F16(tensor) => copied(tensor, [from, to], batch),
        }
    }

    /// Puts `rows` (B, Lq, G · width of a head) where the lengths say, as `append_rows` does on a GPU.
    pub(super) fn append(&mut self, rows: &HostTensor, num_heads: usize, lengths: &[[usize; 2]]) {
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
