//! A GPU opened for computing: adapter, device, queue, its profile, and whether it is still there.

mod adopt;
mod health;
mod open;
mod profile;
mod scopes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(crate) use adopt::UNIFORM_STRIDE;
use health::Health;
pub use open::{AdapterSummary, GpuOptions, LimitsChoice};
pub use profile::{AdapterKind, DeviceProfile};

use crate::error::Error;

/// An open device. Pipelines are compiled once for each and shared by all plans on it; clones are the same device.
#[derive(Clone, Debug)]
pub struct Gpu {
    device: wgpu::Device,
    queue: wgpu::Queue,
    profile: DeviceProfile,
    health: Arc<Health>,
    /// By label and text: two users may call different kernels by one name.
    pipelines: Arc<Mutex<HashMap<[String; 2], Arc<Pipeline>>>>,
}

/// A compiled kernel and how its buffers are bound.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) layout: wgpu::BindGroupLayout,
}

/// What to compile a pipeline from.
#[derive(Debug)]
pub(crate) struct PipelineSource<'a> {
    /// Unique for one text and its constants; the object's label.
    pub(crate) label: String,
    /// WGSL with one entry point.
    pub(crate) wgsl: &'a str,
    /// What is bound behind the uniform binding 0.
    pub(crate) slots: &'a [wgpu::BindingType],
    /// Pipeline-overridable constants.
    pub(crate) constants: &'a [(&'a str, f64)],
}

impl Gpu {
    /// What decides how graphs run here.
    #[must_use]
    pub fn profile(&self) -> &DeviceProfile {
        &self.profile
    }

    /// The device, for a user's own work beside ours.
    #[must_use]
    pub fn device(&self) -> &wgpu::Device {
        &self.device
    }

    /// The device's queue.
    #[must_use]
    pub fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// Whether both are the same opened or adopted device: clones are. wgpu's own comparison is of numbers that begin anew
    /// with each of its instances, so that two devices can have the same.
    #[must_use]
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.pipelines, &other.pipelines)
    }

    /// Whether everything asked of the device so far can be trusted. A device of somebody else's is asked only whether
    /// it is still there; in a browser, not even that.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], or [`Error::Gpu`] for an error on our own device that no scope caught.
    pub fn check(&self) -> Result<(), Error> {
        match &*self.health {
            Health::Told(faults) => faults.check(),
            Health::Asked(pulse) => pulse.check(&self.device),
        }
    }

    /// Asks for the first `bytes` of a buffer to be mapped for reading; to be called inside error scopes.
    pub(crate) fn ask_for<'a>(&'a self, buffer: &'a wgpu::Buffer, bytes: u64) -> Asked<'a> {
        let (sender, answer) = futures_channel::oneshot::channel();
        buffer.map_async(wgpu::MapMode::Read, 0..bytes, move |mapped| {
            // Nobody waits any more if the future was dropped.
            let _ = sender.send(mapped);
        });
        Asked { mapped: Mapped { gpu: self, buffer, bytes }, answer }
    }

    /// Waits until all that was submitted is done.
    pub(crate) async fn finished(&self) -> Result<(), Error> {
        let (sender, answer) = futures_channel::oneshot::channel();
        self.queue.on_submitted_work_done(move || {
            // Nobody waits any more if the future was dropped.
            let _ = sender.send(());
        });
        // In a browser this returns at once and the event loop goes on.
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        self.check()?;
        match (polled, answer.await) {
            (Ok(_), Ok(())) => self.check(),
            (polled, answer) => {
                Err(Error::DeviceLost { reason: one_line(&format!("waiting: poll {polled:?}, done {answer:?}")) })
            }
        }
    }

    /// The compiled pipeline of a kernel, from the cache if it was asked for before.
    pub(crate) async fn pipeline(&self, source: &PipelineSource<'_>) -> Result<Arc<Pipeline>, Error> {
        let key = [source.label.clone(), source.wgsl.to_owned()];
        if let Some(pipeline) = lock(&self.pipelines).get(&key) {
            return Ok(Arc::clone(pipeline));
        }
        let pipeline = Arc::new(self.guarded(&source.label, |device| compile(device, source)).await?);
        lock(&self.pipelines).insert(key, Arc::clone(&pipeline));
        Ok(pipeline)
    }
}

/// A buffer that will be mapped.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    mapped: Mapped<'a>,
    answer: futures_channel::oneshot::Receiver<Result<(), wgpu::BufferAsyncError>>,
}

impl<'a> Asked<'a> {
    /// Waits until the buffer is mapped, which is after all that was submitted.
    pub(crate) async fn wait(self) -> Result<Mapped<'a>, Error> {
        let gpu = self.mapped.gpu;
        // In a browser this returns at once and the event loop finishes the mapping.
        let polled = gpu.device.poll(wgpu::PollType::wait_indefinitely());
        let answer = self.answer.await;
        gpu.check()?;
        match (polled, answer) {
            (Ok(_), Ok(Ok(()))) => Ok(self.mapped),
            // What was asked for was right, so there is nothing left that could be wrong but the device.
            (polled, answer) => {
                Err(Error::DeviceLost { reason: one_line(&format!("reading back: poll {polled:?}, map {answer:?}")) })
            }
        }
    }
}

/// A buffer that is mapped, or asked to be: whoever stops waiting gives it back.
#[derive(Debug)]
pub(crate) struct Mapped<'a> {
    gpu: &'a Gpu,
    buffer: &'a wgpu::Buffer,
    bytes: u64,
}

impl Mapped<'_> {
    /// The buffer's numbers.
    pub(crate) fn words(&self) -> Result<Vec<f32>, Error> {
        self.numbers(f32::from_le_bytes)
    }

    /// The buffer's times, as a device counts them.
    pub(crate) fn ticks(&self) -> Result<Vec<u64>, Error> {
        self.numbers(u64::from_le_bytes)
    }

    fn numbers<T, const BYTES: usize>(&self, number: impl Fn([u8; BYTES]) -> T) -> Result<Vec<T>, Error> {
        let view = self
            .buffer
            .get_mapped_range(0..self.bytes)
            .map_err(|refusal| Error::Gpu { what: "reading back".into(), message: one_line(&refusal.to_string()) })?;
        let (numbers, _) = view.as_chunks::<BYTES>();
        Ok(numbers.iter().map(|&bytes| number(bytes)).collect())
    }
}

impl Drop for Mapped<'_> {
    fn drop(&mut self) {
        // Refused where the buffer could not be mapped, which has been told already.
        let _ = scopes::scoped(&self.gpu.device, |_| self.buffer.unmap());
    }
}

fn compile(device: &wgpu::Device, source: &PipelineSource<'_>) -> Pipeline {
    let label = Some(source.label.as_str());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label,
        source: wgpu::ShaderSource::Wgsl(source.wgsl.into()),
    });
    let params = wgpu::BindingType::Buffer {
        ty: wgpu::BufferBindingType::Uniform,
        has_dynamic_offset: false,
        min_binding_size: None,
    };
    let entry = |(ty, binding)| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty,
        count: None,
    };
    let entries: Vec<_> = std::iter::once(params).chain(source.slots.iter().copied()).zip(0..).map(entry).collect();
    let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label, entries: &entries });
    let pipeline_layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label,
        bind_group_layouts: &[Some(&layout)],
        ..Default::default()
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label,
        layout: Some(&pipeline_layout),
        module: &module,
        entry_point: Some("main"),
        compilation_options: wgpu::PipelineCompilationOptions { constants: source.constants, ..Default::default() },
        cache: None,
    });
    Pipeline { pipeline, layout }
}

/// Drivers and validators write paragraphs; an error is a sentence.
fn one_line(message: &str) -> String {
    message.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A panic while a lock was held leaves plain data behind, which is as good as before.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
