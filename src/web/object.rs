//! Values on their way to JavaScript.

use std::time::Duration;

use js_sys::{BigInt, Float32Array, Object, Reflect};
use serde::Serialize;
use serde_wasm_bindgen::Serializer;
use wasm_bindgen::JsValue;

use crate::{HostTensor, Shape};

/// Up to here a double has every whole number.
const LARGEST_SAFE: u128 = (1 << 53) - 1;

/// A whole number: a number where a double has it exactly, else a `BigInt`.
pub(super) fn integer(number: i128) -> JsValue {
    if number.unsigned_abs() <= LARGEST_SAFE { (number as f64).into() } else { BigInt::from(number).into() }
}

/// A plain object: maps are objects too, what is absent is null, numbers beyond JSON (NaN) stay what they are. Whole
/// numbers have to be such as a double has exactly; others go through [`integer`].
pub(super) fn plain(value: &impl Serialize) -> JsValue {
    value
        .serialize(&Serializer::json_compatible())
        .expect("strings, numbers and lists should have a value in JavaScript")
}

/// An object of these properties.
pub(super) fn object<const N: usize>(properties: [(&str, JsValue); N]) -> JsValue {
    let object = Object::new();
    for (name, value) in properties {
        set(&object, name, &value);
    }
    object.into()
}

/// Gives an object that nobody has frozen a property.
pub(super) fn set(object: &Object, name: &str, value: &JsValue) {
    Reflect::set(object, &name.into(), value).expect("an object of ours should take any property");
}

/// `{ data: Float32Array, shape }`.
pub(super) fn tensor(tensor: &HostTensor) -> JsValue {
    object([("data", Float32Array::from(tensor.data()).into()), ("shape", plain(&tensor.shape().axes()))])
}

/// A tensor, or null.
pub(super) fn optional_tensor(given: Option<&HostTensor>) -> JsValue {
    given.map_or(JsValue::NULL, tensor)
}

/// Axes, for what has no numbers.
pub(super) fn axes(shape: &Shape) -> Vec<usize> {
    shape.axes().to_vec()
}

/// Milliseconds.
pub(super) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
