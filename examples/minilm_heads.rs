//! A real model's attention layer, end to end: layer 1 of all-MiniLM-L6-v2 (Apache-2.0) reads two sentences.
//!
//! Computes the layer on a GPU, holds the answer against the 64-bit reference, tells what each of the twelve heads looks
//! at, and draws their maps: `cargo run --release --example minilm_heads -- PICTURE.png [--device NAME]`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use multihead::heads::{CountedQueries, HeadStatistics, is_special_token, statistics, strongest_link};
use multihead::maps::AttentionMap;
use multihead::plot::{AttentionMaps, PictureFormat};
use multihead::{AttentionOutput, Case, CaseOptions, CpuReason, Device, DeviceChoice, Error, HostTensor, io};

const LAYER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/minilm_trophy_layer1.safetensors");

/// Largest difference from the 64-bit reference, as a share of 1 + |reference|, that 32-bit floats are allowed.
const TOLERANCE: f64 = 1e-4;

/// What each of the twelve heads of a real attention layer looks at.
#[derive(Debug, Parser)]
struct Arguments {
    /// Where to draw the maps; .png or .svg.
    picture: PathBuf,
    /// Where to compute: `auto`, `cpu`, or a part of an adapter's name.
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

fn main() -> ExitCode {
    match pollster::block_on(show(&Arguments::parse())) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(if error.is_device_fault() { 3 } else { 2 })
        }
    }
}

/// Runs, reports, draws; says whether the answer was right.
async fn show(arguments: &Arguments) -> Result<bool, Error> {
    let format = PictureFormat::from_path(&arguments.picture)?;
    let case = Case::open(LAYER, &CaseOptions::default())?;
    let attention = case.attention()?;
    let device = Device::open(&arguments.device).await?;
    if let Device::Cpu(CpuReason::NoGpu(reason)) = &device {
        eprintln!("warning: {reason}; computing on the CPU");
    }
    let plan = attention.compile(&device, &case.inputs.call_shape(), true).await?;
    let result = plan.run(&case.inputs).await?;
    let weights = result.attention_weights.as_ref().ok_or_else(|| Error::Invalid("no weights came back".into()))?;

    println!("{}", case.about.as_deref().unwrap_or_default());
    println!("device      {}", device.name());
    println!("query       {}  (B, L, E)", case.inputs.query.shape());
    println!("weights     {}  (B, H, Lq, Lk)", weights.shape());
    println!("output      {}  (B, L, E)", result.output.shape());
    println!("dispatches  {}", plan.num_dispatches());
    let right = report_error(&attention.reference(&case.inputs)?, &result, weights);

    for (entry, tokens) in case.tokens.iter().flatten().enumerate() {
        report_heads(weights, entry, tokens)?;
    }
    draw(arguments, format, &case, weights, device.name())?;
    println!("\nwrote {}", arguments.picture.display());
    Ok(right)
}

/// Prints the largest difference from the truth; says whether it is within the tolerance.
fn report_error(truth: &[HostTensor<f64>; 2], result: &AttentionOutput, weights: &HostTensor) -> bool {
    let [output_error, weights_error] = [(&truth[0], &result.output), (&truth[1], weights)].map(|(truth, got)| {
        let pairs = got.data().iter().zip(truth.data());
        let errors = pairs.map(|(&got, &truth)| (f64::from(got) - truth).abs() / (1.0 + truth.abs()));
        // What is no number is larger than any error.
        errors.fold(0.0, |largest, error| if error.is_nan() { f64::INFINITY } else { error.max(largest) })
    });
    let right = output_error <= TOLERANCE && weights_error <= TOLERANCE;
    let verdict = if right { "right" } else { "WRONG" };
    println!("error       {output_error:.1e} output, {weights_error:.1e} weights against the f64 reference: {verdict}");
    right
}

/// Prints a line for each head of one sentence.
fn report_heads(weights: &HostTensor, entry: usize, tokens: &[String]) -> Result<(), Error> {
    let words: Vec<&str> = words(tokens).iter().map(String::as_str).collect();
    println!("\n{}", words.join(" "));
    println!("{:>4}  {:>7}  {:<26}  between two words", "head", "entropy", "strongest attention");
    let counted = CountedQueries { num_valid: Some(words.len()), ..CountedQueries::default() };
    let maps = AttentionMap::of_batch_entry(weights, entry)?;
    for (HeadStatistics { head, entropy_bits, strongest, .. }, map) in
        statistics(weights, entry, counted)?.into_iter().zip(&maps)
    {
        let both_words = |query: usize, key: usize| {
            query != key && [query, key].iter().all(|&place| !is_special_token(words[place]) && words[place] != ".")
        };
        let told = |link: Option<multihead::heads::Link>| {
            link.map_or("none".into(), |link| format!("{} → {} {:.2}", words[link.query], words[link.key], link.weight))
        };
        let between = told(strongest_link(map, counted, both_words));
        println!("{head:>4}  {entropy_bits:>7.2}  {:<26}  {between}", told(strongest));
    }
    Ok(())
}

/// A sentence without its padding.
fn words(tokens: &[String]) -> &[String] {
    let length = tokens.iter().position(|token| token == io::PADDING_TOKEN).unwrap_or(tokens.len());
    &tokens[..length]
}

/// Draws all heads of the first sentence.
fn draw(
    arguments: &Arguments,
    format: PictureFormat,
    case: &Case,
    weights: &HostTensor,
    device: &str,
) -> Result<(), Error> {
    let tokens = case.tokens.as_ref().and_then(|tokens| tokens.first()).map_or(&[][..], Vec::as_slice);
    let notes: Vec<String> = statistics(weights, 0, CountedQueries::default())?
        .iter()
        .map(|head| format!("{:.2} bits", head.entropy_bits))
        .collect();
    let maps = AttentionMaps {
        query_tokens: tokens,
        key_tokens: tokens,
        title: "all-MiniLM-L6-v2, layer 1: what each head looks at",
        caption: &format!("computed on {device}; each row is a query and sums to 1"),
        head_notes: &notes,
        ..AttentionMaps::new(weights)
    };
    let bytes = maps.draw()?.encode(format)?;
    write(&arguments.picture, &bytes)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    io::write_atomically(path, |writer| writer.write_all(bytes))
}
