//! A layer on a device, and its calls.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use js_sys::Object;
use serde::Serialize;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;
use web_time::Instant;

use super::by_head::ByHead;
use super::call::{JsCall, JsProjections, JsTensor, optional, teller};
use super::device::Place;
use super::fault::Fault;
use super::object::{ms, object, optional_tensor, plain, set, tensor};
use super::{room, verify};
use crate::io::Archive;
use crate::reference::Real;
use crate::{
    AttentionConfig, AttentionInputs, AttentionPlan, CallShape, Clock, Device, Error, Fuse, Graph, HostTensor,
    MultiHeadAttention, Profile, RunTiming, Weights,
};

/// How many compiled calls a layer keeps: of each the parameters lie on the device once more.
const MOST_COMPILED: usize = 4;

/// A layer on a device.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Layer {
    config: AttentionConfig,
    attention: MultiHeadAttention,
    device: Rc<Device>,
    /// The calls compiled last, the latest at the end.
    compiled: RefCell<Vec<Rc<Compiled>>>,
}

/// A call ready to be run.
#[derive(Debug)]
struct Compiled {
    key: Key,
    plan: AttentionPlan,
}

/// What a compiled call serves; numbers by their bits, so that it can be compared.
#[derive(Clone, Debug, PartialEq)]
struct Key {
    call: CallShape,
    scale: Option<u64>,
    head_scale: Option<Vec<u32>>,
    return_weights: bool,
    fuse: Fuse,
    preferred_kernels: Vec<&'static str>,
}

#[wasm_bindgen]
impl Layer {
    /// A layer with these projections, or without.
    ///
    /// # Errors
    /// "bad-input" where configuration and weights do not agree.
    #[wasm_bindgen(constructor)]
    pub fn new(
        place: &Place,
        num_heads: u32,
        num_kv_heads: Option<u32>,
        head_dim: Option<u32>,
        scale: Option<f64>,
        projections: Option<JsProjections>,
    ) -> Result<Self, Fault> {
        let weights = projections.map(|projections| projections.weights()).transpose()?;
        Ok(Self::of(place.device(), config(num_heads, num_kv_heads, head_dim, scale), weights)?)
    }

    /// A layer with the projections in the bytes of a safetensors file.
    ///
    /// # Errors
    /// "bad-input" for what is wrong with the file, and as [`new`](Self::new).
    #[wasm_bindgen(js_name = ofFile)]
    pub fn of_file(
        place: &Place,
        num_heads: u32,
        num_kv_heads: Option<u32>,
        head_dim: Option<u32>,
        scale: Option<f64>,
        bytes: &[u8],
        prefix: &str,
    ) -> Result<Self, Fault> {
        let weights = Archive::from_bytes(bytes)?.weights(prefix)?;
        Ok(Self::of(place.device(), config(num_heads, num_kv_heads, head_dim, scale), Some(weights))?)
    }

    /// H.
    #[must_use]
    #[wasm_bindgen(getter, js_name = numHeads)]
    pub fn num_heads(&self) -> usize {
        self.config.num_heads
    }

    /// Whether there are projections.
    #[must_use]
    #[wasm_bindgen(getter, js_name = hasProjections)]
    pub fn has_projections(&self) -> bool {
        self.attention.weights().is_some()
    }

    /// Computes a call: `AttentionResult` of the package.
    ///
    /// # Errors
    /// Those of the inputs and of the device.
    pub async fn run(&self, call: JsCall) -> Result<JsValue, Fault> {
        let inputs = call.inputs()?;
        self.check_room(&inputs, &call)?;
        let start = Instant::now();
        let (compiled, fresh) = self.compiled(&inputs.call_shape(), &call).await?;
        let compile = if fresh { start.elapsed() } else { Duration::ZERO };
        let (mut answer, profile) = if call.profile() {
            let (answer, profile) = compiled.plan.profile(&inputs).await?;
            (answer, Some(profile))
        } else {
            (compiled.plan.run_with_progress(&inputs, teller(call.on_progress())).await?, None)
        };
        answer.output = self.scaled_side_by_side(answer.output, call.head_scale().as_deref())?;
        let result = Object::new();
        set(&result, "output", &tensor(&answer.output));
        set(&result, "timing", &plain(&Timing::new(compile, &answer.timing)));
        set(&result, "dispatches", &plain(&compiled.plan.num_dispatches()));
        set(&result, "streamed", &compiled.plan.streams().into());
        if let Some(weights) = &answer.attention_weights {
            set(&result, "weights", &tensor(weights));
        }
        if let Some(profile) = &profile {
            set(&result, "profile", &plain(&ProfileTold::new(profile)));
        }
        Ok(result.into())
    }

    /// Holds an answer against the reference: `Verification` of the package.
    ///
    /// # Errors
    /// Those of the inputs; "bad-input" for an answer of other shapes.
    pub fn verify(&self, call: &JsCall, output: &JsTensor, weights: Option<JsTensor>) -> Result<JsValue, Fault> {
        let answer = [Some(output.tensor()?), optional(weights)?];
        let inputs = call.inputs()?;
        let shape = inputs.call_shape();
        let graph = self.attention.graph(&shape, true)?;
        room::check("the reference", room::of_values(&graph, 12))?;
        let layer = self.variant(&shape, call)?;
        let start = Instant::now();
        let truth = self.truth::<f64>(&layer, &inputs, call)?;
        let naive = self.truth::<f32>(&layer, &inputs, call)?;
        Ok(plain(&verify::answer(&answer, &truth, &naive, ms(start.elapsed()))?))
    }

    /// Computes a call together with what each head adds to its output.
    ///
    /// # Errors
    /// Those of the inputs and of the device.
    #[wasm_bindgen(js_name = runByHead)]
    pub async fn run_by_head(&self, call: JsCall) -> Result<ByHead, Fault> {
        let inputs = call.inputs()?;
        let shape = inputs.call_shape();
        let graph = self.attention.graph(&shape, true)?;
        let [batch, width] = [0, 2].map(|axis| shape.query.axes()[axis] as u64);
        let parts = batch.saturating_mul(width).saturating_mul(4 * self.config.num_heads as u64);
        let parts = parts.saturating_mul(shape.query.axes()[1] as u64 + width);
        let need = room::of_outputs(&graph).saturating_add(parts.saturating_mul(2));
        room::check("a call with what each head adds", need.saturating_add(self.on_cpu(&graph)))?;
        let layer = self.variant(&shape, &call)?;
        let run = layer.run_by_head(&self.device, &inputs).await?;
        Ok(ByHead::new(run, &inputs, call.counted())?)
    }

    /// Output and weights as the CPU computes them in 64-bit floats, rounded once.
    ///
    /// # Errors
    /// Those of the inputs.
    pub fn reference(&self, call: &JsCall) -> Result<JsValue, Fault> {
        let inputs = call.inputs()?;
        let shape = inputs.call_shape();
        room::check("the reference", room::of_values(&self.attention.graph(&shape, true)?, 8).saturating_mul(2))?;
        let truth = self.truth::<f64>(&self.variant(&shape, call)?, &inputs, call)?;
        let [output, weights] = truth.map(|truth| rounded(&truth));
        Ok(object([("output", tensor(&output?)), ("weights", optional_tensor(Some(&weights?)))]))
    }
}

impl Layer {
    pub(super) fn of(device: Rc<Device>, config: AttentionConfig, weights: Option<Weights>) -> Result<Self, Error> {
        let attention = match weights {
            Some(weights) => MultiHeadAttention::new(config.clone(), weights)?,
            None => MultiHeadAttention::core(config.clone())?,
        };
        Ok(Self { config, attention, device, compiled: RefCell::default() })
    }

    pub(super) fn attention(&self) -> &MultiHeadAttention {
        &self.attention
    }

    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    pub(super) fn config(&self) -> &AttentionConfig {
        &self.config
    }

    /// The scale of a call; none where it is the layer's own.
    pub(super) fn scale(&self, shape: &CallShape, call: &JsCall) -> Result<Option<f64>, Error> {
        let temperature = call.temperature();
        let scale = call.scale().or(self.config.scale);
        #[expect(clippy::float_cmp, reason = "1 divides nothing")]
        if temperature == 1.0 {
            return Ok(scale);
        }
        let own = || Ok(1.0 / (self.attention.sizes(shape)?.head_dim as f64).sqrt());
        Ok(Some(scale.map_or_else(own, Ok::<_, Error>)? / temperature))
    }

    /// The layer with the scale and the heads of a call.
    pub(super) fn variant(&self, shape: &CallShape, call: &JsCall) -> Result<MultiHeadAttention, Error> {
        let config = AttentionConfig { scale: self.scale(shape, call)?, ..self.config.clone() };
        let head_scale = self.head_scale(call)?;
        match self.attention.weights() {
            Some(weights) => MultiHeadAttention::new(config, scaled_columns(weights, head_scale.as_deref())?),
            None => MultiHeadAttention::core(config),
        }
    }

    /// (H,), or none.
    fn head_scale(&self, call: &JsCall) -> Result<Option<Vec<f32>>, Error> {
        let Some(head_scale) = call.head_scale() else { return Ok(None) };
        if head_scale.len() == self.config.num_heads {
            return Ok(Some(head_scale));
        }
        Err(Error::WrongShape {
            what: "headScale".into(),
            got: [head_scale.len()].into(),
            expected: format!("there are {} heads", self.config.num_heads),
        })
    }

    /// A compiled call, and whether it is new.
    async fn compiled(&self, shape: &CallShape, call: &JsCall) -> Result<(Rc<Compiled>, bool), Error> {
        let options = call.plan_options()?;
        let key = Key {
            call: shape.clone(),
            scale: self.scale(shape, call)?.map(f64::to_bits),
            head_scale: self.head_scale(call)?.map(|scales| scales.into_iter().map(f32::to_bits).collect()),
            return_weights: call.return_weights(),
            fuse: options.rewriting.fuse,
            preferred_kernels: options.preferred_kernels.clone(),
        };
        if let Some(known) = self.taken(&key) {
            return Ok((known, false));
        }
        let layer = self.variant(shape, call)?;
        let plan = layer.compile_with(&self.device, shape, call.return_weights(), &options).await?;
        let compiled = Rc::new(Compiled { key, plan });
        let mut all = self.compiled.borrow_mut();
        if all.len() == MOST_COMPILED {
            all.remove(0);
        }
        all.push(Rc::clone(&compiled));
        Ok((compiled, true))
    }

    /// A call that was compiled before, now the latest.
    fn taken(&self, key: &Key) -> Option<Rc<Compiled>> {
        let mut all = self.compiled.borrow_mut();
        let place = all.iter().position(|compiled| compiled.key == *key)?;
        let known = all.remove(place);
        all.push(Rc::clone(&known));
        Some(known)
    }

    /// The reference of a call: output and weights.
    fn truth<T: Real>(
        &self,
        layer: &MultiHeadAttention,
        inputs: &AttentionInputs,
        call: &JsCall,
    ) -> Result<[HostTensor<T>; 2], Error> {
        let [output, weights] = layer.reference::<T>(inputs)?;
        Ok([self.scaled_side_by_side(output, call.head_scale().as_deref())?, weights])
    }

    /// Without projections heads stand side by side in the output, and are scaled there.
    fn scaled_side_by_side<T: Real>(
        &self,
        output: HostTensor<T>,
        head_scale: Option<&[f32]>,
    ) -> Result<HostTensor<T>, Error> {
        match head_scale {
            Some(scales) if !self.has_projections() => scaled(output, scales),
            _ => Ok(output),
        }
    }

    /// Refuses a call that wasm's memory has no room for.
    fn check_room(&self, inputs: &AttentionInputs, call: &JsCall) -> Result<(), Error> {
        let graph = self.attention.graph(&inputs.call_shape(), call.return_weights())?;
        room::check("this call", room::of_outputs(&graph).saturating_add(self.on_cpu(&graph)))
    }

    /// Bytes that the CPU takes to compute a graph.
    fn on_cpu(&self, graph: &Graph) -> u64 {
        match &*self.device {
            Device::Gpu(_) => 0,
            Device::Cpu(_) => room::of_values(graph, 4),
        }
    }
}

fn config(num_heads: u32, num_kv_heads: Option<u32>, head_dim: Option<u32>, scale: Option<f64>) -> AttentionConfig {
    let size = |size: u32| size as usize;
    AttentionConfig {
        num_kv_heads: num_kv_heads.map(size),
        head_dim: head_dim.map(size),
        scale,
        ..AttentionConfig::new(size(num_heads))
    }
}

/// `W_o` (E, H·dv) with the columns of each head multiplied.
fn scaled_columns(weights: &Weights, head_scale: Option<&[f32]>) -> Result<Weights, Error> {
    let mut weights = weights.clone();
    if let Some(scales) = head_scale {
        weights.w_o.weight = scaled(weights.w_o.weight, scales)?;
    }
    Ok(weights)
}

/// A tensor of which the last axis is H·dv, each head's columns multiplied.
fn scaled<T: Real>(tensor: HostTensor<T>, scales: &[f32]) -> Result<HostTensor<T>, Error> {
    let shape = tensor.shape().clone();
    let width = shape.axes().last().copied().unwrap_or(0);
    let value_dim = (width / scales.len()).max(1);
    let mut data = tensor.into_data();
    for (place, number) in data.iter_mut().enumerate() {
        *number = *number * T::of(scales[place % width / value_dim]);
    }
    HostTensor::new(shape, data)
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is the point")]
fn rounded(truth: &HostTensor<f64>) -> Result<HostTensor, Error> {
    HostTensor::new(truth.shape().clone(), truth.data().iter().map(|&number| number as f32).collect())
}

/// Milliseconds.
#[derive(Serialize)]
struct Timing {
    compile: f64,
    upload: f64,
    gpu: f64,
    readback: f64,
}

impl Timing {
    fn new(compile: Duration, timing: &RunTiming) -> Self {
        let RunTiming { upload, gpu, readback } = *timing;
        Self { compile: ms(compile), upload: ms(upload), gpu: ms(gpu), readback: ms(readback) }
    }
}

#[derive(Serialize)]
struct ProfileTold<'a> {
    clock: Clock,
    steps: Vec<ProfileStepTold<'a>>,
}

#[derive(Serialize)]
struct ProfileStepTold<'a> {
    op: &'a str,
    kernel: &'a str,
    output: &'a str,
    flops: f64,
    start: f64,
    took: f64,
    gflops: Option<f64>,
}

impl<'a> ProfileTold<'a> {
    fn new(profile: &'a Profile) -> Self {
        let steps = profile.steps.iter().map(|step| ProfileStepTold {
            op: &step.step.op,
            kernel: &step.step.variant,
            output: &step.step.output,
            flops: step.step.flops as f64,
            start: ms(step.start),
            took: ms(step.took),
            gflops: step.gflops(),
        });
        Self { clock: profile.clock, steps: steps.collect() }
    }
}
