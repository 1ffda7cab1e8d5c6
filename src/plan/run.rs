//! Running a plan: uploads, submissions of about 100 ms, the readback.

use std::ops::Range;

use web_time::Instant;

use super::stamps::Stamps;
use super::{Plan, Progress, RunOutput, RunTiming, Turn, record, upload};
use crate::error::Error;
use crate::gpu::Mapped;
use crate::graph::{HostValue, Inputs, Source, Value, ValueId};

/// A run's inputs in the order of the graph.
pub(super) type Given<'a> = Vec<(ValueId, &'a Value, HostValue<'a>)>;

/// What one submission does.
pub(super) struct Submission<'a> {
    /// Inputs to upload before.
    pub(super) given: Option<&'a Given<'a>>,
    /// Dispatches.
    pub(super) steps: Range<usize>,
    /// Where each dispatch's times go.
    pub(super) stamps: Option<&'a Stamps>,
    /// Whether the outputs are read back after.
    pub(super) readback: bool,
}

/// A submission that is done.
pub(super) struct Submitted<'a> {
    /// When the inputs were handed over.
    pub(super) uploaded: Instant,
    /// The outputs, where they were asked for.
    pub(super) outputs: Option<Mapped<'a>>,
}

impl Plan {
    /// Computes the graph's outputs for new inputs. Inputs and outputs in buffers of the user's are neither given here
    /// nor given back: what is in those buffers counts.
    ///
    /// Work that takes long is submitted in parts of about 100 ms, one after the other, so that the device stays at the
    /// service of others and no system resets it; the outputs are the same to the bit. In a browser other things happen
    /// between the parts.
    ///
    /// # Errors
    /// Those of missing or misshapen inputs; [`Error::Invalid`] while another run of this plan is not over;
    /// [`Error::Gpu`] where the device refuses the work, as it does where a buffer of the user's is destroyed or mapped;
    /// [`Error::DeviceLost`].
    pub async fn run(&self, inputs: &Inputs<'_>) -> Result<RunOutput, Error> {
        self.run_with_progress(inputs, |_| ()).await
    }

    /// As [`run`](Self::run), and says after each part how far it has come; the last time, that all is done.
    ///
    /// Dropping the future between two parts abandons the rest of the run.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    ///
    /// # Example
    /// ```no_run
    /// # async fn of(plan: &multihead::Plan, inputs: &multihead::Inputs<'_>) -> Result<(), multihead::Error> {
    /// let show = |progress: multihead::Progress| eprintln!("{} of {}", progress.done, progress.total);
    /// let outputs = plan.run_with_progress(inputs, show).await?.outputs;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn run_with_progress(
        &self,
        inputs: &Inputs<'_>,
        mut progress: impl FnMut(Progress),
    ) -> Result<RunOutput, Error> {
        let _turn = Turn::take(&self.running)?;
        let given = inputs.of(&self.graph, Source::Input, &self.users)?;
        let start = Instant::now();
        let (mut uploaded, mut first) = (None, 0);
        loop {
            let steps = first..first + self.pace.take(&self.steps[first..]);
            let given = uploaded.is_none().then_some(&given);
            let readback = steps.end == self.steps.len();
            let submission = Submission { given, steps: steps.clone(), stamps: None, readback };
            let begun = Instant::now();
            let submitted = self.submit(&submission).await?;
            let uploaded = *uploaded.get_or_insert(submitted.uploaded);
            self.pace.learn(self.work(steps.clone()), begun.elapsed());
            progress(self.progress(steps.end));
            if let Some(mapped) = submitted.outputs {
                return self.output(&mapped, [start, uploaded, Instant::now()]);
            }
            first = steps.end;
        }
    }

    /// How far a run is that has done this many steps.
    pub(super) fn progress(&self, steps: usize) -> Progress {
        let total = self.work(0..self.steps.len()).max(1);
        let done = if steps == self.steps.len() { total } else { self.work(0..steps) };
        Progress { done, total }
    }

    fn work(&self, steps: Range<usize>) -> u64 {
        self.steps[steps].iter().fold(0, |sum, step| sum.saturating_add(step.work))
    }

    /// What a run gives back, from the outputs and from when it started, had uploaded and had computed.
    pub(super) fn output(
        &self,
        mapped: &Mapped<'_>,
        [start, uploaded, computed]: [Instant; 3],
    ) -> Result<RunOutput, Error> {
        let outputs = self.split_outputs(&mapped.words()?)?;
        let timing = RunTiming { upload: uploaded - start, gpu: computed - uploaded, readback: computed.elapsed() };
        Ok(RunOutput { outputs, timing })
    }

    /// Submits and waits until it is done, so that no more than this is ever under way.
    pub(super) async fn submit(&self, submission: &Submission<'_>) -> Result<Submitted<'_>, Error> {
        let mut uploaded = Instant::now();
        let work = |_: &wgpu::Device| {
            if let Some(given) = submission.given {
                upload::write_all(self.gpu.queue(), &self.own, given);
                uploaded = Instant::now();
            }
            let bytes = self.record_and_submit(submission);
            bytes.map(|bytes| self.gpu.ask_for(&self.readback, bytes))
        };
        let outputs = if let Some(asked) = self.gpu.scoped("a run", work).await? {
            Some(asked.wait().await?)
        } else {
            self.gpu.finished().await?;
            None
        };
        Ok(Submitted { uploaded, outputs })
    }

    /// How many bytes to read back, where the outputs are asked for.
    fn record_and_submit(&self, submission: &Submission<'_>) -> Option<u64> {
        let descriptor = wgpu::CommandEncoderDescriptor { label: Some("multihead.run") };
        let mut encoder = self.gpu.device().create_command_encoder(&descriptor);
        if submission.given.is_some() {
            self.stage(&mut encoder);
        }
        let steps = &self.steps[submission.steps.clone()];
        match submission.stamps {
            Some(stamps) => stamps.record(&mut encoder, steps),
            None => record(&mut encoder, steps),
        }
        let bytes = submission.readback.then(|| self.encode_readback(&mut encoder));
        self.gpu.queue().submit([encoder.finish()]);
        bytes
    }
}
