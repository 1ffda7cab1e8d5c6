//! What can be said on the command line.

mod experiments;

use std::num::{IntErrorKind, ParseIntError};
use std::path::{Path, PathBuf};

use clap::builder::{NonEmptyStringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use multihead::{CaseOptions, DeviceChoice, Error, Fuse, PlanOptions, Rewriting, Settings};
use serde_json::{Number, Value};

use super::bench::PeerCommand;
pub(super) use experiments::{Experiment, LayerArguments, ReportArguments};

/// Under which flags stand that are fields of the case file.
const SETTINGS_HEADING: &str = "Settings that override the case file's";

/// Multi-head attention on any GPU, through WebGPU.
///
/// Exit codes: 0 done, 1 a check failed, 2 bad usage or input, 3 no usable device or device lost.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true, max_term_width = 100)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Compute a case: its output, its attention weights, a picture of its heads.
    Run(RunArguments),
    /// Compute cases and compare with the answers they carry; exit 1 if any differs.
    Check(CheckArguments),
    /// Print the dispatch graph of a case and how a device would work it off; run nothing.
    Plan(PlanArguments),
    /// Feed a causal case's query rows one by one to a KV cache and compare with the one-shot answer; exit 1 if it differs.
    #[command(
        after_help = "`--rewrite` decides over the projections of the steps too, whose attention always streams; `--fused` over the one-shot call alone."
    )]
    Decode(DecodeArguments),
    /// Verify scenarios of many sizes against the f64 reference, then time them.
    #[command(
        after_help = "Printed are: `median ms`, from submitting to done with inputs on the device; `with io`, with upload and readback; `spread`, from the fastest to the slowest; `steps`, dispatches; `cold ms`, compiling and the first run; `record us`, microseconds to record and submit; `MiB`, all buffers and textures alive at once; `max error`, against the f64 reference."
    )]
    Bench(BenchArguments),
    /// Run an experiment of the book: its table, its picture, its numbers as JSON.
    #[command(subcommand)]
    Experiment(Experiment),
    /// Survey every head of one or more layers: statistics, patterns, labelled links, pruning.
    Heads(LayerArguments),
    /// List every GPU adapter with what matters to attention.
    Devices(DevicesArguments),
}

#[derive(Debug, Args)]
pub(super) struct RunArguments {
    /// The case file (.safetensors).
    pub(super) case: PathBuf,
    /// Write `output` (B, Lq, E) here, as safetensors.
    #[arg(short, long, value_name = "FILE")]
    pub(super) output: Option<PathBuf>,
    /// Write `attention_weights` (B, H, Lq, Lk) too.
    #[arg(long, requires = "output")]
    pub(super) with_weights: bool,
    /// Draw the attention maps of all heads of one batch entry here, as .png or .svg.
    #[arg(long, value_name = "PICTURE")]
    pub(super) maps: Option<PathBuf>,
    /// The batch entry to draw with --maps, counted from 0.
    #[arg(long, value_name = "INDEX", default_value_t = 0, requires = "maps", value_parser = index)]
    pub(super) batch_entry: usize,
    /// Print what each dispatch took: by the device's own clock where it has one, else by running one at a time.
    #[arg(long)]
    pub(super) profile: bool,
    /// Write these times here, as a trace (JSON) that viewers such as Perfetto open.
    #[arg(long, value_name = "FILE")]
    pub(super) profile_trace: Option<PathBuf>,
    #[command(flatten)]
    pub(super) tune: TuneArguments,
    #[command(flatten)]
    pub(super) how: HowArguments,
}

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// The case files (.safetensors), each with `expected.output` or `expected.attention_weights`.
    #[arg(required = true)]
    pub(super) cases: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) how: HowArguments,
}

#[derive(Debug, Args)]
pub(super) struct PlanArguments {
    /// The case file (.safetensors).
    pub(super) case: PathBuf,
    /// Plan for returning the attention weights too.
    #[arg(long)]
    pub(super) with_weights: bool,
    #[command(flatten)]
    pub(super) tune: TuneArguments,
    #[command(flatten)]
    pub(super) how: HowArguments,
}

#[derive(Debug, Args)]
pub(super) struct DecodeArguments {
    /// The case file (.safetensors), causal; where it has more keys than queries, the queries are the last of the rows.
    pub(super) case: PathBuf,
    /// How many of the query rows to feed one by one, after all rows before them in one chunk; by default all.
    #[arg(long, value_name = "N", value_parser = index)]
    pub(super) steps: Option<usize>,
    /// How the cache stores keys and values. The answer is that of unrounded ones: with f16 and without --tolerance, four
    /// times 2⁻¹¹ of its largest number is added to the case's tolerance, for a half is up to 2⁻¹¹ of itself off.
    #[arg(long, value_enum, default_value_t = Storage::F32)]
    storage: Storage,
    #[command(flatten)]
    pub(super) how: HowArguments,
}

/// How a cache stores numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Storage {
    F32,
    F16,
}

impl DecodeArguments {
    /// Whether keys and values are stored as 16-bit floats.
    pub(super) fn halves(&self) -> bool {
        self.storage == Storage::F16
    }
}

#[derive(Debug, Args)]
pub(super) struct BenchArguments {
    /// Which scenarios, separated by commas: P1, P2, P3, C (C/full, C/causal), H (H/1 to H/64), X, G (a step of a cache;
    /// G/uncached, a call), L, W, matmul (matmul/512, matmul/1024), and M, which takes long and is not among those that run
    /// by default.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) only: Vec<String>,
    /// Which adapter: `auto` or a part of its name.
    #[arg(long, default_value = "auto", value_name = "DEVICE", value_parser = device())]
    pub(super) device: DeviceChoice,
    #[command(flatten)]
    computing: ComputingArguments,
    #[command(flatten)]
    pub(super) tune: TuneArguments,
    /// Another program to compute the same scenarios, in turn with this one: its name, and the command that starts it and
    /// then answers as peers/README.md says. Can be given several times.
    #[arg(long = "peer", value_name = "NAME=COMMAND")]
    pub(super) peers: Vec<PeerCommand>,
    /// Compute one scenario once, and say how long it took from the start of the program to the first result.
    #[arg(long, conflicts_with = "peers")]
    pub(super) once: bool,
    /// Print JSON, one object a line.
    #[arg(long)]
    pub(super) json: bool,
}

impl BenchArguments {
    /// How to compile a scenario's graph.
    pub(super) fn plan_options(&self) -> PlanOptions {
        self.computing.plan_options()
    }
}

/// Which way a graph is computed.
#[derive(Debug, Args)]
struct ComputingArguments {
    /// Whether to stream over the keys, never storing scores; with `on`, weights that are asked for are recovered from the
    /// rows' statistics; on the CPU device it changes nothing.
    #[arg(long, value_enum, default_value_t = Switch::Auto)]
    fused: Switch,
    /// Whether the graph may be computed in fewer dispatches; `off` is one for each op as the book has them, and implies
    /// `--fused off` unless that is `on`.
    #[arg(long, value_enum, default_value_t = OnOff::On)]
    rewrite: OnOff,
}

/// Whether kernels are chosen by measuring.
#[derive(Debug, Args)]
pub(super) struct TuneArguments {
    /// Whether to measure first, for at most about 300 ms, which tile is the fastest for each product of `matmul_tiled`, and
    /// to remember it in the user's cache folder. The answer has the same bits; on a CPU adapter nothing changes.
    #[arg(long, value_enum, default_value_t = OnOff::Off)]
    tune: OnOff,
}

impl TuneArguments {
    /// Whether to measure.
    pub(super) fn is_on(&self) -> bool {
        self.tune == OnOff::On
    }
}

#[derive(Debug, Args)]
pub(super) struct DevicesArguments {
    /// Print JSON, one object a line.
    #[arg(long)]
    pub(super) json: bool,
}

/// What all commands on cases share.
#[derive(Debug, Args)]
pub(super) struct HowArguments {
    /// Where to compute: `auto` (the best adapter, else the CPU), `cpu`, or a part of an adapter's name.
    #[arg(long, default_value = "auto", value_name = "DEVICE", value_parser = device())]
    pub(super) device: DeviceChoice,
    #[command(flatten)]
    computing: ComputingArguments,
    /// Take the projection weights from this safetensors file (D2L, PyTorch, BERT, Llama or GPT-2 names, under --prefix)
    /// instead of the case's own.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Print JSON, one object a line.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    settings: SettingsArguments,
    #[command(flatten)]
    comparing: ComparingArguments,
}

/// How an answer is held against the expected one.
#[derive(Debug, Args)]
#[command(next_help_heading = SETTINGS_HEADING)]
struct ComparingArguments {
    /// The t of |got − expected| ≤ t·(1 + |expected|); by default 1e-4.
    #[arg(long, value_name = "T", allow_hyphen_values = true, value_parser = number("tolerance"))]
    tolerance: Option<Settings>,
}

/// Whether attention streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
    Auto,
}

/// The two values of a flag for what is either done or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnOff {
    On,
    Off,
}

/// The case file's settings, which a flag of the same name overrides.
///
/// A number is held to the rules of its field where it is read, so that the sentence names the flag, not the file.
#[derive(Debug, Args)]
#[command(next_help_heading = SETTINGS_HEADING)]
struct SettingsArguments {
    /// Query heads, H.
    #[arg(long, value_name = "H", allow_hyphen_values = true, value_parser = number("num_heads"))]
    num_heads: Option<Settings>,
    /// Key/value heads, G, which divides H; by default what the weights say, else H.
    #[arg(long, value_name = "G", allow_hyphen_values = true, value_parser = number("num_kv_heads"))]
    num_kv_heads: Option<Settings>,
    /// Width of one query or key head, d; by default what the weights say, else E / H.
    #[arg(long, value_name = "WIDTH", allow_hyphen_values = true, value_parser = number("head_dim"))]
    head_dim: Option<Settings>,
    /// Query i sees keys up to position i + the query offset only; `--causal=false` switches it off.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    causal: Option<bool>,
    /// Where the first query stands among the keys, for --causal and --window; any integer, by default 0.
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true, value_parser = number("query_offset"))]
    query_offset: Option<Settings>,
    /// A query sees keys nearer to its position than this only; at least 1.
    #[arg(long, value_name = "KEYS", allow_hyphen_values = true, value_parser = number("window"))]
    window: Option<Settings>,
    /// What scores are multiplied with; by default 1/√d.
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true, value_parser = number("scale"))]
    scale: Option<Settings>,
    /// Where the names of the weights begin, such as `encoder.layer.3.`.
    #[arg(long)]
    prefix: Option<String>,
    /// The probability of dropping a weight; above 0 the call is one of training and needs a seed.
    #[arg(long, value_name = "P", allow_hyphen_values = true, value_parser = number("dropout"))]
    dropout: Option<Settings>,
    /// What the pattern of dropped weights follows from.
    #[arg(long, allow_hyphen_values = true, value_parser = number("seed"))]
    seed: Option<Settings>,
}

/// Reads a place in a list.
fn index(text: &str) -> Result<usize, String> {
    text.parse().map_err(|fault: ParseIntError| match fault.kind() {
        IntErrorKind::PosOverflow => format!("must be at most {}", usize::MAX),
        _ => "must be a whole number, at least 0".into(),
    })
}

/// Reads a device; an empty name, as of an unset variable, would be a part of every adapter's.
fn device() -> impl TypedValueParser<Value = DeviceChoice> {
    NonEmptyStringValueParser::new().try_map(|name| name.parse::<DeviceChoice>())
}

/// Reads a flag's text as the one setting that the case file's field of this name would be.
fn number(field: &'static str) -> impl Fn(&str) -> Result<Settings, String> + Clone {
    move |text| {
        let unsigned = text.parse::<u64>().ok().map(Number::from);
        let signed = || text.parse::<i64>().ok().map(Number::from);
        let float = || text.parse().ok().and_then(Number::from_f64);
        let number = unsigned.or_else(signed).or_else(float);
        let value = number.map_or_else(|| Value::from(text), Value::from);
        Settings::from_json(&serde_json::json!({ field: value }).to_string()).map_err(|error| match error {
            // clap says which flag and which value.
            Error::OutOfRange { allowed, .. } => allowed,
            error => error.to_string(),
        })
    }
}

impl SettingsArguments {
    /// All flags together.
    fn settings(&self) -> Settings {
        let texts = Settings { causal: self.causal, prefix: self.prefix.clone(), ..Settings::default() };
        let numbers = [
            &self.num_heads,
            &self.num_kv_heads,
            &self.head_dim,
            &self.query_offset,
            &self.window,
            &self.scale,
            &self.dropout,
            &self.seed,
        ];
        numbers.into_iter().flatten().fold(texts, |settings, number| settings.overridden_by(number))
    }
}

impl ComputingArguments {
    /// How to compile a graph.
    fn plan_options(&self) -> PlanOptions {
        let pack = self.rewrite == OnOff::On;
        let fuse = match self.fused {
            Switch::On => Fuse::On,
            Switch::Auto if pack => Fuse::Auto,
            Switch::Auto | Switch::Off => Fuse::Off,
        };
        PlanOptions { rewriting: Rewriting { pack, fuse }, ..PlanOptions::default() }
    }
}

impl HowArguments {
    /// How to read a case.
    pub(super) fn case_options(&self) -> CaseOptions {
        let settings = self.settings.settings();
        let overrides = match &self.comparing.tolerance {
            Some(tolerance) => settings.overridden_by(tolerance),
            None => settings,
        };
        CaseOptions { overrides, weights: self.weights.clone() }
    }

    /// How to compile a case's graph.
    pub(super) fn plan_options(&self) -> PlanOptions {
        self.computing.plan_options()
    }

    /// Whether the tolerance is said here, and not by the case or by default.
    pub(super) fn has_tolerance(&self) -> bool {
        self.comparing.tolerance.is_some()
    }

    /// The file that weights are read from besides the case.
    pub(super) fn weights(&self) -> Option<&Path> {
        self.weights.as_deref()
    }
}
