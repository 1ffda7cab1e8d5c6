//! Places to compute.

use std::collections::BTreeMap;
use std::rc::Rc;

use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use super::fault::Fault;
use super::object::plain;
use crate::kernels::{self, Kernel, Slot};
use crate::{CpuReason, Device, Error, Gpu, GpuOptions};

/// Where wgpu finds adapters. It looks for `navigator.gpu` when it is made, and never again.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Instance(wgpu::Instance);

/// A device, shared by all layers on it.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Place(Rc<Device>);

impl Default for Instance {
    fn default() -> Self {
        Self::new()
    }
}

#[wasm_bindgen]
impl Instance {
    /// Of the `navigator.gpu` that there is now.
    #[must_use]
    #[wasm_bindgen(constructor)]
    pub fn new() -> Self {
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = wgpu::Backends::BROWSER_WEBGPU;
        Self(wgpu::Instance::new(descriptor))
    }

    /// A device of the library's own, on the best adapter.
    ///
    /// # Errors
    /// "no-adapter", "gpu-refused".
    pub async fn open(self) -> Result<Place, Fault> {
        let gpu = Gpu::open_of(&self.0, &GpuOptions::default()).await?;
        Ok(Place(Rc::new(Device::Gpu(gpu))))
    }

    /// The device that the instance's only adapter has, which is a page's own.
    ///
    /// # Errors
    /// "limit-exceeded" where the device was given less than the kernels need, "device-lost".
    pub async fn adopt(self) -> Result<Place, Fault> {
        let adapter = self.0.request_adapter(&wgpu::RequestAdapterOptions::default()).await;
        let adapter = adapter.map_err(|refusal| refused(&refusal))?;
        let opened = adapter.request_device(&wgpu::DeviceDescriptor::default()).await;
        let (device, queue) = opened.map_err(|refusal| refused(&refusal))?;
        Ok(Place(Rc::new(Device::Gpu(Gpu::adopt(&device, &queue)?))))
    }
}

fn refused(refusal: &dyn std::error::Error) -> Error {
    Error::Gpu { what: "the page's device".into(), message: refusal.to_string() }
}

#[wasm_bindgen]
impl Place {
    /// The CPU.
    #[must_use]
    pub fn cpu() -> Self {
        Self(Rc::new(Device::Cpu(CpuReason::Chosen)))
    }

    /// The adapter's name, or "cpu".
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn name(&self) -> String {
        self.0.name().into()
    }

    /// The `GPUDevice`; undefined on the CPU.
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn gpu(&self) -> JsValue {
        match &*self.0 {
            Device::Gpu(gpu) => {
                gpu.device().as_webgpu().map_or(JsValue::UNDEFINED, |device| JsValue::from(device.clone()))
            }
            Device::Cpu(_) => JsValue::UNDEFINED,
        }
    }

    /// The same device for another owner.
    pub(super) fn device(&self) -> Rc<Device> {
        Rc::clone(&self.0)
    }
}

/// Kernels that need no more than browsers give wgpu: it has no subgroups there, and only llvmpipe, which is no
/// browser's, is given values in textures.
pub(super) fn browsers_kernels() -> impl Iterator<Item = &'static Kernel> {
    let in_textures =
        |kernel: &Kernel| kernel.slots.iter().any(|slot| matches!(slot, Slot::ReadTexels(_) | Slot::WriteTexels));
    kernels::all().filter(move |kernel| !kernel.needs_subgroups() && !in_textures(kernel))
}

/// Names of all kernels that a browser can run, by op.
#[must_use]
#[wasm_bindgen(js_name = kernels)]
pub fn kernel_names() -> JsValue {
    let mut by_op: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for kernel in browsers_kernels() {
        by_op.entry(kernel.op).or_default().push(kernel.name);
    }
    plain(&by_op)
}
