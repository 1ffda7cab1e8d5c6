//! Error scopes: what a device refuses is told to whoever asked, and to nobody else.

use super::{Gpu, one_line};
use crate::error::Error;

/// One scope for each kind of error, open on this thread; the fields are in the order of closing.
struct Scopes {
    internal: wgpu::ErrorScopeGuard,
    memory: wgpu::ErrorScopeGuard,
    validation: wgpu::ErrorScopeGuard,
}

impl Scopes {
    fn open(device: &wgpu::Device) -> Self {
        let validation = device.push_error_scope(wgpu::ErrorFilter::Validation);
        let memory = device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let internal = device.push_error_scope(wgpu::ErrorFilter::Internal);
        Self { internal, memory, validation }
    }

    /// Closes all at once; the future has the refusal, if there was one.
    fn close(self) -> impl Future<Output = Option<wgpu::Error>> {
        let Self { internal, memory, validation } = self;
        let (internal, memory, validation) = (internal.pop(), memory.pop(), validation.pop());
        async move {
            let (internal, memory, validation) = (internal.await, memory.await, validation.await);
            validation.or(memory).or(internal)
        }
    }
}

impl Gpu {
    /// Creates something inside error scopes, so that a refusal is an error here and not a broken object later.
    pub(crate) async fn guarded<T>(&self, what: &str, create: impl FnOnce(&wgpu::Device) -> T) -> Result<T, Error> {
        let created = self.scoped(what, create).await?;
        self.check().map(|()| created)
    }

    /// As [`guarded`](Self::guarded), where the caller asks for itself whether the device is still there.
    pub(crate) async fn scoped<T>(&self, what: &str, work: impl FnOnce(&wgpu::Device) -> T) -> Result<T, Error> {
        let (done, refusal) = scoped(&self.device, work);
        match refusal.await {
            Some(refusal) => Err(Error::Gpu { what: what.into(), message: one_line(&refusal.to_string()) }),
            None => Ok(done),
        }
    }
}

/// Does something inside error scopes, which are closed before anybody waits: they belong to a thread.
pub(super) fn scoped<T>(
    device: &wgpu::Device,
    work: impl FnOnce(&wgpu::Device) -> T,
) -> (T, impl Future<Output = Option<wgpu::Error>>) {
    let scopes = Scopes::open(device);
    let done = work(device);
    (done, scopes.close())
}
