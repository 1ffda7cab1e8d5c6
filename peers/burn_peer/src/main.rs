//! burn on the GPU, through its wgpu backend: the line protocol that `multihead bench --peer` speaks (../README.md).

mod compute;
mod scenario;

use std::error::Error;
use std::io::{Write, stdin, stdout};
use std::path::PathBuf;
use std::time::Instant;

use burn::tensor::{Device, DeviceKind};
use serde::{Deserialize, Serialize};

use compute::{Computation, Held};
use scenario::Scenario;

/// A burst is this long, and at least this many computations (../peer.py).
const BURST_SECONDS: f64 = 0.05;
const FEWEST: usize = 2;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Question {
    Prepare { scenario: PathBuf, answer: PathBuf },
    Time,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ready,
    Cannot(String),
    Seconds(f64),
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::wgpu(DeviceKind::DefaultDevice);
    let mut prepared: Option<Computation> = None;
    for line in stdin().lines() {
        let answer = match serde_json::from_str(&line?)? {
            Question::Time => Answer::Seconds(burst(&device, prepared.as_ref().ok_or("nothing was prepared")?)?),
            Question::Prepare { scenario, answer } => {
                match compute::computation(&Scenario::read(&scenario)?, &device) {
                    Ok(computation) => {
                        scenario::write(&answer, done(&device, &computation)?.output)?;
                        prepared = Some(computation);
                        Answer::Ready
                    }
                    Err(cannot) => Answer::Cannot(cannot),
                }
            }
        };
        let mut stdout = stdout().lock();
        serde_json::to_writer(&mut stdout, &answer)?;
        writeln!(stdout)?;
        stdout.flush()?;
    }
    Ok(())
}

/// Median seconds of one computation.
fn burst(device: &Device, computation: &Computation) -> Result<f64, Box<dyn Error>> {
    let mut took = Vec::new();
    while took.len() < FEWEST || took.iter().sum::<f64>() < BURST_SECONDS {
        let start = Instant::now();
        done(device, computation)?;
        took.push(start.elapsed().as_secs_f64());
    }
    took.sort_by(f64::total_cmp);
    Ok(took[took.len() / 2])
}

/// What was computed is held until it is there: burn leaves out what nobody would read.
fn done(device: &Device, computation: &Computation) -> Result<Held, Box<dyn Error>> {
    let held = computation();
    device.flush()?;
    device.sync()?;
    Ok(held)
}
