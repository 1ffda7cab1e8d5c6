//! The experiments of `multihead experiment`: reports as objects, with the text that the program prints.

use std::fmt::Display;

use js_sys::{Function, Object};
use serde::Serialize;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast as _, JsValue};

use super::call::{teller, whole};
use super::device::Place;
use super::fault::Fault;
use super::object::{plain, set, tensor};
use super::room;
use crate::experiments;

/// One head cannot copy two values. What is not given is as in the program.
///
/// # Errors
/// "bad-input" for sizes that cannot be; those of the device.
#[wasm_bindgen(js_name = copyBoth)]
pub async fn copy_both(
    place: &Place,
    num_samples: Option<u32>,
    value_dim: Option<u32>,
    seed: Option<f64>,
    progress: Option<Function>,
) -> Result<JsValue, Fault> {
    let usual = experiments::copy_both::Options::default();
    let options = experiments::copy_both::Options {
        num_samples: size(num_samples, usual.num_samples),
        value_dim: size(value_dim, usual.value_dim),
        seed: seed_of(seed, usual.seed),
    };
    let device = place.device();
    let report = experiments::copy_both::run_with_progress(&device, &options, teller(progress)).await?;
    Ok(told(&experiments::copy_both::Report { device: place.name(), ..report }).into())
}

/// Letters of two words.
///
/// # Errors
/// As [`copy_both`].
#[wasm_bindgen]
pub async fn alignment(
    place: &Place,
    query: Option<String>,
    key: Option<String>,
    embedding_dim: Option<u32>,
    sharpness: Option<f64>,
    seed: Option<f64>,
) -> Result<JsValue, Fault> {
    let usual = experiments::alignment::Options::default();
    let composed = |word: String| String::from(js_sys::JsString::from(word).normalize("NFC"));
    let options = experiments::alignment::Options {
        query: query.map_or(usual.query, composed),
        key: key.map_or(usual.key, composed),
        embedding_dim: size(embedding_dim, usual.embedding_dim),
        sharpness: sharpness.unwrap_or(usual.sharpness),
        seed: seed_of(seed, usual.seed),
    };
    let device = place.device();
    let report = experiments::alignment::run_composed(&device, &options).await?;
    let weights = tensor(&report.weights);
    let object = told(&experiments::alignment::Report { device: place.name(), ..report });
    set(&object, "weights", &weights);
    Ok(object.into())
}

/// What more heads cost.
///
/// # Errors
/// As [`copy_both`]; "limit-exceeded" for weights that wasm's memory has no room for.
#[wasm_bindgen(js_name = headsAreFree)]
pub async fn heads_are_free(
    place: &Place,
    num_hiddens: Option<Vec<u32>>,
    heads: Option<Vec<u32>>,
    num_tokens: Option<u32>,
    runs: Option<u32>,
    progress: Option<Function>,
) -> Result<JsValue, Fault> {
    let usual = experiments::heads_are_free::Options::default();
    let sizes = |given: Option<Vec<u32>>, usual| {
        given.map_or(usual, |sizes| sizes.into_iter().map(|size| size as usize).collect::<Vec<_>>())
    };
    let options = experiments::heads_are_free::Options {
        num_hiddens: sizes(num_hiddens, usual.num_hiddens),
        heads: sizes(heads, usual.heads),
        num_tokens: size(num_tokens, usual.num_tokens),
        runs: size(runs, usual.runs),
    };
    // Wider ones are refused for being wide.
    let widths = options.num_hiddens.iter().copied().filter(|&width| width <= experiments::heads_are_free::WIDEST);
    let widest = widths.max().unwrap_or(0) as u64;
    // Four projections in 32-bit floats: given, in the layer that is timed, and counted.
    room::check("a layer of this width", widest * widest * 4 * 4 * 3)?;
    let device = place.device();
    let report = experiments::heads_are_free::run_with_progress(&device, &options, teller(progress)).await?;
    Ok(told(&experiments::heads_are_free::Report { device: place.name(), ..report }).into())
}

/// Every shape of a call.
///
/// # Errors
/// As [`heads_are_free`].
#[wasm_bindgen]
pub async fn shapes(place: &Place, num_hiddens: Option<u32>, num_heads: Option<u32>) -> Result<JsValue, Fault> {
    let usual = experiments::shapes::Options::default();
    let options = experiments::shapes::Options {
        num_hiddens: size(num_hiddens, usual.num_hiddens),
        num_heads: size(num_heads, usual.num_heads),
    };
    let device = place.device();
    let report = experiments::shapes::run(&device, &options).await?;
    Ok(told(&experiments::shapes::Report { device: place.name(), ..report }).into())
}

/// A size, or what the program takes.
fn size(given: Option<u32>, usual: usize) -> usize {
    given.map_or(usual, |size| size as usize)
}

/// A whole number that is not negative, or what the program takes.
fn seed_of(given: Option<f64>, usual: u64) -> u64 {
    given.map_or(usual, |seed| whole(seed).unsigned_abs())
}

/// A report with its text.
fn told(report: &(impl Serialize + Display)) -> Object {
    let object: Object = plain(report).unchecked_into();
    set(&object, "text", &report.to_string().into());
    object
}
