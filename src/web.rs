//! What a page's JavaScript calls: case files computed on the browser's GPU. Of wasm only, with the feature `web`.
#![cfg(target_arch = "wasm32")]

use js_sys::Float32Array;
use wasm_bindgen::JsError;
use wasm_bindgen::prelude::wasm_bindgen;

use crate::kernels;
use crate::{
    AttentionOutput, Case, CaseOptions, Comparison, Device, Error, Gpu, GpuOptions, HostTensor, PlanOptions,
    PlanSummary,
};

/// The browser's GPU, opened once for all calls.
#[wasm_bindgen]
#[derive(Debug)]
pub struct WebGpu {
    gpu: Gpu,
}

/// An answer, and how it was computed.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Computed {
    answer: AttentionOutput,
    kernels: Vec<String>,
    comparison: Option<Comparison>,
}

#[wasm_bindgen]
impl WebGpu {
    /// Opens the browser's best adapter.
    ///
    /// # Errors
    /// A JavaScript `Error` with the sentence, where the browser has none or refuses it.
    pub async fn open() -> Result<Self, JsError> {
        Ok(Self { gpu: Gpu::open(&GpuOptions::default()).await? })
    }

    /// The adapter's name.
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn adapter(&self) -> String {
        self.gpu.profile().name.clone()
    }

    /// Computes the case in the bytes of a case file, with these kernels wherever they apply.
    ///
    /// # Errors
    /// A JavaScript `Error` with the sentence, for whatever is wrong with the case, the kernels' names or the device.
    pub async fn compute(&self, case: Vec<u8>, preferred_kernels: Vec<String>) -> Result<Computed, JsError> {
        let case = Case::from_bytes(&case, &CaseOptions::default())?;
        let preferred_kernels = preferred_kernels.iter().map(|name| named(name)).collect::<Result<_, _>>()?;
        Ok(compute(&self.gpu, &case, &PlanOptions { preferred_kernels, ..PlanOptions::default() }).await?)
    }
}

#[wasm_bindgen]
impl Computed {
    /// (B, Lq, E), row-major.
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn output(&self) -> Float32Array {
        Float32Array::from(self.answer.output.data())
    }

    /// The output's axes.
    #[must_use]
    #[wasm_bindgen(getter, js_name = outputShape)]
    pub fn output_shape(&self) -> Vec<usize> {
        self.answer.output.shape().axes().to_vec()
    }

    /// (B, H, Lq, Lk), row-major.
    #[must_use]
    #[wasm_bindgen(getter, js_name = attentionWeights)]
    pub fn attention_weights(&self) -> Option<Float32Array> {
        self.answer.attention_weights.as_ref().map(HostTensor::data).map(Float32Array::from)
    }

    /// The weights' axes.
    #[must_use]
    #[wasm_bindgen(getter, js_name = attentionWeightsShape)]
    pub fn attention_weights_shape(&self) -> Option<Vec<usize>> {
        self.answer.attention_weights.as_ref().map(|weights| weights.shape().axes().to_vec())
    }

    /// The kernel of each dispatch.
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn kernels(&self) -> Vec<String> {
        self.kernels.clone()
    }

    /// Whether the answer is the one that the case file expects; undefined where it expects none.
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn agrees(&self) -> Option<bool> {
        self.comparison.as_ref().map(|comparison| comparison.ok)
    }

    /// The largest difference from what the case file expects.
    #[must_use]
    #[wasm_bindgen(getter, js_name = maxError)]
    pub fn max_error(&self) -> Option<f64> {
        self.comparison.as_ref().map(|comparison| comparison.max_error)
    }

    /// The element that comes off worst: "output[0, 1, 2] is 0.5, expected 1".
    #[must_use]
    #[wasm_bindgen(getter)]
    pub fn worst(&self) -> Option<String> {
        Some(self.comparison.as_ref()?.worst.as_ref()?.to_string())
    }
}

/// Names of all kernels that compute an op ("matmul", "softmax") and need no more than browsers give wgpu.
#[must_use]
#[wasm_bindgen(js_name = kernelsOf)]
pub fn kernels_of(op: &str) -> Vec<String> {
    let of_op = kernels::all().filter(|kernel| kernel.op == op && !kernel.needs_subgroups());
    of_op.map(|kernel| kernel.name.into()).collect()
}

fn named(name: &str) -> Result<&'static str, Error> {
    let found = kernels::all().map(|kernel| kernel.name).find(|&known| known == name);
    found.ok_or_else(|| Error::UnknownName { kind: "kernel".into(), name: name.into(), nearest: None })
}

async fn compute(gpu: &Gpu, case: &Case, options: &PlanOptions) -> Result<Computed, Error> {
    let attention = case.attention()?;
    let device = Device::Gpu(gpu.clone());
    let call = case.inputs.call_shape();
    let answer = attention.compile_with(&device, &call, true, options).await?.run(&case.inputs).await?;
    let plan = PlanSummary::with_options(&attention.graph(&call, true)?, gpu.profile(), options)?;
    Ok(Computed {
        kernels: plan.steps.into_iter().map(|step| step.variant).collect(),
        comparison: case.expected.compare(&answer, case.tolerance()),
        answer,
    })
}
