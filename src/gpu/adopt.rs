//! Taking a device that is somebody else's.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::health::{Health, Pulse};
use super::{DeviceProfile, Gpu, one_line};
use crate::error::Error;

impl Gpu {
    /// Takes a device that is somebody else's: nothing is installed on it, its limits and features are respected.
    ///
    /// What the device refuses the library is an error of the call that met it, and never reaches the handlers of the
    /// device's owner. To see that `queue` is the device's, this waits for the work submitted so far; a browser cannot
    /// tell.
    ///
    /// A device that is adopted twice is two `Gpu`s, which compile each their own pipelines, and a cache of one is refused
    /// by the other: adopt once, and clone.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`] where the device was given less than the portable kernels need; [`Error::Invalid`] for
    /// the queue of another device; [`Error::DeviceLost`] for a device that is lost or destroyed.
    pub fn adopt(device: &wgpu::Device, queue: &wgpu::Queue) -> Result<Self, Error> {
        let limits = device.limits();
        check_limits(&limits)?;
        let pulse = Pulse::new(device);
        pulse.check(device)?;
        check_queue(device, queue)?;
        Ok(Self {
            profile: DeviceProfile::new(&device.adapter_info(), &limits, device.features()),
            device: device.clone(),
            queue: queue.clone(),
            health: Health::Asked(pulse).shared(),
            pipelines: Arc::new(Mutex::new(HashMap::new())),
        })
    }
}

/// Sees whether waiting for the device is waiting for the queue.
///
/// A write through the queue of another device would be refused to that device's owner, beyond our error scopes.
fn check_queue(device: &wgpu::Device, queue: &wgpu::Queue) -> Result<(), Error> {
    if cfg!(target_arch = "wasm32") {
        return Ok(());
    }
    let done = Arc::new(AtomicBool::new(false));
    let when_done = Arc::clone(&done);
    queue.on_submitted_work_done(move || when_done.store(true, Ordering::Release));
    let polled = device.poll(wgpu::PollType::wait_indefinitely());
    match polled {
        Err(refusal) => {
            Err(Error::Gpu { what: "to wait for its work".into(), message: one_line(&refusal.to_string()) })
        }
        Ok(_) if done.load(Ordering::Acquire) => Ok(()),
        Ok(_) => Err(Error::Invalid(
            "the queue belongs to another device; give the device and the queue that one request_device returned"
                .into(),
        )),
    }
}

/// The largest uniform of our kernels, and how far apart the uniforms of two dispatches lie: both are what WebGPU
/// guarantees to be possible.
pub(crate) const UNIFORM_STRIDE: u32 = 256;

/// What the portable kernels need of a device: no more than WebGPU guarantees.
fn check_limits(limits: &wgpu::Limits) -> Result<(), Error> {
    let portable = wgpu::Limits::default();
    macro_rules! needs {
        ($($limit:ident $least:expr, $unit:literal;)+) => {
            [$((stringify!($limit), u64::from(limits.$limit), u64::from($least), $unit)),+]
        };
    }
    let needs = needs! {
        max_compute_invocations_per_workgroup portable.max_compute_invocations_per_workgroup, "invocations";
        max_compute_workgroup_size_x portable.max_compute_workgroup_size_x, "invocations";
        max_compute_workgroup_storage_size portable.max_compute_workgroup_storage_size, "bytes";
        max_compute_workgroups_per_dimension 1_u32, "workgroups";
        max_storage_buffers_per_shader_stage portable.max_storage_buffers_per_shader_stage, "buffers";
        max_uniform_buffers_per_shader_stage 1_u32, "buffers";
        max_uniform_buffer_binding_size UNIFORM_STRIDE, "bytes";
        max_bind_groups 1_u32, "bind groups";
        max_bindings_per_bind_group portable.max_storage_buffers_per_shader_stage + 1, "bindings";
    };
    let missing = needs.into_iter().find(|(_, have, need, _)| have < need);
    let refused = |(limit, have, need, unit)| Error::LimitExceeded {
        what: "a kernel".into(),
        need,
        have,
        unit,
        limit: format!("the device's {limit}"),
        hint: "request the device with wgpu::Limits::default() or more".into(),
    };
    match missing {
        Some(missing) => Err(refused(missing)),
        // The only limit of ours that is the better the smaller it is, beside that of storage, which a plan heeds.
        None if limits.min_uniform_buffer_offset_alignment > UNIFORM_STRIDE => Err(Error::OutOfRange {
            what: "the device's min_uniform_buffer_offset_alignment".into(),
            value: limits.min_uniform_buffer_offset_alignment.to_string(),
            allowed: format!(
                "must be at most {UNIFORM_STRIDE}; request the device with wgpu::Limits::default() or more"
            ),
        }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webgpus_defaults_are_enough_and_each_limit_below_is_named() {
        let default = wgpu::Limits::default;
        check_limits(&default()).unwrap();
        check_limits(&wgpu::Limits { max_compute_workgroups_per_dimension: 100, ..default() }).unwrap();
        let refusal = |limits: wgpu::Limits| check_limits(&limits).unwrap_err().to_string();
        let cases = [
            (
                "max_compute_workgroups_per_dimension",
                wgpu::Limits { max_compute_workgroups_per_dimension: 0, ..default() },
            ),
            (
                "max_uniform_buffers_per_shader_stage",
                wgpu::Limits { max_uniform_buffers_per_shader_stage: 0, ..default() },
            ),
            ("max_uniform_buffer_binding_size", wgpu::Limits { max_uniform_buffer_binding_size: 255, ..default() }),
            ("max_bind_groups", wgpu::Limits { max_bind_groups: 0, ..default() }),
            ("max_bindings_per_bind_group", wgpu::Limits { max_bindings_per_bind_group: 8, ..default() }),
            (
                "max_storage_buffers_per_shader_stage",
                wgpu::Limits { max_storage_buffers_per_shader_stage: 4, ..default() },
            ),
            (
                "min_uniform_buffer_offset_alignment",
                wgpu::Limits { min_uniform_buffer_offset_alignment: 512, ..default() },
            ),
        ];
        for (limit, limits) in cases {
            assert!(refusal(limits).contains(limit), "{limit}");
        }
        insta::assert_snapshot!(refusal(wgpu::Limits { max_uniform_buffer_binding_size: 16, ..default() }), @"a kernel needs 256 bytes, but the device's max_uniform_buffer_binding_size is 16; request the device with wgpu::Limits::default() or more");
    }
}
