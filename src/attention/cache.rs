//! Keys and values that stay on the device from call to call.

mod store;

use std::sync::Arc;

use super::config::at_least_one;
use super::layer::LayerMark;
use super::{HeadSizes, MultiHeadAttention};
use crate::device::Device;
use crate::error::Error;
use crate::graph::DType;

pub(super) use store::{Kept, Store};

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
    /// 16-bit floats, to the nearest of which keys and values are rounded (ties to even): half the bytes. What is
    /// 65,520 or larger becomes infinite: such a value makes infinities or NaN, such a key makes every row NaN that sees it.
    /// Numbers below 2⁻¹⁴ keep fewer digits, and below 2⁻²⁵ become 0.
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
    pub(super) layer: LayerMark,
}

/// The width of a head in a cache: the next multiple of four. [`MultiHeadAttention::step_sizes`] lets no width in for which
/// there is none.
pub(super) fn padded(width: usize) -> usize {
    width.next_multiple_of(4)
}

impl KvCache {
    async fn new(device: &Device, options: &CacheOptions, sizes: HeadSizes, layer: LayerMark) -> Result<Self, Error> {
        at_least_one("the batch of a cache", options.batch)?;
        at_least_one("the capacity of a cache", options.capacity)?;
        let shapes = [sizes.head_dim, sizes.value_dim].map(|width| shape(options, sizes.num_kv_heads, width));
        let store = Store::new(device, options, shapes).await?;
        Ok(Self { options: *options, sizes, store, lengths: vec![0; options.batch], mark: Arc::new(()), layer })
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
    /// refuses: `to` is then empty, as it is where the future is dropped before it is ready.
    pub async fn copy_entry(&mut self, from: usize, to: usize) -> Result<(), Error> {
        self.check_entry(from)?;
        self.check_entry(to)?;
        if from == to {
            return Ok(());
        }
        // Whoever stops waiting may leave anything there.
        self.lengths[to] = 0;
        self.store.copy_entry([from, to], self.lengths[from], &self.options).await?;
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
    /// A cache for this layer and its clones, empty. Another layer is refused even if it is equal: the layers of a
    /// transformer have the same sizes, and keys of one mean nothing to the next. Of `shape` only the widths matter, from
    /// which those of the heads follow.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a batch or a capacity of 0, [`Error::Invalid`] for a layer with a learned key
    /// (`bias_k`), [`Error::LimitExceeded`] with the numbers where the device has no such buffer, or its shaders cannot see
    /// a whole sequence; otherwise as [`sizes`](Self::sizes).
    pub async fn cache(
        &self,
        device: &Device,
        options: &CacheOptions,
        shape: &super::StepShape,
    ) -> Result<KvCache, Error> {
        KvCache::new(device, options, self.step_sizes(options.batch, shape)?, self.mark()).await
    }
}

/// (B, capacity, G · width of a head with its zeros).
pub(super) fn shape(options: &CacheOptions, num_kv_heads: usize, width: usize) -> [usize; 3] {
    [options.batch, options.capacity, num_kv_heads.saturating_mul(padded(width))]
}
