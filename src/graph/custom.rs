//! A user's own kernel as a node.

use std::fmt;
use std::sync::Arc;

use super::{DType, GraphBuilder, Op, ValueId};
use crate::error::Error;
use crate::shape::Shape;

/// What a [`CustomKernel`] computes, in plain Rust: inputs, each row-major, and the output to fill.
pub type CpuTwin = dyn Fn(&[&[f64]], &mut [f64]) + Send + Sync;

/// A user's WGSL, with an optional twin for the CPU.
///
/// The shader has one entry point `main` and keeps the rule of all kernels: a uniform of the user's at binding 0 of
/// group 0 (it may be left out), 32-bit float inputs as read-only storage from binding 1 on, the 32-bit float output
/// as read-write storage last. Every tensor is bound whole, from its first element on.
///
/// What the shader declares is the user's word: a kernel that leaves elements unwritten leaves there what was in the
/// buffer, and one that declares its inputs as integers reads the bits of floats. [`Plan::poison`](crate::Plan::poison)
/// shows what is not written.
#[derive(Clone)]
pub struct CustomKernel {
    /// What the node is called in prints and labels.
    pub name: String,
    /// The shader.
    pub wgsl: String,
    /// The bytes of the uniform at binding 0, all that its type has, and at most 256.
    pub params: Vec<u8>,
    /// The grid of workgroups.
    pub workgroups: [u32; 3],
    /// The same computation on the CPU; without it the CPU device refuses the graph. A panic in it unwinds to whoever
    /// runs the graph, as a panic in any callback does; nothing is left in a state that matters.
    pub cpu: Option<Arc<CpuTwin>>,
}

impl PartialEq for CustomKernel {
    fn eq(&self, other: &Self) -> bool {
        let twins = match (&self.cpu, &other.cpu) {
            (Some(own), Some(others)) => Arc::ptr_eq(own, others),
            (own, others) => own.is_none() && others.is_none(),
        };
        twins
            && (&self.name, &self.wgsl, &self.params, self.workgroups)
                == (&other.name, &other.wgsl, &other.params, other.workgroups)
    }
}

impl fmt::Debug for CustomKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomKernel")
            .field("name", &self.name)
            .field("workgroups", &self.workgroups)
            .field("has_cpu", &self.cpu.is_some())
            .finish_non_exhaustive()
    }
}

/// A node that runs a [`CustomKernel`].
#[derive(Clone, Debug, PartialEq)]
pub struct Custom {
    /// The kernel.
    pub kernel: Arc<CustomKernel>,
    /// What it reads, in the order of its bindings from 1 on.
    pub inputs: Vec<ValueId>,
}

/// Storage buffers that WebGPU guarantees to a shader, less the output.
const MOST_INPUTS: usize = 7;
/// Parameters of one dispatch lie as far apart.
const MOST_PARAMS: usize = 256;

impl GraphBuilder {
    /// A user's own kernel, whose output has the given shape.
    ///
    /// # Errors
    /// [`Error::Invalid`] for inputs of another graph or of another type than 32-bit floats, more inputs than WebGPU guarantees bindings for, or
    /// parameters of more than 256 bytes.
    pub fn custom(&mut self, name: &str, op: Custom, shape: impl Into<Shape>) -> Result<ValueId, Error> {
        let kernel = &op.kernel.name;
        self.reads(name, op.inputs.iter().map(|&id| (Some(id), DType::F32)))?;
        if op.kernel.workgroups.contains(&0) {
            return Err(Error::OutOfRange {
                what: format!("the grid of {kernel}"),
                value: format!("{:?}", op.kernel.workgroups),
                allowed: "must be at least 1 in each dimension".into(),
            });
        }
        if op.inputs.len() > MOST_INPUTS || op.kernel.params.len() > MOST_PARAMS {
            return Err(Error::Invalid(format!(
                "{kernel} has {} inputs and {} bytes of parameters, but {MOST_INPUTS} and {MOST_PARAMS} are the most",
                op.inputs.len(),
                op.kernel.params.len()
            )));
        }
        self.node(name, shape.into(), Op::Custom(op))
    }
}
