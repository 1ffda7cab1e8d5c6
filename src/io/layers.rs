//! All attention layers of a model with sentences that went through it: one file, one case for each layer.
//!
//! | tensor | shape | |
//! |---|---|---|
//! | `encoder.layer.{l}.attention.…` | | the weights of layer l, in any layout |
//! | `sentence.{i}.layer.{l}.hidden` | (1, tokens, E) | what enters layer l when sentence i is read |
//!
//! Metadata: `sentences` (JSON, a list of texts for people), by which such a file is known; `attention` (`{"num_heads":
//! 12, "num_layers": 6}`); `tokens` (JSON, a list of strings for each sentence); and, if one likes, `about`.

use std::path::Path;

use serde::Deserialize;

use super::archive::Archive;
use super::case::{Case, CaseOptions, Expected};
use super::settings::Settings;
use super::words::{json_fault, printable};
use crate::attention::{AttentionInputs, Mask};
use crate::error::Error;
use crate::shape::HostTensor;

/// The token that stands where a sequence has ended and the longest of its batch has not.
pub const PADDING_TOKEN: &str = "[PAD]";
/// More layers than any file has.
const MOST_LAYERS: usize = 10_000;
/// Of one layer's padded sentences.
const MOST_ELEMENTS: usize = 1 << 28;

/// The metadata `attention` of such a file.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Model {
    num_heads: usize,
    num_layers: usize,
}

impl Case {
    /// Reads a case file, or a model's layers with sentences as a case for each layer: the sentences are its batch,
    /// padded to the longest, with `valid_lens`. Each has a name, fit for one line: a case file's own without its
    /// ending, "layer 3" of a model's.
    ///
    /// # Errors
    /// Those of [`Case::open`]; of a file of layers also what contradicts itself. Overridden settings and separate
    /// weights are for case files only.
    pub fn open_all(path: impl AsRef<Path>, options: &CaseOptions) -> Result<Vec<(String, Self)>, Error> {
        let path = path.as_ref();
        let archive = Archive::open(path)?;
        if !is_of_layers(&archive) {
            let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy();
            return Ok(vec![(printable(&stem), Self::of_archive(&archive, path, options)?)]);
        }
        if *options != CaseOptions::default() {
            let sentence = "this file holds a model's layers, whose settings and weights cannot be overridden";
            return Err(Error::Invalid(sentence.into()).in_file(path));
        }
        layers(&archive).map_err(|error| error.in_file(path))
    }

    /// As [`Case::open_all`], from the bytes of a file; a case file's case is called `name`.
    ///
    /// # Errors
    /// Those of [`Case::open_all`], without the file's name.
    pub fn all_from_bytes(bytes: &[u8], name: &str) -> Result<Vec<(String, Self)>, Error> {
        let archive = Archive::from_bytes(bytes)?;
        if is_of_layers(&archive) {
            layers(&archive)
        } else {
            Ok(vec![(printable(name), Self::from_archive(&archive, &CaseOptions::default())?)])
        }
    }
}

fn is_of_layers(archive: &Archive<'_>) -> bool {
    archive.metadata("sentences").is_some()
}

fn layers(archive: &Archive<'_>) -> Result<Vec<(String, Case)>, Error> {
    let model: Model = parsed(archive, "attention")?;
    let tokens: Vec<Vec<String>> = parsed(archive, "tokens")?;
    if !(1..=MOST_LAYERS).contains(&model.num_layers) {
        return Err(Error::OutOfRange {
            what: "num_layers".into(),
            value: model.num_layers.to_string(),
            allowed: format!("must be between 1 and {MOST_LAYERS}"),
        });
    }
    if tokens.is_empty() {
        return Err(Error::Invalid("metadata `tokens` has no sentence; give at least one".into()));
    }
    (0..model.num_layers).map(|layer| one_layer(archive, model, layer, &tokens)).collect()
}

fn parsed<'a, T: Deserialize<'a>>(archive: &'a Archive<'_>, key: &str) -> Result<T, Error> {
    let json = archive.metadata(key).ok_or_else(|| Error::Missing {
        what: format!("metadata `{key}`"),
        hint: "a file of a model's layers says there what it holds".into(),
    })?;
    serde_json::from_str(json)
        .map_err(|error| Error::Invalid(format!("metadata `{key}` is unusable: {}", json_fault(&error))))
}

fn one_layer(
    archive: &Archive<'_>,
    model: Model,
    layer: usize,
    tokens: &[Vec<String>],
) -> Result<(String, Case), Error> {
    let prefix = format!("encoder.layer.{layer}.");
    let weights = archive.weights(&prefix)?;
    let longest = tokens.iter().map(Vec::len).max().unwrap_or(0);
    let lens = tokens.iter().map(|sentence| i64::try_from(sentence.len()).unwrap_or(i64::MAX)).collect();
    let mask = Mask { valid_lens: Some(HostTensor::new([tokens.len()], lens)?), ..Mask::default() };
    let name = format!("layer {layer}");
    let case = Case {
        about: Some(name.clone()),
        tokens: Some(tokens.iter().map(|sentence| padded_tokens(sentence, longest)).collect()),
        settings: Settings { num_heads: Some(model.num_heads), prefix: Some(prefix), ..Settings::default() },
        inputs: AttentionInputs { mask, ..AttentionInputs::self_attention(padded(archive, layer, tokens, longest)?) },
        weights: Some(weights),
        expected: Expected::default(),
    };
    Ok((name, case))
}

fn padded_tokens(sentence: &[String], longest: usize) -> Vec<String> {
    let padding = std::iter::repeat_n(PADDING_TOKEN.to_owned(), longest - sentence.len());
    sentence.iter().cloned().chain(padding).collect()
}

/// The hidden states of all sentences, (B, longest, E), zeros after each sentence's end.
fn padded(archive: &Archive<'_>, layer: usize, tokens: &[Vec<String>], longest: usize) -> Result<HostTensor, Error> {
    let mut data = Vec::new();
    let mut num_hiddens = None;
    for (index, sentence) in tokens.iter().enumerate() {
        let name = format!("sentence.{index}.layer.{layer}.hidden");
        let hidden = archive.tensor(&name)?;
        let width = match *hidden.shape().axes() {
            [1, length, width] if length == sentence.len() && num_hiddens.is_none_or(|known| known == width) => width,
            _ => {
                return Err(Error::WrongShape {
                    what: name,
                    got: hidden.shape().clone(),
                    expected: format!("must be (1, {}, E), a row for each token, E alike in all", sentence.len()),
                });
            }
        };
        let need = tokens.len().saturating_mul(longest).saturating_mul(width);
        if need > MOST_ELEMENTS {
            return Err(Error::LimitExceeded {
                what: format!("{} sentences padded to {longest} tokens of width {width}", tokens.len()),
                need: need as u64,
                have: MOST_ELEMENTS as u64,
                unit: "numbers",
                limit: "the most for one layer".into(),
                hint: "put long sentences into a file of their own".into(),
            });
        }
        num_hiddens = Some(width);
        data.extend_from_slice(hidden.data());
        data.resize((index + 1) * longest * width, 0.0);
    }
    HostTensor::new([tokens.len(), longest, num_hiddens.unwrap_or(0)], data)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "examples/data/heads/minilm_heads.safetensors";

    #[test]
    fn every_layer_becomes_a_case_of_eight_padded_sentences() {
        let layers = Case::open_all(FILE, &CaseOptions::default()).unwrap();
        assert_eq!(layers.len(), 6);
        for (index, (name, layer)) in layers.iter().enumerate() {
            assert_eq!(*name, format!("layer {index}"));
            assert_eq!(layer.inputs.query.shape(), &[8, 18, 384]);
            let tokens = layer.tokens.as_ref().unwrap();
            assert_eq!((tokens[4][2].as_str(), tokens[4][13].as_str()), ("nurse", "[PAD]"));
            layer.attention().unwrap().check(&layer.inputs).unwrap();
        }
        let bytes = std::fs::read(FILE).unwrap();
        assert_eq!(Case::all_from_bytes(&bytes, "any").unwrap(), layers);
    }

    #[test]
    fn a_case_file_is_its_only_case() {
        let path = "tests/cases/one_head.safetensors";
        let case = Case::open(path, &CaseOptions::default()).unwrap();
        assert_eq!(Case::open_all(path, &CaseOptions::default()).unwrap(), [("one_head".to_owned(), case.clone())]);
        let bytes = std::fs::read(path).unwrap();
        assert_eq!(Case::all_from_bytes(&bytes, "a\nb").unwrap(), [("a\\nb".to_owned(), case)]);
    }

    #[test]
    fn layers_take_no_other_settings() {
        let overrides = Settings { num_heads: Some(6), ..Settings::default() };
        let error = Case::open_all(FILE, &CaseOptions { overrides, weights: None }).unwrap_err();
        insta::assert_snapshot!(error, @"examples/data/heads/minilm_heads.safetensors: this file holds a model's layers, whose settings and weights cannot be overridden");
    }
}
