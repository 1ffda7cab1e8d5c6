//! Plain safetensors files, and the comparison of answers.

use std::collections::BTreeMap;

use js_sys::Object;
use serde::Serialize;
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast as _, JsValue};

use super::call::{JsTensor, optional};
use super::fault::Fault;
use super::object::{object, plain, set, tensor};
use crate::io::{Archive, tensors_to_bytes};
use crate::{AttentionOutput, Comparison, Error, Expected, RunTiming, Worst};

/// The bytes of a safetensors file; names and tensors, keys and values stand at the same places.
///
/// # Errors
/// "bad-input" for a name given twice.
#[wasm_bindgen(js_name = toSafetensors)]
pub fn to_safetensors(
    names: Vec<String>,
    tensors: Vec<JsTensor>,
    keys: Vec<String>,
    values: Vec<String>,
) -> Result<Vec<u8>, Fault> {
    let named = names.into_iter().zip(tensors).map(|(name, tensor)| Ok((name, tensor.tensor()?)));
    let tensors = named.collect::<Result<Vec<_>, Error>>()?;
    let tensors: Vec<_> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let metadata: Vec<_> = keys.into_iter().zip(values).collect();
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    Ok(tensors_to_bytes(&tensors, &metadata)?)
}

/// `{ tensors, metadata }` of a safetensors file.
///
/// # Errors
/// "bad-input" for what is wrong with the file, or holds no floats.
#[wasm_bindgen(js_name = fromSafetensors)]
pub fn from_safetensors(bytes: &[u8]) -> Result<JsValue, Fault> {
    let archive = Archive::from_bytes(bytes)?;
    // Without a prototype, a tensor may be called `__proto__`.
    let tensors = Object::create(&JsValue::NULL.unchecked_into());
    for name in archive.names() {
        set(&tensors, name, &tensor(&archive.tensor(name)?));
    }
    let metadata: BTreeMap<_, _> = archive.metadata_keys().map(|key| (key, archive.metadata(key))).collect();
    Ok(object([("tensors", tensors.into()), ("metadata", plain(&metadata))]))
}

/// `Comparison` of the package; null where nothing is expected.
///
/// # Errors
/// "bad-input" for tensors whose numbers do not fill their shapes.
#[wasm_bindgen]
pub fn compare(
    output: &JsTensor,
    weights: Option<JsTensor>,
    expected_output: Option<JsTensor>,
    expected_weights: Option<JsTensor>,
    tolerance: f64,
) -> Result<JsValue, Fault> {
    if !(tolerance >= 0.0 && tolerance.is_finite()) {
        let allowed = "must be a finite number, at least 0".into();
        return Err(Error::OutOfRange { what: "tolerance".into(), value: tolerance.to_string(), allowed }.into());
    }
    let got = AttentionOutput {
        output: output.tensor()?,
        attention_weights: optional(weights)?,
        timing: RunTiming::default(),
    };
    let expected = Expected { output: optional(expected_output)?, attention_weights: optional(expected_weights)? };
    Ok(plain(&expected.compare(&got, tolerance).map(ComparisonTold::from)))
}

/// `Comparison` of the package.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ComparisonTold {
    ok: bool,
    max_error: f64,
    worst: Option<Worst>,
}

impl From<Comparison> for ComparisonTold {
    fn from(Comparison { ok, max_error, worst }: Comparison) -> Self {
        Self { ok, max_error, worst }
    }
}
