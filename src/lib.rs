//! Multi-head attention on any GPU, through WebGPU.
//!
//! One call takes query, key, value, projection weights and masks, computes softmax(scale · Q·Kᵀ)·V for all heads at
//! once, and gives back the output and, if asked for, each head's attention weights. It runs on a GPU through
//! [wgpu](https://docs.rs/wgpu), or on the CPU by the very code that the GPU is tested against. Names are those of
//! [*Dive into Deep Learning*][d2l] (D2L): `transpose_qkv`, `transpose_output`, `W_q`, `valid_lens`, `num_hiddens`.
//!
//! # A first call
//!
//! ```
//! use multihead::{
//!     AttentionConfig, AttentionInputs, Device, DeviceChoice, HostTensor, Linear, Mask, MultiHeadAttention, Weights,
//! };
//!
//! // E = 4, two heads of width 2. W (out, in) is the identity here: q = k = v = x.
//! let identity = HostTensor::new([4, 4], (0..16).map(|i| f32::from(u8::from(i % 5 == 0))).collect())?;
//! let linear = || Linear { weight: identity.clone(), bias: None };
//! let weights = Weights { w_q: linear(), w_k: linear(), w_v: linear(), w_o: linear(), bias_k: None, bias_v: None };
//! let attention = MultiHeadAttention::new(AttentionConfig::new(2), weights)?;
//!
//! let x = HostTensor::new([1, 3, 4], vec![1.0, 0.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0])?; // (B, L, E)
//! let mask = Mask { causal: true, ..Mask::default() };
//! let inputs = AttentionInputs { mask, ..AttentionInputs::self_attention(x) };
//!
//! # pollster::block_on(async {
//! let device = Device::open(&DeviceChoice::Cpu).await?; // Auto: the best adapter; without one, the CPU
//! let result = attention.run_with_weights(&device, &inputs).await?;
//! assert_eq!(result.output.shape(), &[1, 3, 4]); // (B, Lq, E)
//! let maps = result.attention_weights.expect("they were asked for"); // (B, H, Lq, Lk)
//! assert_eq!(maps.data()[..3], [1.0, 0.0, 0.0]); // the first query sees only the first key
//! # Ok::<(), multihead::Error>(()) })?;
//! # Ok::<(), multihead::Error>(())
//! ```
//!
//! [`MultiHeadAttention::compile`] prepares a call once, to be run again and again with inputs of the same shapes and
//! masks of the same kinds. [`MultiHeadAttention::core`] is attention without projections. [`io::weights_from_file`]
//! reads the weights of a layer from a model's own file, [`Case::open`] a whole call with its answer.
//!
//! # What a call goes through
//!
//! 1. [`AttentionConfig`], [`Weights`], [`AttentionInputs`] and [`Mask`] say what is wanted. [`MultiHeadAttention`]
//!    checks that they fit each other: [`HeadSizes`].
//! 2. [`MultiHeadAttention::graph`] makes a [`Graph`] of them: `matmul` three times (projections), `transpose_qkv`
//!    three times, `matmul` (q·kᵀ), `softmax` (scale, bias, everything that hides keys), `matmul` (weights·v),
//!    `transpose_output`, `matmul` (`W_o`). A graph is a value: `println!("{graph}")` shows it.
//! 3. On a GPU, a [`Plan`] compiles the graph: it rewrites it into fewer ops ([`Rewriting`]: packed projections, an attention
//!    that streams over the keys and stores no score), cuts into blocks what exceeds the device's limits, chooses a
//!    [kernel](kernels) for each block by the [`DeviceProfile`], lets values share buffers where their lives do not
//!    overlap, binds everything. [`PlanSummary`] tells the same without a device. On the CPU, [`reference::interpret`]
//!    works the graph off by the same schedule.
//! 4. A run uploads the inputs, records one compute pass, submits it, in parts where it takes long, and reads back once.
//!    [`AttentionOutput`] has the output, the weights and the times; [`Plan::profile`] says what each dispatch took.
//!
//! # Token by token
//!
//! [`MultiHeadAttention::cache`] makes a [`KvCache`], [`MultiHeadAttention::compile_step`] the [`StepPlan`] that appends new
//! rows to it and lets them attend: one plan for all steps, for lengths are data. The example `decode` shows it.
//!
//! # What heads do
//!
//! [`experiments`] makes the claims of D2L §10.3 into numbers, and surveys every head of a model; the [guide] tells the
//! story with the commands. [`MultiHeadAttention::run_by_head`] gives what each head adds to an output.
//!
//! # In your own wgpu program
//!
//! [`Gpu::adopt`] takes your device; [`PlanOptions::tensors`] says which inputs, parameters and outputs lie in your
//! buffers ([`Tensor`]: offset, strides); [`MultiHeadAttention::plan`] compiles a [`CallShape`] to a [`Plan`], and
//! [`Plan::encode`] records it into your encoder. A kernel of your own is a node of the graph:
//! [`GraphBuilder::custom`]. The examples `your_device` and `your_own_kernel` show both.
//!
//! # Floors
//!
//! A module uses only floors below its own; `tests/architecture.rs` reads the source and checks it.
//!
//! | floor | modules | |
//! |---|---|---|
//! | 9 | the program; `web`, on wasm only | command line; what the npm package calls; on the public API alone |
//! | 8 | [`experiments`] | the experiments of the [guide]; a survey of heads |
//! | 7 | [`plot`]; [`tuning`] | pictures of attention maps, charts, pages; a measured choice among kernels |
//! | 6 | [`io`], [`heads`] | case files, weight layouts; statistics of heads, patterns, labelled links, pruning |
//! | 5 | [`attention`] | configuration, weights, masks; from them graphs and answers |
//! | 4 | `plan`: [`Plan`], [`PlanSummary`] | a graph compiled for a device |
//! | 3 | [`kernels`]; `device`: [`Device`] | one Rust file for each family of shaders; a GPU or the CPU |
//! | 2 | [`reference`](mod@reference); `gpu`: [`Gpu`], [`DeviceProfile`] | every op in plain Rust; adapters, the open device, what decides how graphs run there |
//! | 1 | [`graph`], [`maps`]; `compare`: [`Comparison`] | what is to be computed; one head's map; an answer against the expected one |
//! | 0 | [`Error`]; `shape`: [`Shape`], [`HostTensor`] | words |
//!
//! Every op has one name everywhere: `Op::Softmax`, `shaders/softmax_*.wgsl`, `kernels/softmax.rs`,
//! `reference/softmax.rs`. How to add a kernel stands at the top of [`kernels`].
//!
//! # What the numbers mean
//!
//! Libraries differ here. In `attend_mask` true means "may attend". A query that sees no key gives zeros. A hidden key
//! takes no part: NaN in it never reaches an output, while NaN in a visible key shows. −∞ in a bias hides a key, a
//! finite bias never does. Causal goes by position: query i stands at i + `query_offset`. [`Mask`] has the details.
//! Everything is computed in f32.
//!
//! # Errors
//!
//! There is one [`Error`]. Each is a sentence that names the tensor or setting, both numbers and the way out;
//! [`Error::is_device_fault`] tells a GPU's fault from the input's. Bad input never panics. A GPU never fails silently:
//! [`Device::open`] with [`DeviceChoice::Auto`] says in [`CpuReason`] why it fell back to the CPU, and a lost device or
//! a refused command is an error of the run that met it.
//!
//! # Blocking
//!
//! Opening a device, compiling and running are async, because a browser cannot wait; `pollster::block_on` turns them
//! into blocking calls. Outside a browser a run blocks its thread until the GPU has answered. A plan has one set
//! of buffers: a second run, or an upload, before the first is over is refused.
//!
//! # Features
//!
//! | feature | default | |
//! |---|---|---|
//! | `cli` | yes | the program `multihead`; brings `plot` |
//! | `web` | no | on wasm only: what the npm package in web/package is made of |
//! | `plot` | with `cli` | pictures and pages: [`plot`] |
//!
//! `default-features = false` leaves the lean library. wgpu's instance variables are heeded: `WGPU_BACKEND`,
//! `WGPU_ADAPTER_NAME`, `WGPU_STRICT_WEBGPU_COMPLIANCE`. The library logs through the `log` crate, the program through
//! `env_logger` (`RUST_LOG`).
//!
//! # What it does not do
//!
//! No training: no backward pass (dropout of the weights is there: [`Training`]). Only f32 arithmetic; f16 and bf16 are
//! storage. It is attention, not a model: no tokenizer or layer normalisation.
//!
//! [d2l]: https://d2l.ai/chapter_attention-mechanisms-and-transformers/multihead-attention.html

pub mod attention;
mod compare;
mod device;
mod error;
pub mod experiments;
mod gpu;
pub mod graph;
pub mod heads;
pub mod io;
pub mod kernels;
pub mod maps;
mod plan;
#[cfg(feature = "plot")]
pub mod plot;
pub mod reference;
mod shape;
pub mod tuning;
#[cfg(feature = "web")]
pub mod web;

pub use attention::{
    AttentionConfig, AttentionInputs, AttentionOutput, AttentionPlan, CacheOptions, CacheStorage, CallShape, HeadSizes,
    KvCache, Linear, Mask, MultiHeadAttention, OutputByHead, StepInputs, StepPlan, StepShape, Training, Weights,
};
pub use compare::{Comparison, Worst};
pub use device::{CpuReason, Device, DeviceChoice};
pub use error::Error;
pub use gpu::{AdapterKind, AdapterSummary, DeviceProfile, Gpu, GpuOptions, LimitsChoice};
pub use graph::{DType, Fuse, Graph, GraphBuilder, Inputs, Rewriting};
pub use io::{Case, CaseOptions, Expected, Settings};
pub use plan::{
    Clock, Plan, PlanOptions, PlanStep, PlanSummary, Profile, ProfileStep, Progress, RunOutput, RunTiming, Tensor,
};
pub use shape::{HostTensor, Shape};

#[doc = include_str!("../docs/guide.md")]
pub mod guide {}

// The example in README.md is a test of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
