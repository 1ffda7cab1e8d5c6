//! Where the time of a run goes: what each dispatch takes.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use web_time::Instant;

use super::run::Submission;
use super::stamps::Stamps;
use super::{Plan, PlanStep, RunOutput, Turn};
use crate::error::Error;
use crate::graph::{Inputs, Source};

/// Who took the times of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The device, right before and after each dispatch.
    Device,
    /// The host, from submitting each dispatch alone to when it is done: some microseconds to submit and to wait are part
    /// of it.
    Host,
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "timestamps of the device",
            Self::Host => "wall time, each dispatch alone",
        })
    }
}

/// Where the time of a run went. Printed, it is a table.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Who took the times.
    pub clock: Clock,
    /// One for each dispatch, in order.
    pub steps: Vec<ProfileStep>,
}

/// One dispatch of a [`Profile`].
#[derive(Clone, Debug)]
pub struct ProfileStep {
    /// What it did.
    pub step: PlanStep,
    /// When it began, from the beginning of the first on.
    pub start: Duration,
    /// How long it took.
    pub took: Duration,
}

impl ProfileStep {
    /// 10⁹ operations a second; `None` where it has no product, or took no time that the clock would notice.
    #[must_use]
    pub fn gflops(&self) -> Option<f64> {
        let flops = self.step.flops;
        (flops > 0 && !self.took.is_zero()).then(|| flops as f64 / self.took.as_secs_f64() / 1e9)
    }
}

impl Profile {
    /// What all dispatches took together.
    #[must_use]
    pub fn total(&self) -> Duration {
        self.steps.iter().map(|step| step.took).sum()
    }

    /// A step's part of all, from 0 to 1.
    #[must_use]
    pub fn share(&self, step: &ProfileStep) -> f64 {
        step.took.as_secs_f64() / self.total().as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<4} {:<17} {:<21} {:<12} {:>10} {:>9} {:>6}",
            "", "op", "kernel", "output", "ms", "GFLOP/s", "share"
        )?;
        for (index, step) in self.steps.iter().enumerate() {
            let PlanStep { op, variant, output, .. } = &step.step;
            let (ms, share) = (step.took.as_secs_f64() * 1e3, self.share(step) * 100.0);
            let gflops = step.gflops().map_or("-".into(), |gflops| format!("{gflops:.2}"));
            writeln!(f, "{:<4} {op:<17} {variant:<21} {output:<12} {ms:>10.3} {gflops:>9} {share:>5.1}%", index + 1)?;
        }
        writeln!(f, "{:<4} {:<17} {:<21} {:<12} {:>10.3}", "", "all", "", "", self.total().as_secs_f64() * 1e3)
    }
}

impl Plan {
    /// As [`run`](Self::run), and says what each dispatch took: by the device's own clock where it has
    /// `TIMESTAMP_QUERY` ([`Gpu::open`](crate::Gpu::open) asks for it), else by submitting one at a time.
    ///
    /// The outputs are those of a run. The dispatches do not overlap, as they may in a run, and the profile is taken of
    /// one run: the first one of a plan also warms up.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn profile(&self, inputs: &Inputs<'_>) -> Result<(RunOutput, Profile), Error> {
        let _turn = Turn::take(&self.running)?;
        let given = inputs.of(&self.graph, Source::Input, &self.users)?;
        let stamps = Stamps::new(&self.gpu, self.steps.len()).await?;
        let start = Instant::now();
        let submission = Submission { given: Some(&given), steps: 0..0, stamps: None, readback: false };
        let uploaded = self.submit(&submission).await?.uploaded;
        let (clock, times) = match stamps {
            Some(stamps) => (Clock::Device, self.stamped(&stamps).await?),
            None => (Clock::Host, self.one_by_one().await?),
        };
        let last = self.steps.len();
        let submission = Submission { given: None, steps: last..last, stamps: None, readback: true };
        let submitted = self.submit(&submission).await?;
        let mapped = submitted.outputs.expect("outputs should come back where they are asked for");
        let output = self.output(&mapped, [start, uploaded, Instant::now()])?;
        Ok((output, self.profile_of(clock, &times)))
    }

    /// Beginnings and ends in nanoseconds, by the device.
    async fn stamped(&self, stamps: &Stamps) -> Result<Vec<[f64; 2]>, Error> {
        let mut times = Vec::with_capacity(self.steps.len());
        while times.len() < self.steps.len() {
            let first = times.len();
            let steps = first..first + self.pace.take(&self.steps[first..]);
            let number = steps.len();
            let submission = Submission { given: None, steps, stamps: Some(stamps), readback: false };
            self.submit(&submission).await?;
            times.extend(stamps.read(&self.gpu, number).await?);
        }
        Ok(times)
    }

    /// The same by the host's clock.
    async fn one_by_one(&self) -> Result<Vec<[f64; 2]>, Error> {
        let mut times = Vec::with_capacity(self.steps.len());
        let start = Instant::now();
        let nanoseconds = || start.elapsed().as_secs_f64() * 1e9;
        for index in 0..self.steps.len() {
            let begun = nanoseconds();
            let submission = Submission { given: None, steps: index..index + 1, stamps: None, readback: false };
            self.submit(&submission).await?;
            times.push([begun, nanoseconds()]);
        }
        Ok(times)
    }

    fn profile_of(&self, clock: Clock, times: &[[f64; 2]]) -> Profile {
        let first = times.first().map_or(0.0, |[start, _]| *start);
        // A device's clock may be set anew in between.
        let between = |from: f64, to: f64| Duration::from_secs_f64((to - from).max(0.0) / 1e9);
        let step = |(step, &[start, end]): (&super::BoundStep, &[f64; 2])| ProfileStep {
            step: step.about.clone(),
            start: between(first, start),
            took: between(start, end),
        };
        Profile { clock, steps: self.steps.iter().zip(times).map(step).collect() }
    }
}
