//! Errors on their way to JavaScript.

use std::cell::RefCell;

use js_sys::Function;
use serde::Serialize;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

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

thread_local! {
    /// Who is told of a panic.
    static LISTENER: RefCell<Option<Function>> = const { RefCell::new(None) };
}

/// Says who is told of a panic, before it ends the wasm: a promise that waits for what panicked is never settled.
#[wasm_bindgen(js_name = onPanic)]
pub fn on_panic(listener: Function) {
    LISTENER.set(Some(listener));
    std::panic::set_hook(Box::new(|panic| {
        LISTENER.with_borrow(|listener| {
            if let Some(listener) = listener {
                // Nobody is left who could be told that telling failed.
                let _ = listener.call1(&JsValue::NULL, &panic.to_string().into());
            }
        });
    }));
}
