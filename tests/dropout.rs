//! Dropout: every kernel against the reference, the pattern itself, what it tends to. Needs any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use multihead::graph::DropoutPattern;
use multihead::{
    AttentionConfig, AttentionInputs, AttentionOutput, CpuReason, Device, Fuse, HostTensor, Mask, MultiHeadAttention,
    PlanOptions, Rewriting, Training,
};
use support::layers::Spec;
use support::{first_difference, gpu, random};

fn training(dropout: f64) -> Training {
    Training { dropout, seed: 7 + (3 << 32), step: 2, returns_dropped: false }
}

/// Every way to compute: by single ops, and by each kernel that streams.
fn ways() -> Vec<(&'static str, PlanOptions)> {
    let kernels = [
        "attention_row",
        "attention_tiled",
        "attention_texels",
        "attention_texels_wide",
        "attention_panels",
        "partial_attention",
    ];
    let streams = |kernel| PlanOptions {
        rewriting: Rewriting { pack: true, fuse: Fuse::On },
        preferred_kernels: vec![kernel],
        ..PlanOptions::default()
    };
    let single = PlanOptions { rewriting: Rewriting::OFF, ..PlanOptions::default() };
    std::iter::once(("single ops", single)).chain(kernels.map(|kernel| (kernel, streams(kernel)))).collect()
}

fn run(
    device: &Device,
    layer: &MultiHeadAttention,
    inputs: &AttentionInputs,
    with_weights: bool,
    options: &PlanOptions,
) -> AttentionOutput {
    let call = inputs.call_shape();
    let plan = pollster::block_on(layer.compile_with(device, &call, with_weights, options)).unwrap();
    pollster::block_on(plan.run(inputs)).unwrap()
}

fn specs() -> Vec<Spec> {
    vec![
        Spec::new(1, 1, 1, 1, 4),
        Spec::new(2, 33, 67, 3, 4),
        Spec { num_kv_heads: 2, value_dim: 8, ..Spec::new(2, 17, 41, 6, 12) },
        Spec { num_kv_heads: 1, extra_key: true, ..Spec::new(1, 5, 31, 4, 4) },
        Spec { value_dim: 132, ..Spec::new(1, 3, 9, 1, 80) },
        Spec { num_kv_heads: 1, ..Spec::new(1, 13, 70, 2, 40) },
        Spec { value_dim: 5, ..Spec::new(2, 7, 19, 3, 7) },
    ]
}

fn masks(rng: &mut fastrand::Rng, spec: &Spec) -> Vec<Mask> {
    let Spec { batch, num_queries, num_keys, .. } = *spec;
    let most = i64::try_from(num_keys).unwrap();
    let lens = HostTensor::new([batch], (0..batch).map(|_| rng.i64(0..=most)).collect()).unwrap();
    let shape = [num_queries, num_keys];
    let seen = HostTensor::new(shape, (0..num_queries * num_keys).map(|_| rng.u8(..) > 60).collect()).unwrap();
    vec![
        Mask::default(),
        Mask { causal: true, query_offset: 5, window: Some(9), ..Mask::default() },
        Mask { valid_lens: Some(lens), attend_mask: Some(seen), ..Mask::default() },
    ]
}

#[test]
fn every_way_to_compute_drops_as_the_reference_does() {
    let device = Device::Gpu(gpu());
    let mut rng = fastrand::Rng::with_seed(90);
    for spec in specs() {
        let layer = spec.layer(&mut rng);
        for (mask, p) in masks(&mut rng, &spec).into_iter().zip([0.2, 0.25, 0.7]) {
            for returns_dropped in [false, true] {
                let training = Some(Training { returns_dropped, ..training(p) });
                let inputs = AttentionInputs { training, ..spec.inputs(&mut rng, mask.clone()) };
                let truth = layer.reference::<f64>(&inputs).unwrap();
                let naive = layer.reference::<f32>(&inputs).unwrap();
                for (name, options) in ways() {
                    for with_weights in [false, true] {
                        let got = run(&device, &layer, &inputs, with_weights, &options);
                        let tensors = [Some(got.output), got.attention_weights];
                        for (index, got) in tensors.iter().enumerate().filter_map(|(i, got)| Some((i, got.as_ref()?))) {
                            let difference = first_difference(got.data(), truth[index].data(), naive[index].data());
                            assert_eq!(difference, None, "{spec:?}, {name}, p {p}, tensor {index}, {with_weights}");
                        }
                    }
                }
            }
        }
    }
}

/// The zeros among the weights that every device returns are where the pattern says, and nowhere else.
#[test]
fn the_pattern_is_a_function_of_place_seed_and_step() {
    let mut rng = fastrand::Rng::with_seed(91);
    let devices = support::gpus().into_iter().map(Device::Gpu).chain([Device::Cpu(CpuReason::Chosen)]);
    let devices: Vec<_> = devices.collect();
    let spec = Spec { num_kv_heads: 2, ..Spec::new(3, 5, 70, 4, 8) };
    let layer = spec.layer(&mut rng);
    for p in [0.2, 0.25] {
        let training = Training { returns_dropped: true, ..training(p) };
        let inputs = AttentionInputs { training: Some(training), ..spec.inputs(&mut rng, Mask::default()) };
        let pattern = DropoutPattern::new(p, training.seed, training.step).unwrap();
        let plain = layer.reference::<f64>(&AttentionInputs { training: None, ..inputs.clone() }).unwrap();
        for device in &devices {
            for (name, options) in ways() {
                let weights = run(device, &layer, &inputs, true, &options).attention_weights.unwrap();
                for (place, (&got, &before)) in weights.data().iter().zip(plain[1].data()).enumerate() {
                    let index =
                        [place / 1400, place / 350 % 4, place / 70 % 5, place % 70].map(|i| u32::try_from(i).unwrap());
                    let expected = if pattern.keeps(index) { before / (1.0 - p) } else { 0.0 };
                    let close = (f64::from(got) - expected).abs() <= 1e-5 * expected;
                    assert!(close, "{} {name}, p {p}, {index:?}: {got} instead of {expected}", device.name());
                }
            }
        }
    }
}

#[test]
fn probability_0_gives_the_bits_of_evaluation_and_1_gives_zeros() {
    let mut rng = fastrand::Rng::with_seed(92);
    let devices = [Device::Gpu(gpu()), Device::Cpu(CpuReason::Chosen)];
    for spec in specs() {
        let layer = spec.layer(&mut rng);
        let core = MultiHeadAttention::core(AttentionConfig::new(2)).unwrap();
        let evaluated = spec.inputs(&mut rng, Mask { causal: true, query_offset: 1, ..Mask::default() });
        for device in &devices {
            for (name, options) in ways() {
                let trained = |p| AttentionInputs { training: Some(training(p)), ..evaluated.clone() };
                for with_weights in [false, true] {
                    let without = run(device, &layer, &evaluated, with_weights, &options);
                    let with = run(device, &layer, &trained(0.0), with_weights, &options);
                    let about = format!("{} {name} {spec:?}", device.name());
                    assert_eq!(bits(&with.output), bits(&without.output), "{about}");
                    let weights = [&with, &without].map(|run| run.attention_weights.as_ref().map(bits));
                    assert_eq!(weights[0], weights[1], "{about}");
                }
                let x = random(&mut rng, [1, 7, 8]);
                let inputs = AttentionInputs { training: Some(training(1.0)), ..AttentionInputs::self_attention(x) };
                let got = run(device, &core, &inputs, false, &options);
                assert!(got.output.data().iter().all(|&x| x == 0.0), "{} {name}", device.name());
            }
        }
    }
}

fn bits(tensor: &HostTensor) -> Vec<u32> {
    tensor.data().iter().map(|x| x.to_bits()).collect()
}

/// What a hidden key holds takes no part; what a dropped one holds is multiplied with zero, so that NaN shows.
#[test]
fn nan_in_a_hidden_value_never_shows_and_in_a_dropped_one_does() {
    let layer = MultiHeadAttention::core(AttentionConfig::new(1)).unwrap();
    let pattern = DropoutPattern::new(0.25, 1, 0).unwrap();
    let dropped = (0..40).find(|&key| !pattern.keeps([0, 0, 0, key])).unwrap() as usize;
    let mut value = vec![1.0; 44 * 4];
    value[dropped * 4] = f32::NAN;
    // Keys from 40 on are hidden.
    value[41 * 4] = f32::NAN;
    value[41 * 4 + 1] = f32::NAN;
    let tensor = |shape: [usize; 3], data| HostTensor::new(shape, data).unwrap();
    let inputs = AttentionInputs {
        query: tensor([1, 1, 4], vec![1.0; 4]),
        key: Some(tensor([1, 44, 4], vec![0.5; 44 * 4])),
        value: Some(tensor([1, 44, 4], value)),
        mask: Mask { valid_lens: Some(HostTensor::new([1], vec![40]).unwrap()), ..Mask::default() },
        training: Some(Training { dropout: 0.25, seed: 1, ..Training::default() }),
    };
    for device in [Device::Gpu(gpu()), Device::Cpu(CpuReason::Chosen)] {
        for (name, options) in ways() {
            let got = run(&device, &layer, &inputs, false, &options).output;
            assert!(got.data()[0].is_nan(), "{} {name}: {:?}", device.name(), got.data());
            assert!(got.data()[1..].iter().all(|x| x.is_finite()), "{} {name}: {:?}", device.name(), got.data());
        }
    }
}

/// One compiled plan serves all steps; their mean tends to evaluation.
#[test]
fn the_mean_over_many_steps_is_evaluation() {
    let mut rng = fastrand::Rng::with_seed(93);
    let spec = Spec::new(1, 2, 12, 2, 4);
    let layer = spec.layer(&mut rng);
    let evaluated = spec.inputs(&mut rng, Mask::default());
    let truth = layer.reference::<f64>(&evaluated).unwrap();
    let (p, steps) = (0.2, 2_000);
    for device in [Device::Gpu(gpu()), Device::Cpu(CpuReason::Chosen)] {
        let of_step = |step| {
            let training = Some(Training { dropout: p, seed: 5, step, returns_dropped: true });
            AttentionInputs { training, ..evaluated.clone() }
        };
        let plan = pollster::block_on(layer.compile(&device, &of_step(0).call_shape(), true)).unwrap();
        let mut means = truth.each_ref().map(|tensor| vec![0.0_f64; tensor.data().len()]);
        let mut squares = means.clone();
        for step in 0..steps {
            let got = pollster::block_on(plan.run(&of_step(step))).unwrap();
            for (index, got) in [&got.output, got.attention_weights.as_ref().unwrap()].into_iter().enumerate() {
                for ((mean, square), &x) in means[index].iter_mut().zip(&mut squares[index]).zip(got.data()) {
                    *mean += f64::from(x) / steps as f64;
                    *square += f64::from(x).powi(2) / steps as f64;
                }
            }
        }
        for index in 0..2 {
            for ((&mean, &square), &truth) in means[index].iter().zip(&squares[index]).zip(truth[index].data()) {
                let deviation = (square - mean * mean).max(0.0).sqrt() / (steps as f64).sqrt();
                assert!(deviation > 0.0, "some weight should be dropped in some step");
                assert!((mean - truth).abs() < 5.0 * deviation, "{}: {mean} instead of {truth}", device.name());
            }
        }
    }
}

/// D2L §10.3's own check of shapes.
#[test]
fn d2l_s_shape_check_runs_in_training() {
    let mut rng = fastrand::Rng::with_seed(94);
    let layer = Spec { biases: false, ..Spec::new(2, 4, 6, 5, 20) }.layer(&mut rng);
    let ones = |length| HostTensor::new([2, length, 100], vec![1.0; 200 * length]).unwrap();
    let lens = Some(HostTensor::new([2], vec![3, 2]).unwrap());
    let inputs = AttentionInputs {
        mask: Mask { valid_lens: lens, ..Mask::default() },
        training: Some(training(0.5)),
        ..AttentionInputs::cross_attention(ones(4), ones(6))
    };
    for device in [Device::Gpu(gpu()), Device::Cpu(CpuReason::Chosen)] {
        let got = pollster::block_on(layer.run_with_weights(&device, &inputs)).unwrap();
        assert_eq!(got.output.shape(), &[2, 4, 100]);
        let weights = got.attention_weights.unwrap();
        assert_eq!(weights.shape(), &[2, 5, 4, 6]);
        for row in weights.data().chunks(6) {
            assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "returned weights are those before dropout");
        }
    }
}

#[test]
fn what_training_cannot_be_is_refused() {
    let layer = MultiHeadAttention::core(AttentionConfig::new(1)).unwrap();
    let device = Device::Cpu(CpuReason::Chosen);
    let x = || AttentionInputs::self_attention(HostTensor::new([1, 1, 1], vec![1.0]).unwrap());
    let of = |training| AttentionInputs { training, ..x() };
    let wrong = pollster::block_on(layer.run(&device, &of(Some(training(1.5))))).unwrap_err();
    assert_eq!(wrong.to_string(), "dropout is 1.5, but must be a number between 0 and 1");
    assert!(layer.check(&of(Some(training(f64::NAN)))).is_err());
    let plan = pollster::block_on(layer.compile(&device, &x().call_shape(), false)).unwrap();
    let other = pollster::block_on(plan.run(&of(Some(training(0.5))))).unwrap_err();
    assert_eq!(
        other.to_string(),
        "the plan was compiled for evaluation, but the inputs want training that returns weights before dropout; compile a plan for them"
    );
}
