//! Self-attention and cross-attention: one module, wired in two ways (D2L §10.3 and §11.7).
//!
//! Queries, keys and values are arguments. Give one sequence for all three and it attends to itself; give another for
//! keys and values and the first reads the second. Nothing in the module changes, and the output is always as long as
//! the queries. Here words have shared random embeddings, and queries and keys the same projection, so that equal words
//! find each other and the two maps can be read.

use std::fmt;

use serde::Serialize;

use super::between;
use super::random::{Normal, embeddings, square_weights};
use crate::attention::{AttentionConfig, AttentionInputs, AttentionOutput, MultiHeadAttention, Weights};
use crate::compare::Comparison;
use crate::device::Device;
use crate::error::Error;
use crate::shape::{HostTensor, Shape};

/// E.
const NUM_HIDDENS: usize = 128;
/// H.
const NUM_HEADS: usize = 2;
/// How much equal words outscore others.
const SHARPNESS: f64 = 6.0;
/// More words make no picture.
const MOST_WORDS: usize = 40;
/// Longer words are cut on every axis.
const MOST_LETTERS: usize = 64;

/// The two sequences.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The sequence that asks; words between spaces.
    pub query: String,
    /// The sequence that it reads in the second wiring.
    pub key: String,
    /// What embeddings and weights follow from.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { query: "the cat sat on the mat".into(), key: "a dog and a cat slept on a rug".into(), seed: 0 }
    }
}

/// The module, called with one wiring.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wiring {
    /// "self-attention" or "cross-attention".
    pub name: &'static str,
    /// The words whose rows are queries.
    pub queries: Vec<String>,
    /// The words whose rows are keys and values.
    pub keys: Vec<String>,
    /// (1, Lq, E).
    pub query_shape: Vec<usize>,
    /// (1, Lk, E).
    pub key_shape: Vec<usize>,
    /// (1, Lq, E).
    pub output_shape: Vec<usize>,
    /// Elements of all parameters.
    pub parameters: u64,
    /// (1, H, Lq, Lk).
    #[serde(skip)]
    pub weights: HostTensor,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Where it was computed.
    pub device: String,
    /// See [`Options::seed`].
    pub seed: u64,
    /// Self-attention, then cross-attention.
    pub wirings: Vec<Wiring>,
    /// Largest difference between self-attention and cross-attention to a copy of the same sequence: 0.
    pub cross_with_itself: f64,
    /// Largest difference in the cross-attention's output when keys and values are shuffled together: rounding.
    pub shuffled_keys: f64,
    /// Largest difference in the cross-attention's output when the values alone are shuffled: not small.
    pub shuffled_values: f64,
}

/// Calls the module in both ways.
///
/// # Errors
/// [`Error::Invalid`] for a sequence without words, [`Error::OutOfRange`] for one of too many; those of the device.
pub async fn run(device: &Device, options: &Options) -> Result<Report, Error> {
    let [queries, keys] = [words("query", &options.query)?, words("key", &options.key)?];
    let module = module(options.seed)?;
    let [a, b] = [embeddings(&queries, NUM_HIDDENS, options.seed)?, embeddings(&keys, NUM_HIDDENS, options.seed)?];
    let own = AttentionInputs::self_attention(a.clone());
    let cross = AttentionInputs::cross_attention(a.clone(), b.clone());
    let order = Normal::new(options.seed).order(keys.len());
    let shuffled = reordered(&b, &order)?;
    let copied = AttentionInputs::cross_attention(a.clone(), a.clone());
    let both_shuffled = AttentionInputs::cross_attention(a, shuffled.clone());
    let values_shuffled = AttentionInputs { value: Some(shuffled), ..cross.clone() };

    let mut outputs = Vec::new();
    for inputs in [&own, &cross, &copied, &both_shuffled, &values_shuffled] {
        outputs.push(module.run_with_weights(device, inputs).await?);
    }
    let difference = |one: usize, other: usize| {
        Comparison::new("output", &outputs[one].output, &outputs[other].output, 0.0).max_error
    };
    let wiring = |name, keys: &[&str], inputs: &AttentionInputs, output: &AttentionOutput| {
        Ok::<_, Error>(Wiring {
            name,
            queries: owned(&queries),
            keys: owned(keys),
            query_shape: inputs.query().shape().axes().to_vec(),
            key_shape: inputs.key().shape().axes().to_vec(),
            output_shape: output.output.shape().axes().to_vec(),
            parameters: module.graph(&inputs.call_shape(), false)?.parameters(),
            weights: output.attention_weights.clone().expect("they were asked for"),
        })
    };
    Ok(Report {
        device: device.name().into(),
        seed: options.seed,
        wirings: vec![
            wiring("self-attention", &queries, &own, &outputs[0])?,
            wiring("cross-attention", &keys, &cross, &outputs[1])?,
        ],
        cross_with_itself: difference(0, 2),
        shuffled_keys: difference(1, 3),
        shuffled_values: difference(1, 4),
    })
}

fn words<'a>(which: &str, text: &'a str) -> Result<Vec<&'a str>, Error> {
    let words: Vec<&str> = text.split_whitespace().take(MOST_WORDS + 1).collect();
    if words.is_empty() {
        return Err(Error::Invalid(format!("the {which} sequence has no words; give some, with spaces between")));
    }
    let count = if words.len() > MOST_WORDS { text.split_whitespace().count() } else { words.len() };
    between(&format!("the number of words of the {which} sequence"), count, 1, MOST_WORDS)?;
    for word in &words {
        let letters = word.chars().count();
        between(&format!("the number of letters of a word of the {which} sequence"), letters, 1, MOST_LETTERS)?;
    }
    Ok(words)
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// A layer whose queries and keys share a projection.
fn module(seed: u64) -> Result<MultiHeadAttention, Error> {
    let weights = square_weights(&mut Normal::new(seed), NUM_HIDDENS)?;
    let weights = Weights { w_k: weights.w_q.clone(), ..weights };
    // A projected unit vector has a length of about √(1/H) in each head.
    let config = AttentionConfig { scale: Some(SHARPNESS * NUM_HEADS as f64), ..AttentionConfig::new(NUM_HEADS) };
    MultiHeadAttention::new(config, weights)
}

/// The rows of (1, L, E) in another order.
fn reordered(rows: &HostTensor, order: &[usize]) -> Result<HostTensor, Error> {
    let row = |&index: &usize| &rows.data()[index * NUM_HIDDENS..(index + 1) * NUM_HIDDENS];
    HostTensor::new(rows.shape().clone(), order.iter().flat_map(row).copied().collect())
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Wiring { name, queries, keys, query_shape, key_shape, output_shape, parameters, .. } in &self.wirings {
            let shape = |axes: &[usize]| Shape::from(axes.to_vec());
            writeln!(f, "{name}, {parameters} parameters")?;
            writeln!(f, "  queries         {:<12} {}", shape(query_shape).to_string(), queries.join(" "))?;
            writeln!(f, "  keys and values {:<12} {}", shape(key_shape).to_string(), keys.join(" "))?;
            writeln!(f, "  output          {}", shape(output_shape))?;
        }
        let told =
            |difference: f64| if difference < 1e-5 { "below 0.00001".into() } else { format!("{difference:.2}") };
        writeln!(f, "\nlargest difference of the outputs")?;
        writeln!(f, "  {}  self-attention, and cross-attention to a copy", told(self.cross_with_itself))?;
        writeln!(f, "  {}  cross-attention, and with keys and values shuffled together", told(self.shuffled_keys))?;
        writeln!(f, "  {:<13}  cross-attention, and with the values alone shuffled", told(self.shuffled_values))
    }
}
