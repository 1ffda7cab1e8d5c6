//! Weights stored as 16-bit floats for products of few rows. Needs any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use half::f16;
use multihead::{
    AttentionConfig, AttentionInputs, CacheOptions, CacheStorage, Device, HostTensor, Linear, MultiHeadAttention,
    PlanOptions, PlanSummary, StepInputs, StepShape, Weights,
};
use support::{gpu, random};

/// A layer of 2 heads of 12, and the same with its weights rounded to halves.
fn layers(rng: &mut fastrand::Rng) -> [MultiHeadAttention; 2] {
    let weights: Vec<HostTensor> = (0..4).map(|_| random(rng, [24, 24])).collect();
    let biases: Vec<HostTensor> = (0..4).map(|_| random(rng, [24])).collect();
    let rounded = |tensor: &HostTensor| {
        let halves = tensor.data().iter().map(|&word| f16::from_f32(word).to_f32()).collect();
        HostTensor::new(tensor.shape().clone(), halves).unwrap()
    };
    [false, true].map(|round| {
        let linear = |index: usize| {
            let weight = if round { rounded(&weights[index]) } else { weights[index].clone() };
            Linear { weight, bias: Some(biases[index].clone()) }
        };
        let weights =
            Weights { w_q: linear(0), w_k: linear(1), w_v: linear(2), w_o: linear(3), bias_k: None, bias_v: None };
        MultiHeadAttention::new(AttentionConfig::new(2), weights).unwrap()
    })
}

fn options(half_weights: bool) -> PlanOptions {
    PlanOptions { half_weights, preferred_kernels: vec!["matmul_rows"], ..PlanOptions::default() }
}

fn bits(tensor: &HostTensor) -> Vec<u32> {
    tensor.data().iter().map(|number| number.to_bits()).collect()
}

/// The answer, the bytes of the plan's buffers, and how many products read few rows.
fn computed(layer: &MultiHeadAttention, rows: usize, half_weights: bool) -> (Vec<u32>, u64, usize) {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(171);
    let inputs = AttentionInputs::self_attention(random(&mut rng, [1, rows, 24]));
    let options = options(half_weights);
    let graph = layer.graph(&inputs.call_shape(), false).unwrap();
    let summary = PlanSummary::with_options(&graph, gpu.profile(), &options).unwrap();
    let of_few = summary.steps.iter().filter(|step| step.variant == "matmul_rows").count();
    let device = Device::Gpu(gpu);
    let plan = pollster::block_on(layer.compile_with(&device, &inputs.call_shape(), false, &options)).unwrap();
    let got = pollster::block_on(plan.run(&inputs)).unwrap();
    (bits(&got.output), summary.peak_bytes, of_few)
}

#[test]
fn weights_stored_as_halves_give_what_rounded_weights_give() {
    let [exact, rounded] = layers(&mut fastrand::Rng::with_seed(170));
    for rows in [1, 3, 8] {
        let (got, bytes, of_few) = computed(&exact, rows, true);
        let (expected, unrounded_bytes, _) = computed(&rounded, rows, false);
        assert!(of_few >= 2, "{rows} rows");
        assert_eq!(got, expected, "{rows} rows");
        assert_ne!(got, computed(&exact, rows, false).0, "{rows} rows: nothing was rounded");
        assert_eq!(unrounded_bytes - bytes, 4 * 24 * 24 * 2, "{rows} rows: half of four weights");
    }
}

#[test]
fn weights_of_many_rows_are_not_rounded() {
    let [exact, _] = layers(&mut fastrand::Rng::with_seed(170));
    assert_eq!(computed(&exact, 9, true), computed(&exact, 9, false));
}

#[test]
fn a_step_of_a_cache_reads_halves() {
    let [exact, rounded] = layers(&mut fastrand::Rng::with_seed(170));
    let device = Device::Gpu(gpu());
    let steps = |layer: &MultiHeadAttention, half_weights: bool| {
        let mut rng = fastrand::Rng::with_seed(172);
        let shape = StepShape::self_attention(2, 24);
        let room = CacheOptions { batch: 1, capacity: 16, storage: CacheStorage::F32 };
        let mut cache = pollster::block_on(layer.cache(&device, &room, &shape)).unwrap();
        let options = options(half_weights);
        let plan = layer.compile_step_with(&device, &cache, &shape, &options);
        let plan = pollster::block_on(plan).unwrap();
        let mut step = || {
            let inputs = StepInputs::new(random(&mut rng, [1, 2, 24]));
            bits(&pollster::block_on(plan.run(&mut cache, &inputs)).unwrap().output)
        };
        [step(), step(), step()]
    };
    assert_eq!(steps(&exact, true), steps(&rounded, false));
}
