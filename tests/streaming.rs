//! Rewritten graphs against the reference: attention that streams, weights recovered from the rows' statistics, packed
//! projections; every kernel by name. Needs any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use multihead::{
    AttentionInputs, DeviceProfile, Fuse, HostTensor, Inputs, Mask, MultiHeadAttention, Plan, PlanOptions, PlanSummary,
    Rewriting, reference,
};
use support::layers::Spec;
use support::{compare, first_difference, gpu, portable_gpu, random, reads_texels};

/// Kernels that stream; those that read texels or four words at a time are taken where they can be.
const KERNELS: [&str; 6] = [
    "attention_row",
    "attention_tiled",
    "attention_texels",
    "attention_texels_wide",
    "attention_panels",
    "partial_attention",
];

fn options(fuse: Fuse, kernel: &'static str) -> PlanOptions {
    let preferred_kernels = vec![kernel, if reads_texels(kernel) { "matmul_texels" } else { kernel }];
    PlanOptions { rewriting: Rewriting { pack: true, fuse }, preferred_kernels, ..PlanOptions::default() }
}

/// Computes a call in streaming form, with and without its weights, and holds it against the reference.
fn check(
    gpu: &multihead::Gpu,
    layer: &MultiHeadAttention,
    inputs: &AttentionInputs,
    kernel: &'static str,
    about: &str,
) {
    check_with(gpu, layer, inputs, &options(Fuse::On, kernel), &format!("{about}, {kernel}"));
}

fn check_with(
    gpu: &multihead::Gpu,
    layer: &MultiHeadAttention,
    inputs: &AttentionInputs,
    options: &PlanOptions,
    about: &str,
) {
    let (truth, naive) = (layer.reference::<f64>(inputs).unwrap(), layer.reference::<f32>(inputs).unwrap());
    let device = multihead::Device::Gpu(gpu.clone());
    for with_weights in [false, true] {
        let call = inputs.call_shape();
        let plan = pollster::block_on(layer.compile_with(&device, &call, with_weights, options)).unwrap();
        assert_eq!(plan.streams(), options.rewriting.fuse == Fuse::On, "{about}");
        let got = pollster::block_on(plan.run(inputs)).unwrap();
        let weights = got.attention_weights.as_ref();
        assert_eq!(weights.is_some(), with_weights);
        for (index, got) in [Some(&got.output), weights].into_iter().enumerate() {
            let Some(got) = got else { continue };
            assert_eq!(got.shape(), truth[index].shape(), "{about}");
            let difference = first_difference(got.data(), truth[index].data(), naive[index].data());
            assert_eq!(difference, None, "{about}, output {index} of {}", truth[index].shape());
        }
    }
}

fn specs() -> Vec<Spec> {
    vec![
        Spec::new(1, 1, 1, 1, 4),
        Spec::new(2, 33, 65, 3, 4),
        Spec { num_kv_heads: 2, value_dim: 8, ..Spec::new(2, 17, 40, 6, 12) },
        Spec { num_kv_heads: 1, extra_key: true, ..Spec::new(1, 5, 31, 4, 4) },
        Spec { biases: false, ..Spec::new(1, 9, 70, 2, 80) },
        Spec { value_dim: 132, ..Spec::new(1, 3, 9, 1, 4) },
        Spec { value_dim: 52, ..Spec::new(1, 37, 129, 2, 20) },
        Spec { extra_key: true, ..Spec::new(1, 19, 64, 1, 128) },
        Spec { value_dim: 5, ..Spec::new(2, 7, 19, 3, 7) },
        // More rows to a group, and more keys, than one panel of any kernel has.
        Spec { num_kv_heads: 1, value_dim: 12, ..Spec::new(1, 71, 300, 3, 8) },
        Spec { value_dim: 32, ..Spec::new(1, 71, 129, 1, 28) },
    ]
}

fn masks(rng: &mut fastrand::Rng, spec: &Spec) -> Vec<(&'static str, Mask)> {
    let Spec { batch, num_queries, num_keys, num_heads, .. } = *spec;
    let lens = |shape: &[usize], rng: &mut fastrand::Rng| {
        let most = i64::try_from(num_keys).unwrap();
        HostTensor::new(shape.to_vec(), (0..shape.iter().product()).map(|_| rng.i64(0..=most)).collect()).unwrap()
    };
    let none = Mask::default();
    let map = [1, num_heads, num_queries, num_keys];
    let seen = HostTensor::new(map, (0..map.iter().product()).map(|_| rng.u8(..) > 60).collect()).unwrap();
    let mut bias = random(rng, [batch, 1, num_queries, num_keys]).into_data();
    bias.iter_mut().step_by(3).for_each(|x| *x = f32::NEG_INFINITY);
    let bias = HostTensor::new([batch, 1, num_queries, num_keys], bias).unwrap();
    vec![
        ("none", none.clone()),
        ("causal", Mask { causal: true, query_offset: 3, ..none.clone() }),
        ("window", Mask { window: Some(4), query_offset: -2, ..none.clone() }),
        ("lengths", Mask { valid_lens: Some(lens(&[batch], rng)), ..none.clone() }),
        (
            "lengths of queries",
            Mask { valid_lens: Some(lens(&[batch, num_queries], rng)), causal: true, ..none.clone() },
        ),
        ("mask", Mask { attend_mask: Some(seen.clone()), ..none.clone() }),
        ("bias", Mask { bias: Some(bias.clone()), ..none.clone() }),
        ("all", Mask { valid_lens: Some(lens(&[batch], rng)), attend_mask: Some(seen), bias: Some(bias), ..none }),
    ]
}

#[test]
fn every_streaming_kernel_is_right_under_every_mask() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(71);
    for spec in specs() {
        let layer = spec.layer(&mut rng);
        for (name, mask) in masks(&mut rng, &spec) {
            let inputs = spec.inputs(&mut rng, mask);
            for kernel in KERNELS {
                check(&gpu, &layer, &inputs, kernel, &format!("{spec:?}, {name}"));
            }
        }
    }
}

/// Products of whole heads from textures, scores in between, a hidden value that is no number among them.
#[test]
fn scores_from_texels_are_right_under_every_mask() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(82);
    let preferred = ["matmul_texels", "softmax_texels", "transpose_qkv_texels", "transpose_output_texels"];
    // Packed, products read and write heads where they stand side by side, and nothing is transposed.
    let ways = [(Rewriting { pack: true, fuse: Fuse::Off }, &preferred[..2]), (Rewriting::OFF, &preferred[..])];
    let ways = ways.map(|(rewriting, taken)| {
        (PlanOptions { rewriting, preferred_kernels: preferred.to_vec(), ..PlanOptions::default() }, taken)
    });
    let grouped = Spec { num_kv_heads: 2, value_dim: 8, ..Spec::new(2, 20, 40, 6, 12) };
    for spec in [Spec::new(1, 33, 36, 3, 4), grouped, Spec::new(1, 5, 132, 1, 80)] {
        let layer = spec.layer(&mut rng);
        for (name, mask) in masks(&mut rng, &spec) {
            let inputs = spec.inputs(&mut rng, mask);
            let graph = layer.graph(&inputs.call_shape(), true).unwrap();
            for (options, expected) in &ways {
                let summary = PlanSummary::with_options(&graph, gpu.profile(), options).unwrap();
                let taken = |kernel: &&&str| summary.steps.iter().any(|step| step.variant == **kernel);
                // Elsewhere no kernel reads textures.
                let expected = if gpu.profile().name.starts_with("llvmpipe") { expected } else { &[][..] };
                assert_eq!(preferred.iter().filter(taken).copied().collect::<Vec<_>>(), expected, "{summary}");
                check_with(&gpu, &layer, &inputs, options, &format!("{spec:?}, {name}"));
            }
        }
    }
}

/// What is no number is left out where its key is hidden, for as many keys as llvmpipe goes through twice in 65,535
/// rounds; beyond them another kernel is taken.
#[test]
fn a_hidden_value_that_is_no_number_takes_no_part_from_texels() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(83);
    let layer = MultiHeadAttention::core(multihead::AttentionConfig::new(1)).unwrap();
    for (num_keys, most) in [(2000, true), (29_116, true), (29_120, false)] {
        let mut inputs = Spec::new(1, 2, num_keys, 1, 4).inputs(&mut rng, Mask { causal: true, ..Mask::default() });
        let mut data = inputs.value.take().unwrap().into_data();
        data[4..9].copy_from_slice(&[f32::NAN, f32::INFINITY, 1.0, f32::NEG_INFINITY, f32::NAN]);
        inputs.value = Some(HostTensor::new([1, num_keys, 4], data).unwrap());
        let options = PlanOptions {
            rewriting: Rewriting { pack: true, fuse: Fuse::Off },
            preferred_kernels: vec!["matmul_texels"],
            ..PlanOptions::default()
        };
        let graph = layer.graph(&inputs.call_shape(), false).unwrap();
        let summary = PlanSummary::with_options(&graph, gpu.profile(), &options).unwrap();
        let weighed = summary.steps.iter().filter(|step| step.op == "matmul").nth(1).unwrap();
        let reads_texels = gpu.profile().name.starts_with("llvmpipe");
        assert_eq!(weighed.variant == "matmul_texels", most && reads_texels, "{summary}");
        check_with(&gpu, &layer, &inputs, &options, &format!("{num_keys} keys"));
    }
}

#[test]
fn streaming_needs_no_more_than_webgpu_guarantees() {
    let gpu = portable_gpu();
    let mut rng = fastrand::Rng::with_seed(72);
    for spec in specs() {
        let layer = spec.layer(&mut rng);
        for (name, mask) in masks(&mut rng, &spec).into_iter().take(3) {
            let inputs = spec.inputs(&mut rng, mask);
            for kernel in &KERNELS[..2] {
                check(&gpu, &layer, &inputs, kernel, &format!("{spec:?}, {name}, portable"));
            }
        }
    }
}

/// What a hidden key or value holds takes no part; what a visible one holds shows.
#[test]
fn a_hidden_row_never_leaks_and_a_visible_one_shows() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(73);
    let spec = Spec::new(1, 20, 45, 2, 4);
    let layer = MultiHeadAttention::core(multihead::AttentionConfig::new(2)).unwrap();
    for special in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for poisoned in ["key", "value"] {
            let mask = Mask { causal: true, query_offset: 8, ..Mask::default() };
            let mut inputs = spec.inputs(&mut rng, mask);
            let tensor = if poisoned == "key" { &mut inputs.key } else { &mut inputs.value };
            let mut data = tensor.take().unwrap().into_data();
            // Key 20 is seen by the queries from 12 on.
            data[20 * 8 + 3] = special;
            *tensor = Some(HostTensor::new([1, 45, 8], data).unwrap());
            for kernel in KERNELS {
                check(&gpu, &layer, &inputs, kernel, &format!("{special} in the {poisoned}"));
            }
        }
    }
}

#[test]
fn a_streaming_run_gives_the_same_bits_again() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(74);
    let spec = Spec { num_kv_heads: 2, ..Spec::new(2, 17, 40, 6, 12) };
    let layer = spec.layer(&mut rng);
    let inputs = spec.inputs(&mut rng, Mask { causal: true, ..Mask::default() });
    for kernel in KERNELS {
        let device = multihead::Device::Gpu(gpu.clone());
        let (call, options) = (inputs.call_shape(), options(Fuse::On, kernel));
        let plan = pollster::block_on(layer.compile_with(&device, &call, true, &options)).unwrap();
        let run = || pollster::block_on(plan.run(&inputs)).unwrap();
        let bits = |run: &multihead::AttentionOutput| {
            let weights = run.attention_weights.as_ref().unwrap().data();
            run.output.data().iter().chain(weights).map(|x| x.to_bits()).collect::<Vec<_>>()
        };
        let first = bits(&run());
        for _ in 0..20 {
            assert_eq!(bits(&run()), first, "{kernel}");
        }
    }
}

/// Many keys: beyond them Mesa's CPU adapter would end loops by itself, and the answer would be wrong.
#[test]
fn the_last_of_very_many_keys_counts() {
    let gpu = gpu();
    let length = 70_000;
    for fuse in [Fuse::Auto, Fuse::Off, Fuse::On] {
        let layer = MultiHeadAttention::core(multihead::AttentionConfig::new(1)).unwrap();
        let query = HostTensor::new([1, 1, 4], vec![1.0; 4]).unwrap();
        let mut key = vec![0.0; length * 4];
        key[(length - 1) * 4] = 40.0;
        let key = HostTensor::new([1, length, 4], key).unwrap();
        let value = HostTensor::new([1, length, 4], (0..length * 4).map(|i| (i / 4) as f32).collect()).unwrap();
        let inputs = AttentionInputs { value: Some(value), ..AttentionInputs::cross_attention(query, key) };
        let options = PlanOptions { rewriting: Rewriting { pack: true, fuse }, ..PlanOptions::default() };
        let device = multihead::Device::Gpu(gpu.clone());
        let plan = pollster::block_on(layer.compile_with(&device, &inputs.call_shape(), false, &options)).unwrap();
        let got = pollster::block_on(plan.run(&inputs)).unwrap().output;
        let (truth, naive) = (layer.reference::<f64>(&inputs).unwrap(), layer.reference::<f32>(&inputs).unwrap());
        assert_eq!(first_difference(got.data(), truth[0].data(), naive[0].data()), None, "{fuse:?}");
    }
}

/// A graph, rewritten in every way, computes the same: packing and fusing each by itself, and the CPU twins of both.
#[test]
fn every_rewriting_computes_the_same() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(75);
    for spec in specs() {
        let layer = spec.layer(&mut rng);
        let self_attention = AttentionInputs::self_attention(random(&mut rng, [2, 9, spec.num_hiddens]));
        for inputs in [self_attention, spec.inputs(&mut rng, Mask::default())] {
            let (truth, naive) = (layer.reference::<f64>(&inputs).unwrap(), layer.reference::<f32>(&inputs).unwrap());
            for rewriting in [
                Rewriting::OFF,
                Rewriting { pack: true, fuse: Fuse::Off },
                Rewriting { pack: false, fuse: Fuse::On },
                Rewriting { pack: true, fuse: Fuse::On },
            ] {
                let options = PlanOptions { rewriting, ..PlanOptions::default() };
                let plan = pollster::block_on(layer.plan(&gpu, &inputs.call_shape(), false, &options)).unwrap();
                pollster::block_on(plan.poison()).unwrap();
                let tensors =
                    [("query", Some(&inputs.query)), ("key", inputs.key.as_ref()), ("value", inputs.value.as_ref())];
                let given = tensors.into_iter().filter_map(|(name, tensor)| Some((name, tensor?)));
                let given = given.fold(Inputs::new(), |inputs, (name, tensor)| inputs.with(name, tensor));
                let got = pollster::block_on(plan.run(&given)).unwrap().outputs.remove("output").unwrap();
                let difference = first_difference(got.data(), truth[0].data(), naive[0].data());
                assert_eq!(difference, None, "{spec:?}, {rewriting:?}");
            }
        }
    }
}

/// The streaming ops themselves, their statistics included, on the device and on the CPU.
#[test]
fn attention_and_attention_weights_of_a_graph_of_ones_own() {
    use multihead::graph::{Attention, AttentionWeights, Columns, KeyBand, Pack, PackPart, Scores};
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(76);
    let mut builder = multihead::GraphBuilder::new();
    let packed = builder.input("packed", [2, 6, 24], multihead::DType::F32).unwrap();
    let columns = |first| Columns { tensor: packed, first, count: 8 };
    let scores = Scores {
        query: columns(0),
        key: columns(8),
        valid_lens: None,
        attend_mask: None,
        bias: None,
        num_heads: 2,
        num_kv_heads: 2,
        scale: 0.5,
        band: KeyBand::new(true, -1, None),
        extra_keys: 0,
    };
    let op = Attention { scores: scores.clone(), value: columns(16), statistics: true, dropout: None };
    let attention = builder.attention("attention", op).unwrap();
    let weights = builder.attention_weights("weights", AttentionWeights { scores, attention }).unwrap();
    let w = builder.parameter("W", [4, 12]).unwrap();
    let part = |value, count| PackPart { value, count };
    let pack = builder.pack("pack", Pack { parts: vec![part(Some(w), 4)] }).unwrap();
    let op = multihead::graph::Matmul::of(attention, pack);
    let product = builder.matmul("product", op).unwrap();
    let graph = builder.finish(&[attention, weights, product]);
    let (x, w) = (random(&mut rng, [2, 6, 24]), random(&mut rng, [4, 12]));
    let (parameters, inputs) = (Inputs::new().with("W", &w), Inputs::new().with("packed", &x));
    for kernel in KERNELS {
        let options = options(Fuse::Auto, kernel);
        let plan = pollster::block_on(Plan::new(&gpu, &graph, &parameters, &options)).unwrap();
        pollster::block_on(plan.poison()).unwrap();
        let got = pollster::block_on(plan.run(&inputs)).unwrap().outputs;
        compare(&got, &graph, &parameters, &inputs, kernel);
    }
    let on_cpu = reference::interpret::<f64>(&graph, &parameters, &inputs).unwrap();
    // The first query stands before every key.
    assert!(on_cpu["attention"].data()[..12].iter().all(|&x| x == 0.0));
    assert!(on_cpu["attention"].data()[12 + 9] >= 1.0, "the largest weight counts as 1 in the sum");
}

/// With statistics the output has two more columns for each head, whatever the number of heads is.
#[test]
fn statistics_follow_the_heads_of_any_number() {
    use multihead::graph::{Attention, Columns, KeyBand, Scores};
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(80);
    for num_heads in [1, 3, 4] {
        let mut builder = multihead::GraphBuilder::new();
        let x = builder.input("x", [2, 7, num_heads * 4], multihead::DType::F32).unwrap();
        let whole = Columns { tensor: x, first: 0, count: num_heads * 4 };
        let scores = Scores {
            query: whole,
            key: whole,
            valid_lens: None,
            attend_mask: None,
            bias: None,
            num_heads,
            num_kv_heads: num_heads,
            scale: 0.5,
            band: KeyBand::ALL,
            extra_keys: 0,
        };
        let op = Attention { scores, value: whole, statistics: true, dropout: None };
        let attention = builder.attention("attention", op).unwrap();
        let graph = builder.finish(&[attention]);
        let x = random(&mut rng, [2, 7, num_heads * 4]);
        let inputs = Inputs::new().with("x", &x);
        for kernel in KERNELS {
            let options = options(Fuse::Auto, kernel);
            let plan = pollster::block_on(Plan::new(&gpu, &graph, &Inputs::new(), &options)).unwrap();
            pollster::block_on(plan.poison()).unwrap();
            let got = pollster::block_on(plan.run(&inputs)).unwrap().outputs;
            assert_eq!(got["attention"].shape(), &[2, 7, num_heads * 6]);
            compare(&got, &graph, &Inputs::new(), &inputs, kernel);
        }
    }
}

fn llvmpipe() -> DeviceProfile {
    DeviceProfile {
        name: "llvmpipe".into(),
        kind: multihead::AdapterKind::Cpu,
        subgroups: true,
        subgroup: [8, 8],
        ..DeviceProfile::portable()
    }
}

/// On the adapter that the kernels of texels are for, the tests that prefer them run them.
#[test]
fn a_preferred_kernel_is_taken_where_it_applies() {
    let mut rng = fastrand::Rng::with_seed(81);
    let layer = Spec::new(1, 33, 33, 3, 4).layer(&mut rng);
    let call = AttentionInputs::self_attention(random(&mut rng, [1, 33, 12])).call_shape();
    let graph = layer.graph(&call, false).unwrap();
    for kernel in KERNELS {
        let summary = PlanSummary::with_options(&graph, &llvmpipe(), &options(Fuse::On, kernel)).unwrap();
        let variants: Vec<_> = summary.steps.iter().map(|step| step.variant.as_str()).collect();
        assert_eq!(variants[1], kernel);
        assert_eq!(
            variants[0] == "matmul_texels" && variants[2] == "matmul_texels",
            reads_texels(kernel),
            "{variants:?}"
        );
    }
}

/// Little work streams there by rows; keys that a row cannot go through in 65,535 rounds are not streamed for that.
#[test]
fn little_work_streams_on_llvmpipe_and_wide_heads_do_not() {
    let kernels = |num_heads: usize, sizes: [usize; 2], width: usize| {
        let layer = MultiHeadAttention::core(multihead::AttentionConfig::new(num_heads)).unwrap();
        let shape = |length: usize| [1, length, width].into();
        let call = multihead::CallShape {
            key: Some(shape(sizes[1])),
            ..multihead::CallShape::self_attention(shape(sizes[0]))
        };
        let graph = layer.graph(&call, false).unwrap();
        let summary = PlanSummary::with_options(&graph, &llvmpipe(), &PlanOptions::default()).unwrap();
        summary.steps.into_iter().map(|step| step.variant).collect::<Vec<_>>()
    };
    assert_eq!(kernels(4, [8, 8], 64), ["attention_row"]);
    assert_eq!(kernels(8, [1024, 1024], 512), ["attention_texels_wide"]);
    assert!(kernels(64, [1024, 1024], 512).iter().all(|kernel| kernel == "attention_panels"));
    assert_eq!(kernels(64, [16, 1024], 512), ["attention_texels"]);
    assert!(kernels(1, [1, 10_000], 4).len() > 1, "90,012 rounds");
    assert_eq!(kernels(1, [512, 512], 512), ["matmul_panels", "softmax_texels", "matmul_panels"]);
    // Scores of 64 MiB, in as many parts as long work is cut into.
    assert!(kernels(1, [4096, 4096], 512).iter().all(|kernel| kernel == "attention_texels_wide"));
}

/// The projection of few key/value heads is little work, and its output must be where the attention reads it.
#[test]
fn a_small_projection_does_not_keep_a_large_attention_from_texels() {
    let mut rng = fastrand::Rng::with_seed(84);
    for num_kv_heads in [1, 2, 6] {
        let spec = Spec { num_kv_heads, ..Spec::new(1, 1025, 700, 6, 32) };
        let layer = spec.layer(&mut rng);
        let graph = layer.graph(&spec.inputs(&mut rng, Mask::default()).call_shape(), false).unwrap();
        let summary = PlanSummary::with_options(&graph, &llvmpipe(), &PlanOptions::default()).unwrap();
        let steps = summary.steps.iter().filter(|step| step.op == "attention");
        let mut attentions: Vec<_> = steps.map(|step| step.variant.as_str()).collect();
        attentions.dedup();
        assert_eq!(attentions, ["attention_panels"], "{summary}");
    }
}

#[test]
fn self_attention_is_three_dispatches_five_with_scores_and_eleven_without_rewriting() {
    let mut rng = fastrand::Rng::with_seed(77);
    let layer = Spec::new(1, 64, 64, 4, 16).layer(&mut rng);
    let call = AttentionInputs::self_attention(random(&mut rng, [1, 64, 64])).call_shape();
    let graph = layer.graph(&call, false).unwrap();
    let count = |profile: &DeviceProfile, rewriting| {
        let options = PlanOptions { rewriting, ..PlanOptions::default() };
        PlanSummary::with_options(&graph, profile, &options).unwrap().steps.len()
    };
    let gpu = gpu();
    for profile in [gpu.profile(), &DeviceProfile::portable()] {
        assert_eq!(count(profile, Rewriting { pack: true, fuse: Fuse::On }), 3, "{}", profile.name);
        assert_eq!(count(profile, Rewriting { pack: true, fuse: Fuse::Off }), 5, "{}", profile.name);
        assert_eq!(count(profile, Rewriting::OFF), 11);
    }
    assert_eq!(count(&DeviceProfile::portable(), Rewriting::default()), 3);
}

/// One query over many keys: on GPUs they are shared out, and every group of heads reads them once.
#[test]
fn few_queries_over_many_keys_are_shared_out() {
    let layer = MultiHeadAttention::core(multihead::AttentionConfig {
        num_kv_heads: Some(4),
        ..multihead::AttentionConfig::new(16)
    });
    let variants = |num_queries: usize, num_keys: usize, profile: &DeviceProfile| {
        let kv = || Some([1, num_keys, 256].into());
        let shape = multihead::CallShape::self_attention([1, num_queries, 1024]);
        let call = multihead::CallShape { key: kv(), value: kv(), ..shape };
        let graph = layer.as_ref().unwrap().graph(&call, false).unwrap();
        let steps = PlanSummary::new(&graph, profile).unwrap().steps;
        steps.iter().map(|step| (step.variant.clone(), step.workgroups)).collect::<Vec<_>>()
    };
    let portable = DeviceProfile::portable();
    let expected = [("partial_attention".to_owned(), [64, 1, 1]), ("merge_partials".to_owned(), [16, 1, 1])];
    // Four key/value heads, sixteen parts each.
    assert_eq!(variants(1, 4096, &portable), expected);
    assert_eq!(variants(2, 4096, &portable)[0].0, "partial_attention");
    assert_eq!(variants(3, 4096, &portable)[0].0, "attention_tiled");
    assert_eq!(variants(1, 500, &portable)[0].0, "attention_tiled");
    // A CPU adapter has kernels that wait at no barrier.
    let cpu = DeviceProfile { kind: multihead::AdapterKind::Cpu, ..portable };
    assert!(variants(1, 4096, &cpu).iter().all(|(name, _)| name != "partial_attention"));
}

/// Large scores: weights that are recovered must sum their products as the statistics did.
#[test]
fn recovered_weights_keep_their_precision_where_scores_are_large() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(78);
    let config = multihead::AttentionConfig { scale: Some(3.0), ..multihead::AttentionConfig::new(2) };
    let layer = MultiHeadAttention::core(config).unwrap();
    for _ in 0..20 {
        let inputs = Spec::new(3, 18, 17, 2, 64).inputs(&mut rng, Mask::default());
        for kernel in KERNELS {
            check(&gpu, &layer, &inputs, kernel, "scale 3");
        }
    }
}

#[test]
fn a_kernel_that_does_not_exist_is_refused() {
    let mut rng = fastrand::Rng::with_seed(79);
    let call = AttentionInputs::self_attention(random(&mut rng, [1, 4, 8])).call_shape();
    let graph = Spec::new(1, 4, 4, 2, 4).layer(&mut rng).graph(&call, false).unwrap();
    let error = PlanSummary::with_options(&graph, &DeviceProfile::portable(), &options(Fuse::Auto, "nonsense"));
    assert!(error.unwrap_err().to_string().starts_with("there is no kernel \"nonsense\"; there are "));
}
