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
use crate::experiments;

/// One head cannot copy two values.
///
/// # Errors
/// "bad-input" for sizes that cannot be; those of the device.
#[wasm_bindgen(js_name = copyBoth)]
pub async fn copy_both(
    place: &Place,
    num_samples: u32,
    value_dim: u32,
    seed: f64,
    progress: Option<Function>,
) -> Result<JsValue, Fault> {
    let seed = whole(seed).unsigned_abs();
    let options =
        experiments::copy_both::Options { num_samples: num_samples as usize, value_dim: value_dim as usize, seed };
    let device = place.device();
    let report = experiments::copy_both::run_with_progress(&device, &options, teller(progress)).await?;
    Ok(told(&report).into())
}

/// Letters of two words.
///
/// # Errors
/// As [`copy_both`].
#[wasm_bindgen]
pub async fn alignment(
    place: &Place,
    query: String,
    key: String,
    embedding_dim: u32,
    sharpness: f64,
    seed: f64,
) -> Result<JsValue, Fault> {
    let seed = whole(seed).unsigned_abs();
    let embedding_dim = embedding_dim as usize;
    let [query, key] = [query, key].map(|word| String::from(js_sys::JsString::from(word).normalize("NFC")));
    let options = experiments::alignment::Options { query, key, embedding_dim, sharpness, seed };
    let device = place.device();
    let report = experiments::alignment::run_composed(&device, &options).await?;
    let object = told(&report);
    set(&object, "weights", &tensor(&report.weights));
    Ok(object.into())
}

/// What more heads cost.
///
/// # Errors
/// As [`copy_both`].
#[wasm_bindgen(js_name = headsAreFree)]
pub async fn heads_are_free(
    place: &Place,
    num_hiddens: Vec<u32>,
    heads: Vec<u32>,
    num_tokens: u32,
    runs: u32,
    progress: Option<Function>,
) -> Result<JsValue, Fault> {
    let sizes = |sizes: Vec<u32>| sizes.into_iter().map(|size| size as usize).collect();
    let options = experiments::heads_are_free::Options {
        num_hiddens: sizes(num_hiddens),
        heads: sizes(heads),
        num_tokens: num_tokens as usize,
        runs: runs as usize,
    };
    let device = place.device();
    let report = experiments::heads_are_free::run_with_progress(&device, &options, teller(progress)).await?;
    Ok(told(&report).into())
}

/// Every shape of a call.
///
/// # Errors
/// As [`copy_both`].
#[wasm_bindgen]
pub async fn shapes(place: &Place, num_hiddens: u32, num_heads: u32) -> Result<JsValue, Fault> {
    let options = experiments::shapes::Options { num_hiddens: num_hiddens as usize, num_heads: num_heads as usize };
    let device = place.device();
    Ok(told(&experiments::shapes::run(&device, &options).await?).into())
}

/// A report with its text.
fn told(report: &(impl Serialize + Display)) -> Object {
    let object: Object = plain(report).unchecked_into();
    set(&object, "text", &report.to_string().into());
    object
}
