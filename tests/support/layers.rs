//! Random layers and calls of them.

use multihead::{AttentionConfig, AttentionInputs, Device, HostTensor, Linear, Mask, MultiHeadAttention, Weights};

use super::{first_difference, random};

/// The sizes of a layer and a call. `num_kv_heads` divides `num_heads`.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub batch: usize,
    pub num_queries: usize,
    pub num_keys: usize,
    pub num_hiddens: usize,
    pub num_heads: usize,
    pub num_kv_heads: usize,
    pub head_dim: usize,
    pub value_dim: usize,
    pub biases: bool,
    pub extra_key: bool,
}

impl Spec {
    /// Plain multi-head attention with heads of equal width.
    pub fn new(batch: usize, num_queries: usize, num_keys: usize, num_heads: usize, head_dim: usize) -> Self {
        Self {
            batch,
            num_queries,
            num_keys,
            num_hiddens: num_heads * head_dim,
            num_heads,
            num_kv_heads: num_heads,
            head_dim,
            value_dim: head_dim,
            biases: true,
            extra_key: false,
        }
    }

    /// A layer of this size with random weights.
    pub fn layer(&self, rng: &mut fastrand::Rng) -> MultiHeadAttention {
        let Self { num_hiddens, num_heads, num_kv_heads, head_dim, value_dim, biases, extra_key, .. } = *self;
        let mut linear = |rows: usize, cols: usize| Linear {
            weight: scaled(random(rng, [rows, cols]), (cols as f32).sqrt().recip()),
            bias: biases.then(|| random(rng, [rows])),
        };
        let w_q = linear(num_heads * head_dim, num_hiddens);
        let w_k = linear(num_kv_heads * head_dim, num_hiddens);
        let w_v = linear(num_kv_heads * value_dim, num_hiddens);
        let w_o = linear(num_hiddens, num_heads * value_dim);
        let mut extra = |width: usize| extra_key.then(|| random(rng, [1, 1, num_kv_heads * width]));
        let (bias_k, bias_v) = (extra(head_dim), extra(value_dim));
        let weights = Weights { w_q, w_k, w_v, w_o, bias_k, bias_v };
        MultiHeadAttention::new(AttentionConfig::new(num_heads), weights).unwrap()
    }

    /// Random sequences of this size.
    pub fn inputs(&self, rng: &mut fastrand::Rng, mask: Mask) -> AttentionInputs {
        AttentionInputs {
            query: random(rng, [self.batch, self.num_queries, self.num_hiddens]),
            key: Some(random(rng, [self.batch, self.num_keys, self.num_hiddens])),
            value: Some(random(rng, [self.batch, self.num_keys, self.num_hiddens])),
            mask,
            training: None,
        }
    }
}

fn scaled(tensor: HostTensor, factor: f32) -> HostTensor {
    let shape = tensor.shape().clone();
    HostTensor::new(shape, tensor.into_data().into_iter().map(|x| x * factor).collect()).unwrap()
}

/// Runs a call on a device and holds output and weights against the reference.
pub fn check_layer(device: &Device, layer: &MultiHeadAttention, inputs: &AttentionInputs, about: &str) {
    let got = pollster::block_on(layer.run_with_weights(device, inputs)).unwrap();
    let truth = layer.reference::<f64>(inputs).unwrap();
    let naive = layer.reference::<f32>(inputs).unwrap();
    let tensors = [("output", &got.output), ("weights", got.attention_weights.as_ref().unwrap())];
    for (index, (name, got)) in tensors.into_iter().enumerate() {
        assert_eq!(got.shape(), truth[index].shape(), "{about}: {name}");
        if let Some(difference) = first_difference(got.data(), truth[index].data(), naive[index].data()) {
            panic!("{about}: {name} {} on {} {difference}", got.shape(), device.name());
        }
    }
}
