//! `multihead run`: computes one case, writes what was asked for, says how it went.
//!
//! The case, the paths of the output files and the sizes are checked before a device is opened; files are written after
//! everything has been computed.

use std::time::{Duration, Instant};

use multihead::io::{self, printable};
use multihead::tuning::Choice;
use multihead::{AttentionOutput, Case, Comparison, Device, Error, HostTensor, MultiHeadAttention, Profile, Shape};
use serde::Serialize;

use super::args::RunArguments;
use super::profile::ProfileReport;
use super::progress::ProgressBar;
use super::tune::{self, Tuner};
use super::{Outcome, outputs, print};

/// What is said of a run.
#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    dispatches: usize,
    output: OutputReport<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_error: Option<f64>,
    /// The tolerance, where the error is beyond it.
    #[serde(skip)]
    beyond: Option<f64>,
    /// How many numbers of the output are infinite or NaN.
    #[serde(skip)]
    not_finite: usize,
    timing_ms: TimingReport,
    /// What `--tune` chose.
    #[serde(skip_serializing_if = "<[Choice]>::is_empty")]
    tiles: &'a [Choice],
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<ProfileReport<'a>>,
}

#[derive(Serialize)]
struct OutputReport<'a> {
    shape: &'a [usize],
    /// As text, for a path need not be Unicode and JSON is.
    file: Option<String>,
}

#[derive(Serialize)]
struct TimingReport {
    /// What `--tune on` took.
    #[serde(skip_serializing_if = "Option::is_none")]
    tune: Option<f64>,
    compile: f64,
    upload: f64,
    gpu: f64,
    readback: f64,
}

/// A computed case.
struct Computed {
    result: AttentionOutput,
    dispatches: usize,
    tune: Option<Duration>,
    compile: Duration,
    tiles: Vec<Choice>,
    profile: Option<Profile>,
}

pub(super) async fn run(arguments: &RunArguments) -> Result<Outcome, Error> {
    let case = Case::open(&arguments.case, &arguments.how.case_options())?;
    outputs::check(arguments, &case)?;
    let in_case = |error: Error| error.in_file(&arguments.case);
    let attention = case.attention().map_err(in_case)?;
    // What does not fit is found before a device is opened.
    attention.check(&case.inputs).map_err(in_case)?;
    let device = super::open(&arguments.how.device).await?;
    let computed = compute(arguments, &case, &attention, &device).await.map_err(in_case)?;
    outputs::write(arguments, &case, &computed.result)?;
    if let (Some(path), Some(profile)) = (&arguments.profile_trace, &computed.profile) {
        io::write_atomically(path, |writer| writer.write_all(profile.to_chrome_trace(device.name()).as_bytes()))?;
    }
    let report = report(arguments, &case, &device, &computed);
    if arguments.how.json {
        print::json(&report)?;
    } else {
        print::text(&told(&report, arguments, case.expected.output.as_ref(), computed.profile.as_ref()))?;
    }
    Ok(Outcome::Done)
}

fn with_weights(arguments: &RunArguments) -> bool {
    arguments.with_weights || arguments.maps.is_some()
}

async fn compute(
    arguments: &RunArguments,
    case: &Case,
    attention: &MultiHeadAttention,
    device: &Device,
) -> Result<Computed, Error> {
    let call = case.inputs.call_shape();
    let options = arguments.how.plan_options();
    let start = Instant::now();
    let (options, tiles) = if arguments.tune.is_on() {
        let graph = attention.graph(&call, with_weights(arguments))?;
        Tuner::new(true, device.gpu(), options).tuned(&graph).await?
    } else {
        (options, Vec::new())
    };
    let tune = arguments.tune.is_on().then(|| start.elapsed());
    let start = Instant::now();
    let plan = attention.compile_with(device, &call, with_weights(arguments), &options).await?;
    let compile = start.elapsed();
    let (result, profile) = if arguments.profile || arguments.profile_trace.is_some() {
        // Drivers compile on first use, which a profile is not to show.
        plan.run(&case.inputs).await?;
        let (result, profile) = plan.profile(&case.inputs).await?;
        (result, Some(profile))
    } else {
        let mut bar = ProgressBar::new();
        (plan.run_with_progress(&case.inputs, |progress| bar.show(progress)).await?, None)
    };
    Ok(Computed { result, dispatches: plan.num_dispatches(), tune, compile, tiles, profile })
}

fn report<'a>(arguments: &'a RunArguments, case: &Case, device: &'a Device, computed: &'a Computed) -> Report<'a> {
    let Computed { result, dispatches, tune, compile, tiles, profile } = computed;
    let expected = case.expected.output.as_ref();
    let comparison = expected.map(|expected| Comparison::new("output", &result.output, expected, case.tolerance()));
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
    Report {
        device: device.name(),
        dispatches: *dispatches,
        output: OutputReport {
            shape: result.output.shape().axes(),
            file: arguments.output.as_deref().map(|path| path.display().to_string()),
        },
        beyond: comparison.as_ref().filter(|comparison| !comparison.ok).map(|_| case.tolerance()),
        max_error: comparison.map(|comparison| comparison.max_error),
        not_finite: result.output.data().iter().filter(|number| !number.is_finite()).count(),
        timing_ms: TimingReport {
            tune: tune.map(milliseconds),
            compile: milliseconds(*compile),
            upload: milliseconds(result.timing.upload),
            gpu: milliseconds(result.timing.gpu),
            readback: milliseconds(result.timing.readback),
        },
        tiles,
        profile: profile.as_ref().map(ProfileReport::new),
    }
}

fn told(
    report: &Report<'_>,
    arguments: &RunArguments,
    expected: Option<&HostTensor>,
    profile: Option<&Profile>,
) -> String {
    let TimingReport { tune, compile, upload, gpu, readback } = report.timing_ms;
    let mut text = format!("device      {}\n", report.device);
    text += &format!("dispatches  {}\n", report.dispatches);
    text += &tune::told(report.tiles);
    text += &format!("output      {}", Shape::from(report.output.shape.to_vec()));
    text += &match report.not_finite {
        0 => "\n".into(),
        1 => ", of which one number is infinite or NaN\n".into(),
        many => format!(", of which {many} numbers are infinite or NaN\n"),
    };
    if let (Some(max_error), Some(expected)) = (report.max_error, expected) {
        text += &if expected.shape().axes() == report.output.shape {
            let beyond = report.beyond.map(|tolerance| format!(", beyond the tolerance {tolerance:e}"));
            format!("max error   {max_error:.1e} against expected.output{}\n", beyond.unwrap_or_default())
        } else {
            format!("max error   none: expected.output has shape {}\n", expected.shape())
        };
    }
    let tuning = tune.map(|tune| format!("tune {tune:.1}, ")).unwrap_or_default();
    text += &format!(
        "time        {:.1} ms: {tuning}compile {compile:.1}, upload {upload:.1}, compute {gpu:.1}, readback {readback:.1}\n",
        tune.unwrap_or_default() + compile + upload + gpu + readback
    );
    let written = [&arguments.output, &arguments.maps, &arguments.profile_trace];
    for path in written.into_iter().flatten() {
        text += &format!("wrote       {}\n", printable(&path.display().to_string()));
    }
    if written.iter().all(|path| path.is_none()) {
        text += "nothing was written; -o OUT.safetensors keeps the output, --maps PICTURE.png draws the heads\n";
    }
    if let Some(profile) = profile {
        text += &format!("\nprofile     {}\n\n{profile}", profile.clock);
    }
    text
}
