//! The arguments of `multihead experiment` and `multihead heads`.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use multihead::experiments::{alignment, copy_both, heads_are_free, self_and_cross, shapes};
use multihead::plot::Theme;
use multihead::{CaseOptions, DeviceChoice};

use super::{SettingsArguments, device};

/// Which experiment.
#[derive(Debug, Subcommand)]
pub(crate) enum Experiment {
    /// One head cannot copy two values, whatever its weights; two heads can.
    CopyBoth(CopyBothArguments),
    /// Every shape of the reshape trick, from the graph of the text's two calls.
    Shapes(ShapesArguments),
    /// Parameters, flops, exponentials and measured time for 1, 2, 4 and 8 heads.
    HeadsAreFree(HeadsAreFreeArguments),
    /// Letters of one word attend to letters of another: sharp, split or diffuse.
    Alignment(AlignmentArguments),
    /// Self- and cross-attention: the same module, wired in two ways.
    SelfAndCross(SelfAndCrossArguments),
    /// Key/value heads of a layer pooled into groups: cache bytes and change of the output.
    GroupedQuery(Box<LayerArguments>),
}

/// Where to compute a report, and what to make of it.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Where to compute: `auto` (the best adapter, else the CPU), `cpu`, or a part of an adapter's name.
    #[arg(long, default_value = "auto", value_name = "DEVICE", value_parser = device())]
    pub(crate) device: DeviceChoice,
    /// Print JSON, one object.
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw a picture here, as .png or .svg.
    #[arg(long, value_name = "PICTURE")]
    pub(crate) picture: Option<PathBuf>,
    /// The colours of the picture.
    #[arg(long, value_enum, default_value_t = Colors::Light, value_name = "COLOURS", requires = "picture")]
    pub(crate) theme: Colors,
    /// Write an interactive page here, one file that needs no network.
    #[arg(long, value_name = "FILE.html")]
    pub(crate) html: Option<PathBuf>,
}

/// Paper or screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colors {
    Light,
    Dark,
}

impl From<Colors> for Theme {
    fn from(colors: Colors) -> Self {
        match colors {
            Colors::Light => Self::Light,
            Colors::Dark => Self::Dark,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CopyBothArguments {
    /// Pairs of values that the readout is fitted on.
    #[arg(long, value_name = "COUNT", default_value_t = copy_both::Options::default().num_samples)]
    samples: usize,
    /// Numbers in one value.
    #[arg(long, value_name = "WIDTH", default_value_t = copy_both::Options::default().value_dim)]
    value_dim: usize,
    /// What the random values follow from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
}

impl CopyBothArguments {
    pub(crate) fn options(&self) -> copy_both::Options {
        copy_both::Options { num_samples: self.samples, value_dim: self.value_dim, seed: self.seed }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ShapesArguments {
    /// Width of the layer, E.
    #[arg(long, value_name = "E", default_value_t = shapes::Options::default().num_hiddens)]
    num_hiddens: usize,
    /// Heads, H, which divide E.
    #[arg(long, value_name = "H", default_value_t = shapes::Options::default().num_heads)]
    num_heads: usize,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
}

impl ShapesArguments {
    pub(crate) fn options(&self) -> shapes::Options {
        shapes::Options { num_hiddens: self.num_hiddens, num_heads: self.num_heads }
    }
}

#[derive(Debug, Args)]
pub(crate) struct HeadsAreFreeArguments {
    /// Widths d, each divisible by every number of heads.
    #[arg(long, value_name = "D,…", value_delimiter = ',', default_value = "256")]
    num_hiddens: Vec<usize>,
    /// Numbers of heads h.
    #[arg(long, value_name = "H,…", value_delimiter = ',', default_value = "1,2,4,8")]
    heads: Vec<usize>,
    /// Length n of the sequence that attends to itself.
    #[arg(long, value_name = "N", default_value_t = heads_are_free::Options::default().num_tokens)]
    tokens: usize,
    /// Runs that the median time is of; 0 counts and measures nothing.
    #[arg(long, value_name = "COUNT", default_value_t = heads_are_free::Options::default().runs)]
    runs: usize,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
}

impl HeadsAreFreeArguments {
    pub(crate) fn options(&self) -> heads_are_free::Options {
        heads_are_free::Options {
            num_hiddens: self.num_hiddens.clone(),
            heads: self.heads.clone(),
            num_tokens: self.tokens,
            runs: self.runs,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct AlignmentArguments {
    /// The word whose letters ask.
    #[arg(long, value_name = "WORD", default_value_t = alignment::Options::default().query)]
    query: String,
    /// The word whose letters are asked.
    #[arg(long, value_name = "WORD", default_value_t = alignment::Options::default().key)]
    key: String,
    /// Numbers in one embedding; with 8 or so, letters run into each other.
    #[arg(long, value_name = "D", default_value_t = alignment::Options::default().embedding_dim)]
    embedding_dim: usize,
    /// The score of two equal letters; that of two others scatters around 0 by this / √D.
    #[arg(long, value_name = "SCORE", allow_hyphen_values = true)]
    #[arg(default_value_t = alignment::Options::default().sharpness)]
    sharpness: f64,
    /// What the embeddings follow from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
}

impl AlignmentArguments {
    pub(crate) fn options(&self) -> alignment::Options {
        alignment::Options {
            query: self.query.clone(),
            key: self.key.clone(),
            embedding_dim: self.embedding_dim,
            sharpness: self.sharpness,
            seed: self.seed,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct SelfAndCrossArguments {
    /// The sequence that asks; words between spaces.
    #[arg(long, value_name = "WORDS", default_value_t = self_and_cross::Options::default().query)]
    query: String,
    /// The sequence that it reads in the second wiring.
    #[arg(long, value_name = "WORDS", default_value_t = self_and_cross::Options::default().key)]
    key: String,
    /// What embeddings and weights follow from.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    pub(crate) report: ReportArguments,
}

impl SelfAndCrossArguments {
    pub(crate) fn options(&self) -> self_and_cross::Options {
        self_and_cross::Options { query: self.query.clone(), key: self.key.clone(), seed: self.seed }
    }
}

/// Which layers to look at.
#[derive(Debug, Args)]
pub(crate) struct LayerArguments {
    #[command(flatten)]
    pub(crate) report: ReportArguments,
    /// Case files, or a model's layers with sentences (.safetensors); each case is a layer.
    #[arg(required = true)]
    pub(crate) cases: Vec<PathBuf>,
    /// Take the projection weights from this safetensors file, under --prefix, instead of the cases' own.
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsArguments,
}

impl LayerArguments {
    /// How to read each case.
    pub(crate) fn case_options(&self) -> CaseOptions {
        CaseOptions { overrides: self.settings.settings(), weights: self.weights.clone() }
    }

    /// Every file that is read, and what it is.
    pub(crate) fn read(&self) -> Vec<(&str, Option<&Path>)> {
        let cases = self.cases.iter().map(|path| ("a case", Some(path.as_path())));
        cases.chain([("the weights", self.weights.as_deref())]).collect()
    }
}
