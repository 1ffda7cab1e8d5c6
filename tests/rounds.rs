//! Kernels that go along the keys, at the most keys that a plan grants them: llvmpipe ends loops after 65,535 rounds
//! without a word, and what is counted wrong is computed wrong. Needs any adapter; elsewhere a plan grants any number, and
//! some thousand are tried.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use multihead::{
    AttentionConfig, AttentionInputs, CallShape, Device, Fuse, Gpu, HostTensor, Mask, MultiHeadAttention, PlanOptions,
    PlanSummary, Rewriting, Training,
};
use support::{first_difference, gpu, random, reads_texels};

/// A call of one head whose number of keys is sought.
#[derive(Clone, Copy, Debug)]
struct Call {
    kernel: &'static str,
    num_queries: usize,
    head_dim: usize,
    value_dim: usize,
    fuse: Fuse,
    with_weights: bool,
    bias: bool,
    dropout: bool,
}

impl Call {
    fn streamed(kernel: &'static str, head_dim: usize) -> Self {
        let value_dim = head_dim;
        let (fuse, with_weights, bias, dropout) = (Fuse::On, false, false, false);
        Self { kernel, num_queries: 2, head_dim, value_dim, fuse, with_weights, bias, dropout }
    }

    /// Scores are stored, and keys are what the second product sums over.
    fn stored(kernel: &'static str) -> Self {
        Self { fuse: Fuse::Off, ..Self::streamed(kernel, 8) }
    }

    fn options(&self) -> PlanOptions {
        let rewriting = Rewriting { pack: true, fuse: self.fuse };
        // What another kernel reads from texels is written there by products.
        let beside = if reads_texels(self.kernel) { "matmul_texels" } else { self.kernel };
        PlanOptions { rewriting, preferred_kernels: vec![self.kernel, beside], ..PlanOptions::default() }
    }

    fn inputs(&self, num_keys: usize) -> AttentionInputs {
        let mut rng = fastrand::Rng::with_seed(150);
        let mut tensor = |rows: usize, width: usize| random(&mut rng, [1, rows, width]);
        let (query, key) = (tensor(self.num_queries, self.head_dim), tensor(num_keys, self.head_dim));
        let value = tensor(num_keys, self.value_dim);
        let shape = [self.num_queries, num_keys];
        let bias = self.bias.then(|| HostTensor::new(shape, vec![0.25; shape.iter().product()]).unwrap());
        let training = Training { dropout: 0.2, seed: 3, step: 1, returns_dropped: false };
        AttentionInputs {
            key: Some(key),
            value: Some(value),
            // Nearly all keys are seen, and the last ones asked about.
            mask: Mask { causal: true, query_offset: i64::try_from(num_keys).unwrap() - 2, bias, ..Mask::default() },
            training: self.dropout.then_some(training),
            ..AttentionInputs::self_attention(query)
        }
    }

    /// Whether the kernel is taken for so many keys.
    fn is_taken(&self, gpu: &Gpu, layer: &MultiHeadAttention, num_keys: usize) -> bool {
        let mut shape = self.inputs(1).call_shape();
        shape.key = Some([1, num_keys, self.head_dim].into());
        shape.value = Some([1, num_keys, self.value_dim].into());
        shape.bias = self.bias.then(|| [self.num_queries, num_keys].into());
        let graph = layer.graph(&shape, self.with_weights).unwrap();
        let summary = PlanSummary::with_options(&graph, gpu.profile(), &self.options());
        summary.is_ok_and(|summary| summary.steps.iter().any(|step| step.variant == self.kernel))
    }

    /// The most keys below `too_many` for which the kernel is taken.
    fn most_keys(&self, gpu: &Gpu, layer: &MultiHeadAttention, too_many: usize) -> usize {
        let (mut least, mut beyond) = (4, too_many);
        assert!(self.is_taken(gpu, layer, least), "{self:?}");
        while beyond - least > 4 {
            // Some kernels want multiples of four.
            let middle = (least + beyond) / 8 * 4;
            if self.is_taken(gpu, layer, middle) { least = middle } else { beyond = middle }
        }
        (least..beyond).rev().find(|&keys| self.is_taken(gpu, layer, keys)).unwrap_or(least)
    }

    fn check(&self, gpu: &Gpu) {
        let layer = MultiHeadAttention::core(AttentionConfig::new(1)).unwrap();
        let counts = gpu.profile().name.starts_with("llvmpipe");
        // `matmul_rows` and `softmax_workgroup`, which share a row out among many, are granted millions, and left out here.
        let num_keys = self.most_keys(gpu, &layer, if counts { 1 << 20 } else { 3000 });
        assert!(!counts || num_keys < 1 << 19, "{self:?}: {num_keys} keys are no limit");
        let inputs = self.inputs(num_keys);
        let (truth, naive) = (layer.reference::<f64>(&inputs).unwrap(), layer.reference::<f32>(&inputs).unwrap());
        let device = Device::Gpu(gpu.clone());
        let call = inputs.call_shape();
        let plan = pollster::block_on(layer.compile_with(&device, &call, self.with_weights, &self.options())).unwrap();
        let got = pollster::block_on(plan.run(&inputs)).unwrap().output;
        let difference = first_difference(got.data(), truth[0].data(), naive[0].data());
        assert_eq!(difference, None, "{self:?}, {num_keys} keys");
    }
}

#[test]
fn attention_streams_as_many_keys_as_it_is_granted() {
    let gpu = gpu();
    let lone = |kernel, head_dim, value_dim| Call { value_dim, ..Call::streamed(kernel, head_dim) };
    for call in [
        lone("attention_row", 1, 1),
        lone("attention_row", 8, 8),
        lone("attention_row", 3, 5),
        lone("attention_row", 511, 511),
        lone("attention_tiled", 64, 64),
        lone("attention_tiled", 512, 512),
        Call { dropout: true, ..lone("attention_row", 8, 8) },
        Call { num_queries: 33, ..lone("attention_tiled", 80, 300) },
    ] {
        call.check(&gpu);
    }
}

#[test]
fn attention_from_texels_streams_as_many_keys_as_it_is_granted() {
    let gpu = gpu();
    if !gpu.profile().name.starts_with("llvmpipe") {
        return;
    }
    for (kernel, head_dim, bias, dropout) in [
        ("attention_texels", 8, false, false),
        ("attention_texels", 72, true, false),
        ("attention_texels", 128, true, false),
        ("attention_texels", 512, true, true),
        ("attention_texels", 16, false, true),
        ("attention_texels_wide", 32, false, false),
        ("attention_texels_wide", 128, false, true),
        ("attention_panels", 8, false, false),
        ("attention_panels", 16, true, true),
        ("attention_panels", 32, false, false),
    ] {
        Call { bias, dropout, ..Call::streamed(kernel, head_dim) }.check(&gpu);
    }
}

/// A kernel that would go round too often is no reason to refuse what can be computed with stored scores.
#[test]
fn what_cannot_stream_is_granted_with_stored_scores() {
    let gpu = gpu();
    for (batch, num_queries, num_keys, num_heads, head_dim) in [
        (1, 100, 65_537, 1, 64),
        (1, 100, 120_000, 1, 64),
        (2, 100, 32_772, 1, 64),
        (1, 32, 20_000, 2, 128),
        (2, 7, 38_056, 4, 64),
        (1, 3, 14_780, 1, 512),
    ] {
        let layer = MultiHeadAttention::core(AttentionConfig::new(num_heads)).unwrap();
        let width = num_heads * head_dim;
        let query = CallShape::self_attention([batch, num_queries, width]);
        let call = CallShape { key: Some([batch, num_keys, width].into()), causal: true, ..query };
        let graph = layer.graph(&call, false).unwrap();
        for fuse in [Fuse::Auto, Fuse::On, Fuse::Off] {
            let options = PlanOptions { rewriting: Rewriting { pack: true, fuse }, ..PlanOptions::default() };
            let summary = PlanSummary::with_options(&graph, gpu.profile(), &options);
            assert!(summary.is_ok(), "{num_keys} keys, {fuse:?}: {}", summary.unwrap_err());
        }
    }
}

#[test]
fn keys_are_shared_out_as_far_as_is_granted() {
    let gpu = gpu();
    for head_dim in [128, 512] {
        Call::streamed("partial_attention", head_dim).check(&gpu);
    }
}

#[test]
fn products_and_softmax_go_along_as_many_keys_as_they_are_granted() {
    let gpu = gpu();
    for kernel in ["matmul_tiled", "matmul_register", "matmul_register_vec4", "softmax_row"] {
        Call::stored(kernel).check(&gpu);
    }
    if gpu.profile().name.starts_with("llvmpipe") {
        Call::stored("softmax_texels").check(&gpu);
    }
}
