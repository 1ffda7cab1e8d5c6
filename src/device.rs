//! Where to compute: a GPU, or the built-in CPU path.

use std::convert::Infallible;
use std::str::FromStr;

use crate::error::Error;
use crate::gpu::{Gpu, GpuOptions};

/// A place to compute.
#[derive(Debug)]
pub enum Device {
    /// An open GPU.
    Gpu(Gpu),
    /// The [reference](crate::reference) in 32-bit floats.
    Cpu(CpuReason),
}

/// Why the CPU computes.
#[derive(Debug)]
pub enum CpuReason {
    /// It was asked for.
    Chosen,
    /// No GPU could be opened.
    NoGpu(Error),
}

/// Which device to open; parsed from `auto`, `cpu` or a part of an adapter's name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceChoice {
    /// The best adapter and, where there is none, the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The best adapter whose name contains this, in any case.
    Named(String),
}

impl FromStr for DeviceChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.to_lowercase().as_str() {
            "auto" => Self::Auto,
            "cpu" => Self::Cpu,
            _ => Self::Named(text.into()),
        })
    }
}

impl Device {
    /// Opens a device.
    ///
    /// # Errors
    /// [`Error::NoAdapter`] or [`Error::Gpu`] when a named adapter cannot be opened; `Auto` falls back to the CPU and
    /// says why in [`CpuReason`].
    pub async fn open(choice: &DeviceChoice) -> Result<Self, Error> {
        match choice {
            DeviceChoice::Cpu => Ok(Self::Cpu(CpuReason::Chosen)),
            DeviceChoice::Auto => Ok(match Gpu::open(&GpuOptions::default()).await {
                Ok(gpu) => Self::Gpu(gpu),
                Err(error) => Self::Cpu(CpuReason::NoGpu(error)),
            }),
            DeviceChoice::Named(name) => {
                let options = GpuOptions { adapter: Some(name.clone()), ..GpuOptions::default() };
                Gpu::open(&options).await.map(Self::Gpu)
            }
        }
    }

    /// The GPU, unless the CPU computes.
    #[must_use]
    pub fn gpu(&self) -> Option<&Gpu> {
        match self {
            Self::Gpu(gpu) => Some(gpu),
            Self::Cpu(_) => None,
        }
    }

    /// The adapter's name, or "cpu".
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Gpu(gpu) => &gpu.profile().name,
            Self::Cpu(_) => "cpu",
        }
    }
}
