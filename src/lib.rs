//! Multi-head attention on any GPU, through WebGPU.

pub mod attention;
mod error;
pub mod io;
mod shape;

pub use attention::{AttentionConfig, AttentionInputs, Linear, Mask, Weights};
pub use error::Error;
pub use io::{Case, CaseOptions, Expected, Settings};
pub use shape::{HostTensor, Shape};
