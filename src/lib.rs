//! Multi-head attention on any GPU, through WebGPU.

pub mod attention;
mod compare;
mod device;
mod error;
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

pub use attention::{
    AttentionConfig, AttentionInputs, AttentionOutput, AttentionPlan, HeadSizes, Linear, Mask, MultiHeadAttention,
    Weights,
};
pub use compare::{Comparison, Worst};
pub use device::{CpuReason, Device, DeviceChoice};
pub use error::Error;
pub use gpu::{AdapterKind, AdapterSummary, DeviceProfile, Gpu, GpuOptions, LimitsChoice};
pub use graph::{DType, Graph, GraphBuilder, Inputs};
pub use io::{Case, CaseOptions, Expected, Settings};
pub use plan::{Plan, PlanOptions, PlanStep, PlanSummary, RunOutput, RunTiming};
pub use shape::{HostTensor, Shape};
