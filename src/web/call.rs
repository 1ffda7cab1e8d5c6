//! Calls on their way from JavaScript. The package has seen to it that every property is of its type; what the numbers
//! mean is checked here and below.

use js_sys::Function;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use super::device::browsers_kernels;
use super::object::object;
use crate::{
    AttentionInputs, CallShape, Error, Fuse, HostTensor, Linear, Mask, PlanOptions, Progress, Rewriting, Shape,
    Training, Weights,
};

#[wasm_bindgen]
extern "C" {
    /// `{ data, shape }`; `data` is absent where shapes are enough.
    #[derive(Clone, Debug)]
    pub type JsTensor;
    #[wasm_bindgen(method, getter)]
    fn shape(this: &JsTensor) -> Vec<u32>;
    #[wasm_bindgen(method, getter, js_name = data)]
    fn floats(this: &JsTensor) -> Vec<f32>;
    #[wasm_bindgen(method, getter, js_name = data)]
    fn doubles(this: &JsTensor) -> Vec<f64>;
    #[wasm_bindgen(method, getter, js_name = data)]
    fn bytes(this: &JsTensor) -> Vec<u8>;

    /// One call: inputs, mask, and how to compute.
    #[derive(Clone, Debug)]
    pub type JsCall;
    #[wasm_bindgen(method, getter)]
    fn query(this: &JsCall) -> JsTensor;
    #[wasm_bindgen(method, getter)]
    fn key(this: &JsCall) -> Option<JsTensor>;
    #[wasm_bindgen(method, getter)]
    fn value(this: &JsCall) -> Option<JsTensor>;
    /// Whole numbers in a Float64Array.
    #[wasm_bindgen(method, getter, js_name = validLens)]
    fn valid_lens(this: &JsCall) -> Option<JsTensor>;
    /// 0 or 1 in a Uint8Array.
    #[wasm_bindgen(method, getter)]
    fn mask(this: &JsCall) -> Option<JsTensor>;
    #[wasm_bindgen(method, getter)]
    fn bias(this: &JsCall) -> Option<JsTensor>;
    #[wasm_bindgen(method, getter)]
    fn causal(this: &JsCall) -> bool;
    #[wasm_bindgen(method, getter, js_name = queryOffset)]
    fn query_offset(this: &JsCall) -> i64;
    #[wasm_bindgen(method, getter)]
    fn window(this: &JsCall) -> Option<u64>;
    #[wasm_bindgen(method, getter)]
    fn training(this: &JsCall) -> Option<JsTraining>;
    #[wasm_bindgen(method, getter)]
    pub(super) fn scale(this: &JsCall) -> Option<f64>;
    #[wasm_bindgen(method, getter)]
    pub(super) fn temperature(this: &JsCall) -> f64;
    #[wasm_bindgen(method, getter, js_name = headScale)]
    pub(super) fn head_scale(this: &JsCall) -> Option<Vec<f32>>;
    #[wasm_bindgen(method, getter, js_name = preferredKernels)]
    fn preferred_kernels(this: &JsCall) -> Vec<String>;
    #[wasm_bindgen(method, getter)]
    fn fused(this: &JsCall) -> String;
    #[wasm_bindgen(method, getter, js_name = returnWeights)]
    pub(super) fn return_weights(this: &JsCall) -> bool;
    #[wasm_bindgen(method, getter)]
    pub(super) fn profile(this: &JsCall) -> bool;
    #[wasm_bindgen(method, getter, js_name = onProgress)]
    pub(super) fn on_progress(this: &JsCall) -> Option<Function>;
    /// How many rows of each batch entry count.
    #[wasm_bindgen(method, getter)]
    pub(super) fn counted(this: &JsCall) -> Option<Vec<u32>>;

    /// Which weights are dropped.
    #[derive(Clone, Debug)]
    pub type JsTraining;
    #[wasm_bindgen(method, getter)]
    fn dropout(this: &JsTraining) -> f64;
    #[wasm_bindgen(method, getter)]
    fn seed(this: &JsTraining) -> u64;
    #[wasm_bindgen(method, getter)]
    fn step(this: &JsTraining) -> u64;
    #[wasm_bindgen(method, getter, js_name = returnsDropped)]
    fn returns_dropped(this: &JsTraining) -> bool;

    /// What a case file says besides its call.
    #[derive(Clone, Debug)]
    pub type JsCase;
    #[wasm_bindgen(method, getter)]
    pub(super) fn about(this: &JsCase) -> Option<String>;
    /// A JSON list of lists of strings.
    #[wasm_bindgen(method, getter)]
    pub(super) fn tokens(this: &JsCase) -> Option<String>;
    #[wasm_bindgen(method, getter)]
    pub(super) fn tolerance(this: &JsCase) -> Option<f64>;
    #[wasm_bindgen(method, getter, js_name = expectedOutput)]
    pub(super) fn expected_output(this: &JsCase) -> Option<JsTensor>;
    #[wasm_bindgen(method, getter, js_name = expectedWeights)]
    pub(super) fn expected_weights(this: &JsCase) -> Option<JsTensor>;

    /// The projections by the graph's names.
    #[derive(Clone, Debug)]
    pub type JsProjections;
    #[wasm_bindgen(method, getter, js_name = W_q)]
    fn w_q(this: &JsProjections) -> JsTensor;
    #[wasm_bindgen(method, getter, js_name = W_k)]
    fn w_k(this: &JsProjections) -> JsTensor;
    #[wasm_bindgen(method, getter, js_name = W_v)]
    fn w_v(this: &JsProjections) -> JsTensor;
    #[wasm_bindgen(method, getter, js_name = W_o)]
    fn w_o(this: &JsProjections) -> JsTensor;
    #[wasm_bindgen(method, getter)]
    fn b_q(this: &JsProjections) -> Option<JsTensor>;
    #[wasm_bindgen(method, getter)]
    fn b_k(this: &JsProjections) -> Option<JsTensor>;
    #[wasm_bindgen(method, getter)]
    fn b_v(this: &JsProjections) -> Option<JsTensor>;
    #[wasm_bindgen(method, getter)]
    fn b_o(this: &JsProjections) -> Option<JsTensor>;
    #[wasm_bindgen(method, getter)]
    fn bias_k(this: &JsProjections) -> Option<JsTensor>;
    #[wasm_bindgen(method, getter)]
    fn bias_v(this: &JsProjections) -> Option<JsTensor>;
}

impl JsTensor {
    fn axes(&self) -> Shape {
        self.shape().into_iter().map(|axis| axis as usize).collect::<Vec<_>>().into()
    }

    /// Of floats.
    pub(super) fn tensor(&self) -> Result<HostTensor, Error> {
        HostTensor::new(self.axes(), self.floats())
    }

    fn integers(&self) -> Result<HostTensor<i64>, Error> {
        HostTensor::new(self.axes(), self.doubles().into_iter().map(whole).collect())
    }

    fn booleans(&self) -> Result<HostTensor<bool>, Error> {
        HostTensor::new(self.axes(), self.bytes().into_iter().map(|byte| byte != 0).collect())
    }
}

/// A whole number.
#[expect(clippy::cast_possible_truncation, reason = "the package takes only whole numbers that a double has exactly")]
pub(super) fn whole(number: f64) -> i64 {
    number as i64
}

/// A tensor that may be absent.
pub(super) fn optional(given: Option<JsTensor>) -> Result<Option<HostTensor>, Error> {
    given.map(|tensor| tensor.tensor()).transpose()
}

impl JsCall {
    /// The numbers of the call.
    pub(super) fn inputs(&self) -> Result<AttentionInputs, Error> {
        let mask = Mask {
            valid_lens: self.valid_lens().map(|tensor| tensor.integers()).transpose()?,
            attend_mask: self.mask().map(|tensor| tensor.booleans()).transpose()?,
            bias: optional(self.bias())?,
            causal: self.causal(),
            query_offset: self.query_offset(),
            window: self.window(),
        };
        let query = self.query().tensor()?;
        let training = self.training().map(|training| training.numbers());
        Ok(AttentionInputs { query, key: optional(self.key())?, value: optional(self.value())?, mask, training })
    }

    /// The shapes of the call.
    pub(super) fn call_shape(&self) -> CallShape {
        let axes = |given: Option<JsTensor>| given.map(|tensor| tensor.axes());
        CallShape {
            query: self.query().axes(),
            key: axes(self.key()),
            value: axes(self.value()),
            valid_lens: axes(self.valid_lens()),
            attend_mask: axes(self.mask()),
            bias: axes(self.bias()),
            causal: self.causal(),
            query_offset: self.query_offset(),
            window: self.window(),
            training: self.training().is_some(),
            returns_dropped: self.training().is_some_and(|training| training.returns_dropped()),
        }
    }

    /// How the call is to be computed.
    pub(super) fn plan_options(&self) -> Result<PlanOptions, Error> {
        let preferred_kernels = self.preferred_kernels().iter().map(|name| kernel(name)).collect::<Result<_, _>>()?;
        let fuse = match self.fused().as_str() {
            "on" => Fuse::On,
            "off" => Fuse::Off,
            _ => Fuse::Auto,
        };
        let rewriting = Rewriting { fuse, ..Rewriting::default() };
        Ok(PlanOptions { preferred_kernels, rewriting, ..PlanOptions::default() })
    }
}

impl JsTraining {
    fn numbers(&self) -> Training {
        Training {
            dropout: self.dropout(),
            seed: self.seed(),
            step: self.step(),
            returns_dropped: self.returns_dropped(),
        }
    }
}

/// The kernel of this name, if a browser can run it.
fn kernel(name: &str) -> Result<&'static str, Error> {
    let found = browsers_kernels().find(|kernel| kernel.name == name);
    let unknown = || Error::UnknownName { kind: "kernel for browsers".into(), name: name.into(), nearest: None };
    found.map(|kernel| kernel.name).ok_or_else(unknown)
}

impl JsProjections {
    /// The layer's weights.
    pub(super) fn weights(&self) -> Result<Weights, Error> {
        let linear = |weight: JsTensor, bias: Option<JsTensor>| {
            Ok::<_, Error>(Linear { weight: weight.tensor()?, bias: optional(bias)? })
        };
        Ok(Weights {
            w_q: linear(self.w_q(), self.b_q())?,
            w_k: linear(self.w_k(), self.b_k())?,
            w_v: linear(self.w_v(), self.b_v())?,
            w_o: linear(self.w_o(), self.b_o())?,
            bias_k: optional(self.bias_k())?,
            bias_v: optional(self.bias_v())?,
        })
    }
}

/// What tells a function of JavaScript how far something is. The package has seen to it that the function throws
/// nothing.
pub(super) fn teller(function: Option<Function>) -> impl FnMut(Progress) {
    move |Progress { done, total }| {
        if let Some(function) = &function {
            let told = object([("done", (done as f64).into()), ("total", (total as f64).into())]);
            let _ = function.call1(&JsValue::NULL, &told);
        }
    }
}
