//! What of a device decides how a graph runs on it.

use serde::Serialize;

/// What kind of hardware an adapter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdapterKind {
    /// Shaders run on the CPU: lavapipe, SwiftShader, WARP.
    Cpu,
    /// Nothing is known.
    Other,
    /// A virtual machine's GPU.
    VirtualGpu,
    /// A GPU that shares memory with the CPU.
    IntegratedGpu,
    /// A GPU with memory of its own.
    DiscreteGpu,
}

impl std::fmt::Display for AdapterKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "CPU",
            Self::Other => "unknown hardware",
            Self::VirtualGpu => "virtual GPU",
            Self::IntegratedGpu => "integrated GPU",
            Self::DiscreteGpu => "discrete GPU",
        })
    }
}

/// The facts from which kernels and splits are chosen: a value, so that choosing is a pure function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceProfile {
    /// The adapter's name.
    pub name: String,
    /// The API it is reached through: "vulkan", "metal", "dx12", "webgpu".
    pub backend: String,
    /// What kind of hardware it is.
    #[serde(rename = "type")]
    pub kind: AdapterKind,
    /// The driver and its version.
    pub driver: String,
    /// Smallest and largest subgroup.
    pub subgroup: [u32; 2],
    /// Whether shaders may use subgroups.
    pub subgroups: bool,
    /// Rows of the largest texture.
    pub max_texture_rows: u32,
    /// Largest storage binding, in bytes.
    pub max_binding_bytes: u64,
    /// Largest buffer, in bytes.
    pub max_buffer_bytes: u64,
    /// A storage binding starts at a multiple of this many bytes.
    pub offset_alignment: u64,
    /// Workgroups in one dimension of a dispatch.
    pub max_workgroups: u32,
}

impl DeviceProfile {
    /// What WebGPU guarantees to everyone: no features, default limits.
    #[must_use]
    pub fn portable() -> Self {
        let info = wgpu::AdapterInfo::new(wgpu::DeviceType::Other, wgpu::Backend::Noop);
        Self::new(&info, &wgpu::Limits::default(), wgpu::Features::empty())
    }

    /// How many operations of products one dispatch may hold, so that even a slow device of this kind is done in about
    /// 100 ms: nothing interrupts a dispatch, and while it runs no window is drawn.
    ///
    /// A CPU adapter on two cores does 20 to 25 of 10⁹ a second; a browser says not what hardware it is on.
    #[must_use]
    pub fn dispatch_flops(&self) -> u64 {
        match self.kind {
            AdapterKind::Cpu | AdapterKind::Other | AdapterKind::VirtualGpu => 2_500_000_000,
            AdapterKind::IntegratedGpu => 20_000_000_000,
            AdapterKind::DiscreteGpu => 100_000_000_000,
        }
    }

    /// The profile of an adapter under the limits and with the features that its device was given.
    pub(crate) fn new(info: &wgpu::AdapterInfo, limits: &wgpu::Limits, features: wgpu::Features) -> Self {
        let portable = info.backend == wgpu::Backend::Noop;
        Self {
            name: match info.name.as_str() {
                _ if portable => "portable profile".into(),
                // Browsers keep it to themselves.
                "" => "unnamed adapter".into(),
                name => name.into(),
            },
            backend: if portable { "none".into() } else { info.backend.to_string() },
            kind: match info.device_type {
                wgpu::DeviceType::Cpu => AdapterKind::Cpu,
                wgpu::DeviceType::Other => AdapterKind::Other,
                wgpu::DeviceType::VirtualGpu => AdapterKind::VirtualGpu,
                wgpu::DeviceType::IntegratedGpu => AdapterKind::IntegratedGpu,
                wgpu::DeviceType::DiscreteGpu => AdapterKind::DiscreteGpu,
            },
            driver: format!("{} {}", info.driver, info.driver_info).trim().into(),
            subgroup: [info.subgroup_min_size, info.subgroup_max_size],
            subgroups: features.contains(wgpu::Features::SUBGROUP),
            max_texture_rows: limits.max_texture_dimension_2d,
            max_binding_bytes: limits.max_storage_buffer_binding_size,
            max_buffer_bytes: limits.max_buffer_size,
            offset_alignment: u64::from(limits.min_storage_buffer_offset_alignment),
            max_workgroups: limits.max_compute_workgroups_per_dimension,
        }
    }
}
