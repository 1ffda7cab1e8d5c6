//! Case files: opened, and written.

use js_sys::{Array, Float64Array, Object, Uint8Array};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::{JsCast as _, JsValue};

use super::call::{JsCall, JsCase, optional};
use super::device::Place;
use super::fault::Fault;
use super::layer::Layer;
use super::object::{axes, integer, object, optional_tensor, plain, set, tensor};
use crate::{AttentionInputs, Case, CaseOptions, Error, Expected, HostTensor, Mask, Settings, Training};

/// Opens the bytes of a case file: `OpenedCase` of the package, with a [`Layer`] as `layer`.
///
/// # Errors
/// "bad-input" for whatever is wrong with the file.
#[wasm_bindgen(js_name = openCase)]
pub fn open_case(place: &Place, bytes: &[u8]) -> Result<JsValue, Fault> {
    let case = Case::from_bytes(bytes, &CaseOptions::default())?;
    // Before a layer is made of its parts: the file's own names say what does not fit.
    case.attention()?.check(&case.inputs)?;
    let named = case.tokens.as_ref().map_or(0, Vec::len);
    (0..named).try_for_each(|entry| case.tokens_of(entry).map(|_| ()))?;
    let tolerance = case.tolerance();
    let layer = Layer::of(place.device(), case.config()?, case.weights)?;
    let expected = object([
        ("output", optional_tensor(case.expected.output.as_ref())),
        ("weights", optional_tensor(case.expected.attention_weights.as_ref())),
    ]);
    Ok(object([
        ("layer", layer.into()),
        ("inputs", inputs_told(&case.inputs)),
        ("expected", expected),
        ("tolerance", tolerance.into()),
        ("about", plain(&case.about)),
        ("tokens", plain(&case.tokens)),
        ("settings", settings_told(&case.settings)),
    ]))
}

#[wasm_bindgen]
impl Layer {
    /// The bytes of a case file of this layer and this call.
    ///
    /// # Errors
    /// "bad-input" for inputs that do not fit the layer.
    #[wasm_bindgen(js_name = toCase)]
    pub fn to_case(&self, call: &JsCall, case: &JsCase) -> Result<Vec<u8>, Fault> {
        let inputs = call.inputs()?;
        self.attention().check(&inputs)?;
        let config = self.config();
        let settings = Settings {
            num_heads: Some(config.num_heads),
            num_kv_heads: config.num_kv_heads,
            head_dim: config.head_dim,
            scale: self.scale(&inputs.call_shape(), call)?,
            tolerance: case.tolerance(),
            ..Settings::default()
        };
        let unreadable =
            |error: serde_json::Error| Error::Invalid(format!("tokens should be lists of strings: {error}"));
        let tokens = case.tokens().map(|json| serde_json::from_str(&json).map_err(unreadable)).transpose()?;
        let expected = Expected {
            output: optional(case.expected_output())?,
            attention_weights: optional(case.expected_weights())?,
        };
        let weights = self.attention().weights().cloned();
        Ok(Case { about: case.about(), tokens, settings, inputs, weights, expected }.to_bytes()?)
    }
}

/// `AttentionInputs` of the package.
fn inputs_told(inputs: &AttentionInputs) -> JsValue {
    let AttentionInputs { query, key, value, mask, training } = inputs;
    let Mask { valid_lens, attend_mask, bias, causal, query_offset, window } = mask;
    object([
        ("query", tensor(query)),
        ("key", optional_tensor(key.as_ref())),
        ("value", optional_tensor(value.as_ref())),
        ("validLens", valid_lens.as_ref().map_or(JsValue::NULL, integers)),
        ("mask", attend_mask.as_ref().map_or(JsValue::NULL, booleans)),
        ("bias", optional_tensor(bias.as_ref())),
        ("causal", (*causal).into()),
        ("queryOffset", integer((*query_offset).into())),
        ("window", window.map_or(JsValue::NULL, |window| integer(window.into()))),
        ("training", training.as_ref().map_or(JsValue::NULL, training_told)),
    ])
}

fn training_told(training: &Training) -> JsValue {
    object([
        ("dropout", training.dropout.into()),
        ("seed", integer(training.seed.into())),
        ("step", integer(training.step.into())),
        ("returnsDropped", training.returns_dropped.into()),
    ])
}

/// `CaseSettings` of the package.
fn settings_told(settings: &Settings) -> JsValue {
    let wide = [
        ("query_offset", settings.query_offset.map(i128::from)),
        ("window", settings.window.map(i128::from)),
        ("seed", settings.seed.map(i128::from)),
    ];
    let narrow = Settings { query_offset: None, window: None, seed: None, ..settings.clone() };
    let told: Object = plain(&narrow).unchecked_into();
    for (name, number) in wide {
        if let Some(number) = number {
            set(&told, name, &integer(number));
        }
    }
    told.into()
}

fn integers(tensor: &HostTensor<i64>) -> JsValue {
    let numbers: Vec<f64> = tensor.data().iter().map(|&number| number as f64).collect();
    let data = Array::from(&Float64Array::from(numbers.as_slice()));
    object([("data", data.into()), ("shape", plain(&axes(tensor.shape())))])
}

fn booleans(tensor: &HostTensor<bool>) -> JsValue {
    let bytes: Vec<u8> = tensor.data().iter().map(|&flag| u8::from(flag)).collect();
    let data = Uint8Array::from(bytes.as_slice());
    object([("data", data.into()), ("shape", plain(&axes(tensor.shape())))])
}
