//! Errors on their way to JavaScript.

use serde::Serialize;
use wasm_bindgen::JsValue;

use super::object::plain;
use crate::Error;

/// An [`Error`] as JavaScript gets it: `{ code, message, need, have, limit, unit }`, of which the package makes its
/// `MultiheadError`.
#[derive(Debug)]
pub struct Fault(Error);

#[derive(Serialize)]
struct Told {
    code: &'static str,
    message: String,
    need: Option<f64>,
    have: Option<f64>,
    limit: Option<String>,
    unit: Option<&'static str>,
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self(error)
    }
}

impl From<Fault> for JsValue {
    fn from(Fault(error): Fault) -> Self {
        let mut told =
            Told { code: code(&error), message: error.to_string(), need: None, have: None, limit: None, unit: None };
        if let Error::LimitExceeded { need, have, limit, unit, .. } = error {
            told =
                Told { need: Some(need as f64), have: Some(have as f64), limit: Some(limit), unit: Some(unit), ..told };
        }
        plain(&told)
    }
}

fn code(error: &Error) -> &'static str {
    match error {
        Error::LimitExceeded { .. } => "limit-exceeded",
        Error::NoAdapter { .. } => "no-adapter",
        Error::DeviceLost { .. } => "device-lost",
        Error::Gpu { .. } => "gpu-refused",
        _ => "bad-input",
    }
}
