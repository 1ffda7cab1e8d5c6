//! The graph of one call: D2L §10.3, unfused, 11 dispatches.

use super::sizes::HeadSizes;
use super::{CallShape, Linear, Weights};
use crate::error::Error;
use crate::graph::{
    AppendKey, DType, Dropout, DropoutPattern, Graph, GraphBuilder, Matmul, Softmax, TransposeHeads, ValueId,
};
use crate::shape::Shape;

/// What decides the graph of a call.
pub(super) struct Call<'a> {
    pub(super) sizes: HeadSizes,
    pub(super) scale: f64,
    pub(super) weights: Option<&'a Weights>,
    pub(super) shape: &'a CallShape,
    /// Whether the attention weights are an output too.
    pub(super) with_weights: bool,
}

impl Call<'_> {
    /// `softmax(scale · Q·Kᵀ)·V` for all heads in one batch, then the heads joined and mixed by `W_o`.
    pub(super) fn graph(&self) -> Result<Graph, Error> {
        let HeadSizes { num_heads, num_kv_heads, .. } = self.sizes;
        let mut builder = GraphBuilder::new();
        let [query, key, value] = sequences(&mut builder, self.shape)?;
        let [q, k, v] = self.projected(&mut builder, [query, key, value])?;
        let q_heads = builder.transpose_qkv("q_heads", TransposeHeads { input: q, num_heads })?;
        let k_heads = builder.transpose_qkv("k_heads", TransposeHeads { input: k, num_heads: num_kv_heads })?;
        let v_heads = builder.transpose_qkv("v_heads", TransposeHeads { input: v, num_heads: num_kv_heads })?;
        let scores = builder.matmul("scores", self.product([q_heads, k_heads], true, false))?;
        let softmax = self.softmax(&mut builder, scores)?;
        let hides = softmax.hides();
        let weights = builder.softmax("weights", softmax)?;
        let counted = self.dropped(&mut builder, weights)?;
        let heads = builder.matmul("heads", self.product([counted, v_heads], false, hides))?;
        let joined = builder.transpose_output("joined", TransposeHeads { input: heads, num_heads })?;
        let output = match self.weights {
            Some(weights) => linear(&mut builder, "output", joined, ["W_o", "b_o"], &weights.w_o)?,
            None => joined,
        };
        let outputs = [output, if self.shape.returns_dropped { counted } else { weights }];
        Ok(builder.finish(if self.with_weights { &outputs } else { &outputs[..1] }))
    }

    /// (B, L, H·d) each, with the learned key after all others where there is one.
    fn projected(&self, builder: &mut GraphBuilder, [query, key, value]: [ValueId; 3]) -> Result<[ValueId; 3], Error> {
        let Some(weights) = self.weights else {
            return Ok([query, key, value]);
        };
        let q = linear(builder, "q", query, ["W_q", "b_q"], &weights.w_q)?;
        let mut k = linear(builder, "k", key, ["W_k", "b_k"], &weights.w_k)?;
        let mut v = linear(builder, "v", value, ["W_v", "b_v"], &weights.w_v)?;
        if let (Some(bias_k), Some(bias_v)) = (&weights.bias_k, &weights.bias_v) {
            let bias_k = builder.parameter("bias_k", bias_k.shape().clone())?;
            let bias_v = builder.parameter("bias_v", bias_v.shape().clone())?;
            k = builder.append_key("k_extended", AppendKey { input: k, key: bias_k })?;
            v = builder.append_key("v_extended", AppendKey { input: v, key: bias_v })?;
        }
        Ok([q, k, v])
    }

    fn product(&self, [lhs, rhs]: [ValueId; 2], transpose_rhs: bool, skip_hidden: bool) -> Matmul {
        let group = self.sizes.num_heads / self.sizes.num_kv_heads;
        Matmul { transpose_rhs, group, skip_hidden, ..Matmul::of(lhs, rhs) }
    }

    /// The weights that the values are multiplied with: in training some are dropped.
    fn dropped(&self, builder: &mut GraphBuilder, weights: ValueId) -> Result<ValueId, Error> {
        if !self.shape.training {
            return Ok(weights);
        }
        let pattern = builder.input("dropout", [DropoutPattern::WORDS], DType::U32)?;
        builder.dropout("dropped", Dropout { weights, pattern, num_heads: self.sizes.num_heads })
    }

    fn softmax(&self, builder: &mut GraphBuilder, scores: ValueId) -> Result<Softmax, Error> {
        let mut input = |name: &str, shape: &Option<Shape>, dtype| {
            shape.as_ref().map(|shape| builder.input(name, shape.clone(), dtype)).transpose()
        };
        let valid_lens = input("valid_lens", &self.shape.valid_lens, DType::U32)?;
        let attend_mask = input("attend_mask", &self.shape.attend_mask, DType::Bool)?;
        let bias = input("bias", &self.shape.bias, DType::F32)?;
        Ok(Softmax {
            scores,
            valid_lens,
            attend_mask,
            bias,
            num_heads: self.sizes.num_heads,
            scale: self.scale,
            band: self.shape.band(),
            extra_keys: usize::from(self.weights.is_some_and(|weights| weights.bias_k.is_some())),
        })
    }
}

/// Query, key and value; an absent one is the one before it.
pub(super) fn sequences(builder: &mut GraphBuilder, call: &CallShape) -> Result<[ValueId; 3], Error> {
    let mut input = |name: &str, shape: &Shape| builder.input(name, shape.clone(), DType::F32);
    let query = input("query", &call.query)?;
    let key = call.key.as_ref().map_or(Ok(query), |shape| input("key", shape))?;
    let value = call.value.as_ref().map_or(Ok(key), |shape| input("value", shape))?;
    Ok([query, key, value])
}

pub(super) fn linear(
    builder: &mut GraphBuilder,
    name: &str,
    input: ValueId,
    [weight_name, bias_name]: [&str; 2],
    linear: &Linear,
) -> Result<ValueId, Error> {
    let weight = builder.parameter(weight_name, linear.weight.shape().clone())?;
    let bias = linear.bias.as_ref().map(|bias| builder.parameter(bias_name, bias.shape().clone())).transpose()?;
    builder.linear(name, input, weight, bias)
}
