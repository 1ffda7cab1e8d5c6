//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use multihead::{CaseOptions, DeviceChoice, Settings};

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
    /// Draw the attention maps of all heads of one batch entry here; .png or .svg.
    #[arg(long, value_name = "PICTURE")]
    pub(super) maps: Option<PathBuf>,
    /// The batch entry to draw.
    #[arg(long, value_name = "INDEX", default_value_t = 0, requires = "maps")]
    pub(super) batch_entry: usize,
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
    pub(super) how: HowArguments,
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
    #[arg(long, default_value = "auto", value_name = "DEVICE")]
    pub(super) device: DeviceChoice,
    /// Whether to stream over the keys; until a streaming kernel exists, every choice materialises the weights.
    #[arg(long, value_enum, default_value_t = Fused::Auto)]
    pub(super) fused: Fused,
    /// Take the projection weights from this safetensors file, whatever the case holds.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    settings: SettingsArguments,
}

/// Which attention kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Fused {
    On,
    Off,
    Auto,
}

/// The case file's settings, which a flag of the same name overrides.
#[derive(Debug, Args)]
#[command(next_help_heading = "Settings that override the case file's")]
struct SettingsArguments {
    /// Query heads, H.
    #[arg(long, value_name = "H")]
    num_heads: Option<usize>,
    /// Key/value heads, G, which divides H.
    #[arg(long, value_name = "G")]
    num_kv_heads: Option<usize>,
    /// Width of one query or key head.
    #[arg(long, value_name = "WIDTH")]
    head_dim: Option<usize>,
    /// Query i sees keys up to position i + offset; `--causal=false` switches it off.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    causal: Option<bool>,
    /// Where the first query stands among the keys; any integer.
    #[arg(long, value_name = "OFFSET", allow_hyphen_values = true)]
    query_offset: Option<i64>,
    /// A key is visible when it is nearer than this to the query's position; at least 1.
    #[arg(long, value_name = "KEYS")]
    window: Option<u64>,
    /// What scores are multiplied with; by default 1/√d, d the width of a head.
    #[arg(long, value_name = "FACTOR", allow_hyphen_values = true)]
    scale: Option<f64>,
    /// Where the names of the weights begin.
    #[arg(long)]
    prefix: Option<String>,
    /// t of |got − expected| ≤ t·(1 + |expected|).
    #[arg(long, value_name = "T")]
    tolerance: Option<f64>,
    /// The probability of dropping a weight in training; only 0, evaluation, is supported.
    #[arg(long, value_name = "P")]
    dropout: Option<f64>,
    /// What the pattern of dropped weights follows from.
    #[arg(long)]
    seed: Option<u64>,
}

impl HowArguments {
    /// How to read a case.
    pub(super) fn case_options(&self) -> CaseOptions {
        let settings = &self.settings;
        CaseOptions {
            overrides: Settings {
                num_heads: settings.num_heads,
                num_kv_heads: settings.num_kv_heads,
                head_dim: settings.head_dim,
                causal: settings.causal,
                query_offset: settings.query_offset,
                window: settings.window,
                scale: settings.scale,
                prefix: settings.prefix.clone(),
                tolerance: settings.tolerance,
                dropout: settings.dropout,
                seed: settings.seed,
            },
            weights: self.weights.clone(),
        }
    }
}
