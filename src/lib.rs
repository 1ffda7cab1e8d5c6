//! Multi-head attention on any GPU, through WebGPU.

pub mod attention;
mod error;
pub mod heads;
pub mod maps;
#[cfg(feature = "plot")]
pub mod plot;
mod shape;

pub use attention::{AttentionConfig, AttentionInputs, Linear, Mask, Weights};
pub use error::Error;
pub use shape::{HostTensor, Shape};
