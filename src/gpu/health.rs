//! Whether a device is still there, and what went wrong on it that nobody asked for.

use std::sync::{Arc, Mutex};

use super::{lock, one_line, scopes::scoped};
use crate::error::Error;

/// How a device's end is noticed.
#[derive(Debug)]
pub(super) enum Health {
    /// Our own device tells.
    Told(Arc<Faults>),
    /// Somebody else's device tells its owner, so it has to be asked.
    Asked(Pulse),
}

impl Health {
    /// One for all clones of a device.
    #[allow(clippy::arc_with_non_send_sync, reason = "in a browser a device stays on the thread that opened it")]
    pub(super) fn shared(self) -> Arc<Self> {
        Arc::new(self)
    }
}

/// What went wrong on a device outside any call that could have returned it.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) lost: Mutex<Option<String>>,
    pub(super) uncaptured: Mutex<Option<String>>,
}

impl Faults {
    pub(super) fn check(&self) -> Result<(), Error> {
        if let Some(reason) = lock(&self.lost).clone() {
            return Err(Error::DeviceLost { reason });
        }
        match lock(&self.uncaptured).take() {
            Some(message) => Err(Error::Gpu { what: "a command".into(), message }),
            None => Ok(()),
        }
    }
}

/// A small buffer that nobody uses. A lost device refuses to map it at once; a live one would answer later.
///
/// wgpu reports the loss of a device to the callback of its owner alone, and everything else on it looks like success.
#[derive(Debug)]
pub(super) struct Pulse(Mutex<wgpu::Buffer>);

impl Pulse {
    pub(super) fn new(device: &wgpu::Device) -> Self {
        let descriptor = wgpu::BufferDescriptor {
            label: Some("mha.pulse 4 bytes"),
            size: 4,
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        };
        let (buffer, _) = scoped(device, |device| device.create_buffer(&descriptor));
        Self(Mutex::new(buffer))
    }

    /// Asks. In a browser nothing answers at once; there a lost device refuses to map what a run gives back.
    pub(super) fn check(&self, device: &wgpu::Device) -> Result<(), Error> {
        let buffer = lock(&self.0);
        let (sender, mut receiver) = futures_channel::oneshot::channel();
        let (answer, _) = scoped(device, |_| {
            buffer.map_async(wgpu::MapMode::Read, .., move |mapped| {
                // Nobody waits for the answer of a live device.
                let _ = sender.send(mapped);
            });
            let answer = receiver.try_recv();
            buffer.unmap();
            answer
        });
        match answer {
            Ok(Some(Err(refusal))) => Err(Error::DeviceLost { reason: one_line(&refusal.to_string()) }),
            _ => Ok(()),
        }
    }
}
