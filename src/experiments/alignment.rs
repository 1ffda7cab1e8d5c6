//! Letters of one word attend to letters of another by dot products of shared random embeddings.
//!
//! Equal letters have the same embedding, others nearly orthogonal ones (Vaswani et al. 2017, §3.2.1; a map as D2L
//! §11.4 draws them for words). So a letter with one partner attends sharply, one with k copies in the other word
//! splits its attention k ways, and one without a partner has nothing to go by and stays diffuse. Random directions of
//! D numbers have a cosine of about 1/√D: the narrower the embeddings, the more letters look alike, until the three
//! regimes run into each other.

use std::fmt;

use serde::Serialize;
use unicode_normalization::UnicodeNormalization;
use unicode_segmentation::UnicodeSegmentation;

use super::between;
use super::random::embeddings;
use crate::attention::{AttentionConfig, AttentionInputs, Mask, MultiHeadAttention};
use crate::device::Device;
use crate::error::Error;
use crate::heads::{CountedQueries, mean_entropy_bits};
use crate::maps::AttentionMap;
use crate::shape::HostTensor;

/// More letters make no picture.
const MOST_LETTERS: usize = 64;
/// A unique partner must get this much at least.
const SHARP: f64 = 0.9;
/// Each of k copies must get 1/k, give or take this part of it.
const SPLIT: f64 = 0.1;
/// Without a partner, attention must spread over at least this part of the keys.
const DIFFUSE: f64 = 0.5;

/// Which words, and how letters are embedded.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The word whose letters ask.
    pub query: String,
    /// The word whose letters are asked.
    pub key: String,
    /// D, numbers in one embedding.
    pub embedding_dim: usize,
    /// The score of two equal letters; that of two others scatters around 0 by `sharpness` / √D.
    pub sharpness: f64,
    /// What the embeddings follow from.
    pub seed: u64,
}

impl Default for Options {
    /// "attention" over "translation", 1024 numbers, equal letters score 10.
    fn default() -> Self {
        Self { query: "attention".into(), key: "translation".into(), embedding_dim: 1024, sharpness: 10.0, seed: 0 }
    }
}

/// What a letter's attention should look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "regime", content = "copies")]
pub enum Regime {
    /// One partner gets nearly everything.
    Sharp,
    /// So many copies share alike.
    Split(usize),
    /// No partner: all get about the same.
    Diffuse,
}

impl fmt::Display for Regime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sharp => f.write_str("sharp"),
            Self::Split(copies) => write!(f, "split {copies} ways"),
            Self::Diffuse => f.write_str("diffuse"),
        }
    }
}

/// One letter of the query word.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Letter {
    /// The letter.
    pub letter: String,
    /// What the other word's letters lead to expect.
    #[serde(flatten)]
    pub regime: Regime,
    /// The share of attention that goes to all partners together.
    pub share_on_partners: f64,
    /// 2^entropy of the row, in keys.
    pub effective_keys: f64,
    /// Whether the row is what the regime says: one partner ≥ 0.9; each of k copies within a tenth of 1/k; without a
    /// partner, at least half of the keys in effect.
    pub holds: bool,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Where it was computed.
    pub device: String,
    /// See [`Options::seed`].
    pub seed: u64,
    /// D.
    pub embedding_dim: usize,
    /// One for each letter of the query word.
    pub letters: Vec<Letter>,
    /// The letters of the key word.
    pub keys: Vec<String>,
    /// Whether every letter's row is in its regime.
    pub separated: bool,
    /// (1, 1, Lq, Lk), a row for each letter of the query word.
    #[serde(serialize_with = "as_rows")]
    pub weights: HostTensor,
}

/// Aligns the two words.
///
/// # Errors
/// [`Error::Invalid`] for a word without letters, [`Error::OutOfRange`] for one of too many, and for other options;
/// those of the device.
pub async fn run(device: &Device, options: &Options) -> Result<Report, Error> {
    // "é" is one letter however it was typed.
    let [query, key] = [&options.query, &options.key].map(|word| word.nfc().collect());
    run_composed(device, &Options { query, key, ..options.clone() }).await
}

/// As [`run`], of words that are in NFC already: a page has them from its browser, and need not load the tables.
///
/// # Errors
/// As [`run`].
pub async fn run_composed(device: &Device, options: &Options) -> Result<Report, Error> {
    between("embedding_dim", options.embedding_dim, 1, 1 << 16)?;
    if !(0.0..=80.0).contains(&options.sharpness) {
        return Err(Error::OutOfRange {
            what: "sharpness".into(),
            value: options.sharpness.to_string(),
            allowed: "must be between 0 and 80, beyond which 32-bit exponentials run out".into(),
        });
    }
    let [query, key] = [letters("query", &options.query)?, letters("key", &options.key)?];
    let config = AttentionConfig { scale: Some(options.sharpness), ..AttentionConfig::new(1) };
    let inputs = AttentionInputs {
        query: embeddings(&query, options.embedding_dim, options.seed)?,
        key: Some(embeddings(&key, options.embedding_dim, options.seed)?),
        value: None,
        mask: Mask::default(),
        training: None,
    };
    let got = MultiHeadAttention::core(config)?.run_with_weights(device, &inputs).await?;
    let weights = got.attention_weights.expect("they were asked for");
    let letters = rated(&query, &key, &weights)?;
    Ok(Report {
        device: device.name().into(),
        seed: options.seed,
        embedding_dim: options.embedding_dim,
        separated: letters.iter().all(|letter| letter.holds),
        letters,
        keys: key,
        weights,
    })
}

/// A composed word's letters as a reader counts them: grapheme clusters (UAX #29).
fn letters(which: &str, word: &str) -> Result<Vec<String>, Error> {
    if word.trim().is_empty() {
        return Err(Error::Invalid(format!("the {which} word has no letters; give a word such as \"attention\"")));
    }
    // Kept only so far as is needed to refuse.
    let letters: Vec<String> = word.graphemes(true).take(MOST_LETTERS + 1).map(str::to_owned).collect();
    if letters.len() > MOST_LETTERS {
        return Err(Error::OutOfRange {
            what: format!("the number of letters of the {which} word"),
            value: word.graphemes(true).count().to_string(),
            allowed: format!("a map of more than {MOST_LETTERS} cannot be read; give a shorter word"),
        });
    }
    Ok(letters)
}

fn rated(query: &[String], key: &[String], weights: &HostTensor) -> Result<Vec<Letter>, Error> {
    let rows = weights.data().chunks_exact(key.len());
    query.iter().zip(rows).map(|(letter, row)| rated_letter(letter, key, row)).collect()
}

fn rated_letter(letter: &str, key: &[impl AsRef<str>], row: &[f32]) -> Result<Letter, Error> {
    let partners: Vec<f64> = key
        .iter()
        .zip(row)
        .filter(|(other, _)| other.as_ref() == letter)
        .map(|(_, &weight)| f64::from(weight))
        .collect();
    let map = AttentionMap::new(row, 1, row.len())?;
    let effective_keys = mean_entropy_bits(&map, CountedQueries::default()).exp2();
    // From +0: an empty float sum is −0, which would print as "-0.000".
    let share_on_partners = partners.iter().fold(0.0, |sum, share| sum + share);
    let (regime, holds) = match partners.len() {
        0 => (Regime::Diffuse, effective_keys >= DIFFUSE * row.len() as f64),
        1 => (Regime::Sharp, partners[0] >= SHARP),
        copies => {
            let even = 1.0 / copies as f64;
            (Regime::Split(copies), partners.iter().all(|share| (share - even).abs() <= SPLIT * even))
        }
    };
    Ok(Letter { letter: letter.into(), regime, share_on_partners, effective_keys, holds })
}

/// (1, 1, Lq, Lk) as a list of rows.
fn as_rows<S: serde::Serializer>(weights: &HostTensor, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(weights.data().chunks(weights.shape().axes()[3].max(1)))
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let query: Vec<&str> = self.letters.iter().map(|letter| letter.letter.as_str()).collect();
        writeln!(f, "{} attends to {}", query.concat(), self.keys.concat())?;
        writeln!(f, "random embeddings of {} numbers\n", self.embedding_dim)?;
        writeln!(f, "letter  expected      on partners  keys in effect  is it so")?;
        for Letter { letter, regime, share_on_partners, effective_keys, holds } in &self.letters {
            let holds = if *holds { "yes" } else { "NO" };
            let regime = regime.to_string();
            let keys = format!("{effective_keys:.1} of {}", self.keys.len());
            writeln!(f, "{letter:<6}  {regime:<12}  {share_on_partners:>11.3}  {keys:<14}  {holds}")?;
        }
        let held = self.letters.iter().filter(|letter| letter.holds).count();
        writeln!(f, "\n{held} of {} letters are in their regime", self.letters.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rated_row(letter: &str, key: &[&str], row: &[f32]) -> (Regime, bool) {
        let rated = rated_letter(letter, key, row).unwrap();
        (rated.regime, rated.holds)
    }

    #[test]
    fn regimes_follow_from_the_letters_and_are_held_against_the_row() {
        let key = ["a", "b", "a", "c"];
        assert_eq!(rated_row("b", &key, &[0.02, 0.94, 0.02, 0.02]), (Regime::Sharp, true));
        assert_eq!(rated_row("b", &key, &[0.2, 0.6, 0.1, 0.1]), (Regime::Sharp, false));
        assert_eq!(rated_row("a", &key, &[0.5, 0.0, 0.5, 0.0]), (Regime::Split(2), true));
        assert_eq!(rated_row("a", &key, &[0.6, 0.0, 0.4, 0.0]), (Regime::Split(2), false));
        assert_eq!(rated_row("z", &key, &[0.3, 0.3, 0.2, 0.2]), (Regime::Diffuse, true));
        assert_eq!(rated_row("z", &key, &[0.97, 0.01, 0.01, 0.01]), (Regime::Diffuse, false));
    }

    #[test]
    fn letters_are_what_a_reader_counts() {
        assert_eq!(letters("query", "née").unwrap(), ["n", "é", "e"]);
        assert_eq!(letters("query", "👩‍🚀ab").unwrap().len(), 3);
        assert!(letters("query", "").is_err() && letters("query", " \t").is_err());
    }
}
