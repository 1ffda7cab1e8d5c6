//! The case file: everything about one attention call, and the answer it should give.

mod read;
mod write;

use std::path::{Path, PathBuf};

use super::archive::Archive;
use super::layout::{Prefix, weights_from_file};
use super::settings::Settings;
use crate::attention::{AttentionConfig, AttentionInputs, AttentionOutput, MultiHeadAttention, Weights};
use crate::compare::Comparison;
use crate::error::Error;
use crate::shape::HostTensor;

/// The largest relative difference that `check` lets pass where nothing else is said.
const DEFAULT_TOLERANCE: f64 = 1e-4;

/// The metadata keys of a case file.
const ATTENTION_KEY: &str = "attention";
const ABOUT_KEY: &str = "about";
const TOKENS_KEY: &str = "tokens";
/// `format` is what other writers of safetensors say of themselves.
const METADATA: [&str; 4] = [ATTENTION_KEY, ABOUT_KEY, TOKENS_KEY, "format"];

/// The tensors of a case file besides the weights.
const TENSORS: [&str; 8] =
    ["query", "key", "value", "valid_lens", "attend_mask", "bias", "expected.output", "expected.attention_weights"];

/// One attention call and, where it is known, its answer.
///
/// The program's input, its bug report and its golden test: one `.safetensors` file.
///
/// # Example
/// ```
/// use multihead::{AttentionInputs, Case, CaseOptions, Expected, HostTensor, Mask, Settings};
/// let case = Case {
///     about: Some("two queries, one head".into()),
///     tokens: None,
///     settings: Settings { num_heads: Some(1), ..Settings::default() },
///     inputs: AttentionInputs {
///         query: HostTensor::new([1, 2, 2], vec![1.0, 0.0, 0.0, 1.0])?, // (B, Lq, E)
///         key: None,
///         value: None,
///         mask: Mask { causal: true, ..Mask::default() },
///         training: None,
///     },
///     weights: None, // core attention
///     expected: Expected::default(),
/// };
/// let again = Case::from_bytes(&case.to_bytes()?, &CaseOptions::default())?;
/// assert_eq!(again.inputs, case.inputs);
/// assert_eq!(again.config()?.num_heads, 1);
/// # Ok::<(), multihead::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// A sentence about the case.
    pub about: Option<String>,
    /// The tokens of each batch entry, for pictures and surveys; a sequence ends before the first [`PADDING_TOKEN`].
    ///
    /// [`PADDING_TOKEN`]: super::PADDING_TOKEN
    pub tokens: Option<Vec<Vec<String>>>,
    /// What the file says, overridden by [`CaseOptions::overrides`].
    pub settings: Settings,
    /// Query, key, value and masks. `causal`, `query_offset` and `window` of the settings have gone into the mask, `dropout`
    /// and `seed` into the training.
    pub inputs: AttentionInputs,
    /// The projections; `None` means core attention.
    pub weights: Option<Weights>,
    /// What the call should give.
    pub expected: Expected,
}

/// The answer that a case file carries.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// (B, Lq, E).
    pub output: Option<HostTensor>,
    /// (B, H, Lq, Lk), or Lk + 1 columns with `bias_k`.
    pub attention_weights: Option<HostTensor>,
}

impl Expected {
    /// How an answer differs from this one, both tensors together; `None` where there is nothing to compare.
    #[must_use]
    pub fn compare(&self, got: &AttentionOutput, tolerance: f64) -> Option<Comparison> {
        let pairs = self.beside(got);
        pairs.map(|(name, got, expected)| Comparison::new(name, got, expected, tolerance)).reduce(Comparison::and)
    }

    /// Each tensor that is both there and expected: its name, what was computed, what was expected.
    pub fn beside<'a>(
        &'a self,
        got: &'a AttentionOutput,
    ) -> impl Iterator<Item = (&'static str, &'a HostTensor, &'a HostTensor)> {
        let output = self.output.as_ref().map(|expected| ("output", &got.output, expected));
        let weights = self.attention_weights.as_ref().zip(got.attention_weights.as_ref());
        output.into_iter().chain(weights.map(|(expected, got)| ("attention_weights", got, expected)))
    }
}

/// What is read differently from what the case file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CaseOptions {
    /// Settings that win over those in the file.
    pub overrides: Settings,
    /// A safetensors file whose weights, under the settings' `prefix`, win over those in the case file.
    pub weights: Option<PathBuf>,
}

impl Case {
    /// The tokens of a batch entry, one for each query; empty where the case says none.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for more or fewer.
    pub fn tokens_of(&self, entry: usize) -> Result<&[String], Error> {
        let tokens = self.tokens.as_ref().and_then(|tokens| tokens.get(entry)).map_or(&[][..], Vec::as_slice);
        let num_queries = self.inputs.query.shape().axes().get(1).copied().unwrap_or(0);
        if tokens.is_empty() || tokens.len() == num_queries {
            return Ok(tokens);
        }
        Err(Error::OutOfRange {
            what: format!("the number of `tokens` of batch entry {entry}"),
            value: tokens.len().to_string(),
            allowed: format!("there are {num_queries} queries to name; give as many, or none"),
        })
    }

    /// Reads a case file.
    ///
    /// # Errors
    /// [`Error::File`], naming the case file or the weights file, around:
    /// [`Error::Io`] when the system refuses, [`Error::Missing`] for an absent metadata `attention`, `query` or member
    /// of a weight layout, [`Error::UnknownName`] for a tensor or field that nothing knows, [`Error::OutOfRange`] and
    /// [`Error::WrongShape`] for values and ranks, [`Error::Invalid`] for what is no safetensors file or contradicts
    /// itself. Whether the tensors fit each other is for the attention to say.
    pub fn open(path: impl AsRef<Path>, options: &CaseOptions) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::of_archive(&Archive::open(path)?, path, options)
    }

    /// The case in an archive that was read from this file.
    pub(super) fn of_archive(archive: &Archive<'_>, path: &Path, options: &CaseOptions) -> Result<Self, Error> {
        let case = Self::from_archive(archive, options).map_err(|error| error.in_file(path))?;
        case.with_weights_of(options)
    }

    /// Reads the bytes of a case file.
    ///
    /// # Errors
    /// Those of [`Case::open`]; only what is wrong with the weights file names a file.
    pub fn from_bytes(bytes: &[u8], options: &CaseOptions) -> Result<Self, Error> {
        let archive = Archive::from_bytes(bytes)?;
        Self::from_archive(&archive, options)?.with_weights_of(options)
    }

    fn with_weights_of(mut self, options: &CaseOptions) -> Result<Self, Error> {
        if let Some(path) = &options.weights {
            let prefix = self.settings.prefix.as_deref().unwrap_or("");
            self.weights = Some(weights_from_file(path, prefix)?);
        }
        Ok(self)
    }

    /// How the heads are cut.
    ///
    /// # Errors
    /// [`Error::Missing`] when nothing says how many heads there are.
    pub fn config(&self) -> Result<AttentionConfig, Error> {
        let Some(num_heads) = self.settings.num_heads else {
            return Err(Error::Missing {
                what: "`num_heads` in the metadata `attention`".into(),
                hint: "add it to the file or use --num-heads".into(),
            });
        };
        Ok(AttentionConfig {
            num_heads,
            num_kv_heads: self.settings.num_kv_heads,
            head_dim: self.settings.head_dim,
            scale: self.settings.scale,
        })
    }

    /// The layer that the case describes.
    ///
    /// # Errors
    /// Those of [`Case::config`] and [`MultiHeadAttention::new`].
    pub fn attention(&self) -> Result<MultiHeadAttention, Error> {
        match &self.weights {
            Some(weights) => MultiHeadAttention::new(self.config()?, weights.clone()),
            None => MultiHeadAttention::core(self.config()?),
        }
    }

    /// t of |got − expected| ≤ t·(1 + |expected|): what the settings say, else 1e-4.
    #[must_use]
    pub fn tolerance(&self) -> f64 {
        self.settings.tolerance.unwrap_or(DEFAULT_TOLERANCE)
    }
}

fn prefix_of(settings: &Settings) -> Prefix {
    Prefix::new(settings.prefix.as_deref().unwrap_or(""))
}

#[cfg(test)]
mod tests;
