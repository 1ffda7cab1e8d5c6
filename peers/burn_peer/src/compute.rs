//! Scenarios in burn: a layer is its `MultiHeadAttention`, attention without projections its `attention`.

use burn::module::Param;
use burn::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig, generate_autoregressive_mask};
use burn::tensor::module::attention;
use burn::tensor::ops::AttentionModuleOptions;
use burn::tensor::{Device, Tensor};

use crate::scenario::{Kind, Scenario};

/// Computes once, from tensors on the device.
pub(crate) type Computation = Box<dyn Fn() -> Held>;

/// What a computation gives.
pub(crate) struct Held {
    pub(crate) output: Tensor<3>,
    /// Where they are asked for.
    _weights: Option<Tensor<4>>,
}

impl From<Tensor<3>> for Held {
    fn from(output: Tensor<3>) -> Self {
        Self { output, _weights: None }
    }
}

/// What computes the scenario, or why burn has no such computation.
pub(crate) fn computation(scenario: &Scenario, device: &Device) -> Result<Computation, String> {
    let tensor = |name: &str| scenario.tensor(name).map(|data| Tensor::<3>::from_data(data, device));
    let query = tensor("query").ok_or("there is no query")?;
    if let Kind::Product = scenario.sizes.kind {
        let weight = matrix(scenario, "W", device)?.unsqueeze::<3>();
        return Ok(Box::new(move || query.clone().matmul(weight.clone()).into()));
    }
    let key = tensor("key").unwrap_or_else(|| query.clone());
    let value = tensor("value").unwrap_or_else(|| key.clone());
    if scenario.tensor("W_q").is_some() {
        layer(scenario, [query, key, value], device)
    } else {
        core(scenario, [query, key, value])
    }
}

fn layer(scenario: &Scenario, [query, key, value]: [Tensor<3>; 3], device: &Device) -> Result<Computation, String> {
    let sizes = &scenario.sizes;
    if sizes.num_heads != sizes.num_kv_heads {
        return Err("burn's layer has as many heads of keys as of queries".into());
    }
    let layer = with_weights_of(scenario, query.dims()[2], device)?;
    let mask = sizes.causal.then(|| generate_autoregressive_mask(1, query.dims()[1], device));
    let with_weights = sizes.with_weights;
    Ok(Box::new(move || {
        let input = MhaInput::new(query.clone(), key.clone(), value.clone());
        let input = mask.iter().fold(input, |input, mask| input.mask_attn(mask.clone()));
        let computed = layer.forward(input);
        Held { output: computed.context, _weights: with_weights.then_some(computed.weights) }
    }))
}

/// The layer without dropout and biases. burn stores a projection as (in, out), the scenario as (out, in).
fn with_weights_of(scenario: &Scenario, width: usize, device: &Device) -> Result<MultiHeadAttention, String> {
    let weight = |name: &str| {
        let transposed = matrix(scenario, name, device)?.transpose().into_data();
        Ok::<_, String>(Param::from_data(transposed, device))
    };
    let config = MultiHeadAttentionConfig::new(width, scenario.sizes.num_heads).with_dropout(0.0);
    let config = config.with_query_bias(false).with_key_bias(false).with_value_bias(false).with_output_bias(false);
    let mut layer = config.init(device);
    layer.query.weight = weight("W_q")?;
    layer.key.weight = weight("W_k")?;
    layer.value.weight = weight("W_v")?;
    layer.output.weight = weight("W_o")?;
    Ok(layer)
}

fn core(scenario: &Scenario, [query, key, value]: [Tensor<3>; 3]) -> Result<Computation, String> {
    let (num_heads, num_kv_heads) = (scenario.sizes.num_heads, scenario.sizes.num_kv_heads);
    if scenario.sizes.with_weights {
        return Err("burn's attention gives no weights back".into());
    }
    let options = AttentionModuleOptions { is_causal: scenario.sizes.causal, ..Default::default() };
    Ok(Box::new(move || {
        let [batch, num_queries, width] = query.dims();
        let query = heads(query.clone(), num_heads);
        let [key, value] = [&key, &value].map(|tensor| repeated(heads(tensor.clone(), num_kv_heads), num_heads));
        let output = attention(query, key, value, None, None, options);
        output.swap_dims(1, 2).reshape([batch, num_queries, width]).into()
    }))
}

/// (B, L, H·d) → (B, H, L, d).
fn heads(tensor: Tensor<3>, num_heads: usize) -> Tensor<4> {
    let [batch, length, width] = tensor.dims();
    tensor.reshape([batch, length, num_heads, width / num_heads]).swap_dims(1, 2)
}

/// (B, G, L, d) → (B, H, L, d): burn's attention has as many heads of keys as of queries.
fn repeated(tensor: Tensor<4>, num_heads: usize) -> Tensor<4> {
    let [batch, num_kv_heads, length, head_dim] = tensor.dims();
    if num_kv_heads == num_heads {
        return tensor;
    }
    let each = tensor.unsqueeze_dim::<5>(2).expand([batch, num_kv_heads, num_heads / num_kv_heads, length, head_dim]);
    each.reshape([batch, num_heads, length, head_dim])
}

fn matrix(scenario: &Scenario, name: &str, device: &Device) -> Result<Tensor<2>, String> {
    let data = scenario.tensor(name).ok_or_else(|| format!("there is no {name}"))?;
    Ok(Tensor::from_data(data, device))
}
