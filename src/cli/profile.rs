//! A profile as JSON.

use multihead::{Clock, Profile};
use serde::Serialize;

/// What is said of a run's dispatches.
#[derive(Serialize)]
pub(super) struct ProfileReport<'a> {
    clock: Clock,
    total_ms: f64,
    steps: Vec<StepReport<'a>>,
}

#[derive(Serialize)]
struct StepReport<'a> {
    op: &'a str,
    kernel: &'a str,
    output: &'a str,
    /// (batch, rows, columns) of what it works on.
    shape: [usize; 3],
    ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    gflops: Option<f64>,
    /// Its part of all, from 0 to 1.
    share: f64,
}

impl<'a> ProfileReport<'a> {
    pub(super) fn new(profile: &'a Profile) -> Self {
        let step = |profiled: &'a multihead::ProfileStep| StepReport {
            op: &profiled.step.op,
            kernel: &profiled.step.variant,
            output: &profiled.step.output,
            shape: profiled.step.shape,
            ms: profiled.took.as_secs_f64() * 1e3,
            gflops: profiled.gflops(),
            share: profile.share(profiled),
        };
        Self {
            clock: profile.clock,
            total_ms: profile.total().as_secs_f64() * 1e3,
            steps: profile.steps.iter().map(step).collect(),
        }
    }
}
