//! Finding an adapter and opening a device on it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use serde::Serialize;

use super::health::{Faults, Health};
use super::{AdapterKind, DeviceProfile, Gpu, lock, one_line};
use crate::error::Error;

/// Which adapter to open, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuOptions {
    /// A part of the adapter's name, in any case; by default the best adapter.
    pub adapter: Option<String>,
    /// Which limits to ask for.
    pub limits: LimitsChoice,
}

/// Which limits to ask a device for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitsChoice {
    /// As large as the adapter has them.
    #[default]
    Adapter,
    /// Only what WebGPU guarantees to everyone: what works so works everywhere.
    WebGpuDefault,
    /// As the adapter has them, but with bindings of no more than this many bytes: to see how work is split.
    Binding(u64),
}

/// An adapter, as `multihead devices` tells of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AdapterSummary {
    /// The adapter's name.
    pub name: String,
    /// The API it is reached through.
    pub backend: String,
    /// What kind of hardware it is.
    #[serde(rename = "type")]
    pub kind: AdapterKind,
    /// The driver and its version.
    pub driver: String,
    /// Smallest and largest subgroup.
    pub subgroup: [u32; 2],
    /// The features that matter to attention.
    pub features: Vec<String>,
    /// The limits that matter to attention, by WebGPU's names.
    pub limits: BTreeMap<String, u64>,
}

impl Gpu {
    /// Opens the best adapter, or the one named in `options`.
    ///
    /// `WGPU_BACKEND`, `WGPU_STRICT_WEBGPU_COMPLIANCE` and wgpu's other instance variables are heeded, as is
    /// `WGPU_ADAPTER_NAME` where `options` names none.
    ///
    /// # Errors
    /// [`Error::NoAdapter`] where none fits, [`Error::Gpu`] where the driver refuses a device.
    pub async fn open(options: &GpuOptions) -> Result<Self, Error> {
        Self::open_of(&instance(), options).await
    }

    /// As [`open`](Self::open), of an instance that is the caller's; only the variable `WGPU_ADAPTER_NAME` is heeded.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_of(instance: &wgpu::Instance, options: &GpuOptions) -> Result<Self, Error> {
        let from_environment = std::env::var("WGPU_ADAPTER_NAME").ok().filter(|name| !name.is_empty());
        let wanted = options.adapter.clone().or(from_environment);
        let adapters = adapters(instance).await;
        let names: Vec<_> = adapters.iter().map(|adapter| format!("\"{}\"", adapter.get_info().name)).collect();
        let adapter = adapters
            .into_iter()
            .find(|adapter| wanted.as_ref().is_none_or(|wanted| is_named(&adapter.get_info(), wanted)))
            .ok_or_else(|| no_adapter(wanted, &names))?;
        Self::on_adapter(&adapter, options.limits).await
    }

    /// All adapters, best first.
    pub async fn adapters() -> Vec<AdapterSummary> {
        adapters(&instance()).await.iter().map(summary).collect()
    }

    async fn on_adapter(adapter: &wgpu::Adapter, choice: LimitsChoice) -> Result<Self, Error> {
        let info = adapter.get_info();
        let required_limits = required_limits(&adapter.limits(), choice);
        let required_features = match choice {
            LimitsChoice::WebGpuDefault => wgpu::Features::empty(),
            LimitsChoice::Adapter | LimitsChoice::Binding(_) => adapter.features() & WANTED_FEATURES,
        };
        let (device, queue) = adapter
            .request_device(&wgpu::DeviceDescriptor {
                label: Some("multihead"),
                required_limits: required_limits.clone(),
                required_features,
                ..Default::default()
            })
            .await
            .map_err(|refusal| Error::Gpu {
                what: format!("a device on \"{}\"", info.name),
                message: one_line(&refusal.to_string()),
            })?;
        let faults = Arc::new(Faults::default());
        watch(&device, &faults);
        Ok(Self {
            profile: DeviceProfile::new(&info, &required_limits, device.features()),
            device,
            queue,
            health: Health::Told(faults).shared(),
            pipelines: Arc::new(Mutex::new(HashMap::new())),
        })
    }
}

fn no_adapter(wanted: Option<String>, names: &[String]) -> Error {
    let (found, hint) = if names.is_empty() {
        const INSTALL: &str = "install a driver (Debian, Ubuntu: apt-get install mesa-vulkan-drivers libvulkan1)";
        ("none was found".into(), INSTALL)
    } else {
        (format!("found {}", names.join(", ")), "say a part of one of these names")
    };
    Error::NoAdapter { wanted: wanted.map_or(String::new(), |wanted| format!(" named \"{wanted}\"")), found, hint }
}

/// What kernels use where they find it.
const WANTED_FEATURES: wgpu::Features = wgpu::Features::SUBGROUP.union(wgpu::Features::TIMESTAMP_QUERY);

/// Notes what would otherwise be a panic, or silence.
fn watch(device: &wgpu::Device, faults: &Arc<Faults>) {
    let for_loss = Arc::clone(faults);
    device.set_device_lost_callback(move |reason, message| {
        *lock(&for_loss.lost) = Some(one_line(&format!("{reason:?} {message}")));
    });
    let for_errors = Arc::clone(faults);
    device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
        log::error!("{error}");
        lock(&for_errors.uncaptured).get_or_insert_with(|| one_line(&error.to_string()));
    }));
}

const BACKENDS: wgpu::Backends = wgpu::Backends::VULKAN
    .union(wgpu::Backends::METAL)
    .union(wgpu::Backends::DX12)
    .union(wgpu::Backends::BROWSER_WEBGPU);

fn instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle().with_env();
    descriptor.backends &= BACKENDS;
    wgpu::Instance::new(descriptor)
}

/// Best first.
async fn adapters(instance: &wgpu::Instance) -> Vec<wgpu::Adapter> {
    let mut adapters = instance.enumerate_adapters(BACKENDS).await;
    // Stable: of equals the driver's first stays first.
    adapters.sort_by_key(|adapter| {
        let info = adapter.get_info();
        std::cmp::Reverse(DeviceProfile::new(&info, &adapter.limits(), adapter.features()).kind)
    });
    adapters
}

fn is_named(info: &wgpu::AdapterInfo, wanted: &str) -> bool {
    info.name.to_lowercase().contains(&wanted.to_lowercase())
}

/// WebGPU's defaults, but the sizes that decide how work is split as the adapter has them.
fn required_limits(adapter: &wgpu::Limits, choice: LimitsChoice) -> wgpu::Limits {
    let portable = wgpu::Limits::default().or_worse_values_from(adapter);
    match choice {
        LimitsChoice::WebGpuDefault => portable,
        LimitsChoice::Adapter | LimitsChoice::Binding(_) => wgpu::Limits {
            max_storage_buffer_binding_size: match choice {
                LimitsChoice::Binding(bytes) => bytes.min(adapter.max_storage_buffer_binding_size),
                _ => adapter.max_storage_buffer_binding_size,
            },
            max_buffer_size: adapter.max_buffer_size,
            min_storage_buffer_offset_alignment: adapter.min_storage_buffer_offset_alignment,
            max_compute_workgroups_per_dimension: adapter.max_compute_workgroups_per_dimension,
            ..portable
        },
    }
}

fn summary(adapter: &wgpu::Adapter) -> AdapterSummary {
    let limits = adapter.limits();
    let features = [
        (wgpu::Features::SUBGROUP, "subgroups"),
        (wgpu::Features::SHADER_F16, "shader-f16"),
        (wgpu::Features::TIMESTAMP_QUERY, "timestamp-query"),
    ];
    let limit = |name: &str, value: u64| (name.to_owned(), value);
    let profile = DeviceProfile::new(&adapter.get_info(), &limits, adapter.features());
    AdapterSummary {
        name: profile.name,
        backend: profile.backend,
        kind: profile.kind,
        driver: profile.driver,
        subgroup: profile.subgroup,
        features: features
            .into_iter()
            .filter(|(feature, _)| adapter.features().contains(*feature))
            .map(|(_, name)| name.to_owned())
            .collect(),
        limits: [
            limit("maxStorageBufferBindingSize", limits.max_storage_buffer_binding_size),
            limit("maxBufferSize", limits.max_buffer_size),
            limit("minStorageBufferOffsetAlignment", limits.min_storage_buffer_offset_alignment.into()),
            limit("maxStorageBuffersPerShaderStage", limits.max_storage_buffers_per_shader_stage.into()),
            limit("maxComputeWorkgroupStorageSize", limits.max_compute_workgroup_storage_size.into()),
            limit("maxComputeInvocationsPerWorkgroup", limits.max_compute_invocations_per_workgroup.into()),
            limit("maxComputeWorkgroupsPerDimension", limits.max_compute_workgroups_per_dimension.into()),
        ]
        .into(),
    }
}
