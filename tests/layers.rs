//! Whole layers: the case files, awkward sizes, every mask, invariants. Needs any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use std::path::Path;

use multihead::{
    AttentionInputs, Case, CaseOptions, Comparison, CpuReason, Device, Fuse, HostTensor, Mask, PlanOptions, Rewriting,
};
use support::layers::{Spec, check_layer};
use support::{cramped_gpu, gpu, portable_gpu, random};

fn run(device: &Device, layer: &multihead::MultiHeadAttention, inputs: &AttentionInputs) -> Vec<f32> {
    pollster::block_on(layer.run(device, inputs)).unwrap().output.into_data()
}

/// Every case file of a folder against the answers it carries; says how many there were.
fn check_cases(device: &Device, folder: &str) -> usize {
    check_cases_with(device, folder, &PlanOptions::default())
}

fn check_cases_with(device: &Device, folder: &str, options: &PlanOptions) -> usize {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "safetensors") {
            continue;
        }
        count += 1;
        let case = Case::open(&path, &CaseOptions::default()).unwrap();
        let layer = case.attention().unwrap();
        let with_weights = case.expected.attention_weights.is_some();
        let call = case.inputs.call_shape();
        let plan = pollster::block_on(layer.compile_with(device, &call, with_weights, options)).unwrap();
        let got = pollster::block_on(plan.run(&case.inputs)).unwrap();
        let tensors = [
            (Some(&got.output), case.expected.output.as_ref()),
            (got.attention_weights.as_ref(), case.expected.attention_weights.as_ref()),
        ];
        for (got, expected) in tensors.into_iter().filter_map(|(got, expected)| got.zip(expected)) {
            let comparison = Comparison::new("", got, expected, case.tolerance());
            assert!(comparison.ok, "{} on {}: {comparison:?}", path.display(), device.name());
        }
    }
    count
}

#[test]
fn cases_on_the_adapter() {
    let device = Device::Gpu(gpu());
    assert!(check_cases(&device, "tests/cases") >= 59);
    assert!(check_cases(&device, "examples/data") >= 1);
}

#[test]
fn cases_with_no_more_than_webgpu_guarantees() {
    assert!(check_cases(&Device::Gpu(portable_gpu()), "tests/cases") >= 59);
}

/// What a GPU would choose, computed here.
#[test]
fn cases_with_the_kernels_of_gpus() {
    let preferred_kernels = vec!["matmul_rows", "matmul_tiled", "softmax_workgroup", "attention_tiled"];
    for fuse in [Fuse::On, Fuse::Off] {
        let rewriting = Rewriting { pack: true, fuse };
        let options = PlanOptions { rewriting, preferred_kernels: preferred_kernels.clone(), ..PlanOptions::default() };
        assert!(check_cases_with(&Device::Gpu(gpu()), "tests/cases", &options) >= 59);
    }
}

#[test]
fn cases_on_the_cpu() {
    assert!(check_cases(&Device::Cpu(CpuReason::Chosen), "tests/cases") >= 59);
}

fn awkward_specs() -> Vec<Spec> {
    let mut specs: Vec<_> = [1, 3, 5, 7, 48, 80, 96, 257].map(|head_dim| Spec::new(2, 5, 9, 3, head_dim)).to_vec();
    for length in [1, 7, 8, 9, 31, 63, 64, 65, 127, 129] {
        specs.push(Spec::new(1, length, length + 2, 2, 12));
    }
    specs.push(Spec::new(2, 33, 17, 1, 40)); // H = 1
    specs.push(Spec::new(2, 17, 33, 40, 1)); // H = E
    specs.push(Spec::new(1, 3, 2051, 2, 16));
    specs.push(Spec::new(1, 1, 1, 1, 1));
    specs.push(Spec { num_kv_heads: 2, ..Spec::new(2, 6, 11, 6, 10) });
    specs.push(Spec { num_kv_heads: 1, ..Spec::new(3, 6, 11, 5, 10) });
    specs.push(Spec { value_dim: 13, ..Spec::new(2, 6, 11, 3, 10) });
    specs.push(Spec { num_hiddens: 25, ..Spec::new(2, 6, 11, 3, 10) });
    specs.push(Spec { num_kv_heads: 3, value_dim: 4, num_hiddens: 31, extra_key: true, ..Spec::new(2, 9, 5, 9, 6) });
    specs.push(Spec { biases: false, ..Spec::new(2, 9, 5, 4, 8) });
    specs
}

#[test]
fn awkward_sizes() {
    for device in [Device::Gpu(gpu()), Device::Gpu(portable_gpu())] {
        let mut rng = fastrand::Rng::with_seed(11);
        for spec in awkward_specs() {
            let layer = spec.layer(&mut rng);
            let inputs = spec.inputs(&mut rng, Mask::default());
            check_layer(&device, &layer, &inputs, &format!("{spec:?}"));
        }
    }
}

/// Every kind of mask, alone and all together.
fn masks(spec: &Spec, rng: &mut fastrand::Rng) -> Vec<Mask> {
    let Spec { batch, num_queries, num_keys, num_heads, .. } = *spec;
    let bools = |rng: &mut fastrand::Rng, shape: Vec<usize>| {
        let len = shape.iter().product();
        HostTensor::new(shape, (0..len).map(|_| rng.u8(0..4) > 0).collect()).unwrap()
    };
    let lens = |rng: &mut fastrand::Rng, shape: Vec<usize>| {
        let len = shape.iter().product();
        HostTensor::new(shape, (0..len).map(|_| i64::from(rng.u8(0..=u8::try_from(num_keys).unwrap()))).collect())
            .unwrap()
    };
    let mut bias = random(rng, [batch, 1, num_queries, num_keys]).into_data();
    bias.iter_mut().step_by(5).for_each(|x| *x = f32::NEG_INFINITY);
    bias.iter_mut().step_by(7).for_each(|x| *x = f32::MIN);
    let bias = HostTensor::new([batch, 1, num_queries, num_keys], bias).unwrap();
    let none = Mask::default;
    let together = Mask {
        valid_lens: Some(lens(rng, vec![batch, num_queries])),
        attend_mask: Some(bools(rng, vec![1, num_heads, num_queries, num_keys])),
        bias: Some(bias.clone()),
        causal: true,
        query_offset: 2,
        window: Some(6),
    };
    vec![
        Mask { valid_lens: Some(lens(rng, vec![batch])), ..none() },
        Mask { attend_mask: Some(bools(rng, vec![num_queries, num_keys])), ..none() },
        Mask { attend_mask: Some(bools(rng, vec![batch, num_heads, num_queries, num_keys])), ..none() },
        Mask { bias: Some(bias), ..none() },
        Mask { causal: true, ..none() },
        Mask { causal: true, query_offset: -2, window: Some(3), ..none() },
        Mask { window: Some(2), ..none() },
        together,
    ]
}

#[test]
fn masks_on_whole_and_on_split_work() {
    let devices = [None, Some(16_384), Some(3_000)].map(|bytes| Device::Gpu(bytes.map_or_else(gpu, cramped_gpu)));
    let specs = [Spec { num_kv_heads: 2, extra_key: true, ..Spec::new(3, 13, 17, 4, 5) }, Spec::new(2, 40, 33, 3, 8)];
    for device in devices {
        let mut rng = fastrand::Rng::with_seed(12);
        for spec in &specs {
            let layer = spec.layer(&mut rng);
            for mask in masks(spec, &mut rng) {
                let about = format!("{spec:?} {mask:?}");
                check_layer(&device, &layer, &spec.inputs(&mut rng, mask), &about);
            }
        }
    }
}

#[test]
fn split_work_gives_the_same_answer_and_more_dispatches() {
    let spec = Spec::new(2, 70, 50, 4, 8);
    let mut rng = fastrand::Rng::with_seed(13);
    let (layer, inputs) = (spec.layer(&mut rng), spec.inputs(&mut rng, Mask::default()));
    let dispatches = |device: &Device| {
        check_layer(device, &layer, &inputs, "split");
        pollster::block_on(layer.compile(device, &inputs.call_shape(), false)).unwrap().num_dispatches()
    };
    assert_eq!(dispatches(&Device::Gpu(gpu())), 7);
    let mut last = 7;
    for bytes in [65_536, 16_384, 4_096] {
        let count = dispatches(&Device::Gpu(cramped_gpu(bytes)));
        assert!(count > last, "{count} dispatches with bindings of {bytes} bytes, {last} before");
        last = count;
    }
}

#[test]
fn twenty_runs_give_the_same_bits() {
    let spec = Spec { num_kv_heads: 2, ..Spec::new(2, 37, 41, 4, 12) };
    let mut rng = fastrand::Rng::with_seed(14);
    let device = Device::Gpu(gpu());
    let (layer, inputs) = (spec.layer(&mut rng), spec.inputs(&mut rng, Mask::default()));
    let plan = pollster::block_on(layer.compile(&device, &inputs.call_shape(), true)).unwrap();
    let bits = || {
        let result = pollster::block_on(plan.run(&inputs)).unwrap();
        let weights = result.attention_weights.unwrap().into_data();
        result.output.into_data().into_iter().chain(weights).map(f32::to_bits).collect::<Vec<_>>()
    };
    let first = bits();
    for run in 1..20 {
        assert!(bits() == first, "run {run} differs");
    }
    let again = pollster::block_on(layer.run(&Device::Gpu(gpu()), &inputs)).unwrap();
    let output: Vec<u32> = again.output.data().iter().map(|x| x.to_bits()).collect();
    assert!(output == first[..output.len()], "another plan on another device object differs");
}

#[test]
fn rows_of_weights_sum_to_one_or_are_zeros() {
    let spec = Spec { extra_key: false, ..Spec::new(2, 9, 14, 3, 4) };
    let mut rng = fastrand::Rng::with_seed(15);
    let device = Device::Gpu(gpu());
    let layer = spec.layer(&mut rng);
    for mask in masks(&spec, &mut rng) {
        let inputs = spec.inputs(&mut rng, mask);
        let result = pollster::block_on(layer.run_with_weights(&device, &inputs)).unwrap();
        let weights = result.attention_weights.unwrap();
        for row in weights.data().chunks(14) {
            let sum: f32 = row.iter().sum();
            assert!((sum - 1.0).abs() < 1e-5 || row.iter().all(|&w| w.to_bits() == 0), "{row:?}");
        }
    }
}

#[test]
fn permuting_keys_with_their_values_changes_nothing() {
    let spec = Spec::new(2, 9, 14, 3, 4);
    let mut rng = fastrand::Rng::with_seed(16);
    let device = Device::Gpu(gpu());
    let layer = spec.layer(&mut rng);
    let inputs = spec.inputs(&mut rng, Mask::default());
    let mut order: Vec<usize> = (0..14).collect();
    rng.shuffle(&mut order);
    let permuted = |tensor: &HostTensor| {
        let width = spec.num_hiddens;
        let rows = tensor
            .data()
            .chunks(14 * width)
            .flat_map(|entry| order.iter().flat_map(move |&row| entry[row * width..(row + 1) * width].to_vec()));
        HostTensor::new(tensor.shape().clone(), rows.collect()).unwrap()
    };
    let other = AttentionInputs {
        key: inputs.key.as_ref().map(permuted),
        value: inputs.value.as_ref().map(permuted),
        ..inputs.clone()
    };
    let truth = layer.reference::<f64>(&inputs).unwrap();
    let naive = layer.reference::<f32>(&inputs).unwrap();
    let got = run(&device, &layer, &other);
    assert_eq!(support::first_difference(&got, truth[0].data(), naive[0].data()), None);
}

#[test]
fn causal_output_ignores_the_future_to_the_last_bit() {
    let spec = Spec::new(2, 20, 20, 3, 8);
    let mut rng = fastrand::Rng::with_seed(17);
    let device = Device::Gpu(gpu());
    let layer = spec.layer(&mut rng);
    let inputs = spec.inputs(&mut rng, Mask { causal: true, ..Mask::default() });
    let before = run(&device, &layer, &inputs);
    let present = 11;
    // Everything after the present becomes NaN, infinity, or another number.
    let changed = |tensor: &HostTensor| {
        let future = |index: usize| index / spec.num_hiddens % 20 > present;
        let values = [f32::NAN, f32::INFINITY, 3.0];
        let data = tensor.data().iter().enumerate();
        let data = data.map(|(index, &x)| if future(index) { values[index % 3] } else { x });
        HostTensor::new(tensor.shape().clone(), data.collect()).unwrap()
    };
    let other = AttentionInputs {
        query: inputs.query.clone(),
        key: inputs.key.as_ref().map(changed),
        value: inputs.value.as_ref().map(changed),
        mask: inputs.mask.clone(),
        training: None,
    };
    let after = run(&device, &layer, &other);
    let past = |index: usize| index / spec.num_hiddens % 20 <= present;
    let differs = |index: usize| before[index].to_bits() != after[index].to_bits();
    assert_eq!((0..before.len()).find(|&index| past(index) && differs(index)), None);
    assert!((0..before.len()).any(|index| !past(index) && differs(index)), "the future should see its own change");
}

#[test]
fn batch_entries_do_not_touch_each_other() {
    let spec = Spec::new(3, 6, 7, 2, 8);
    let mut rng = fastrand::Rng::with_seed(18);
    let device = Device::Gpu(gpu());
    let layer = spec.layer(&mut rng);
    let inputs = spec.inputs(&mut rng, Mask::default());
    let before = run(&device, &layer, &inputs);
    let spoiled = |tensor: &HostTensor| {
        let len = tensor.data().len() / 3;
        let data = tensor.data().iter().enumerate().map(|(index, &x)| if index / len == 1 { f32::NAN } else { x });
        HostTensor::new(tensor.shape().clone(), data.collect()).unwrap()
    };
    let other = AttentionInputs {
        query: spoiled(&inputs.query),
        key: inputs.key.as_ref().map(spoiled),
        value: inputs.value.as_ref().map(spoiled),
        mask: Mask::default(),
        training: None,
    };
    let after = run(&device, &layer, &other);
    let len = before.len() / 3;
    for entry in [0, 2] {
        assert_eq!(before[entry * len..(entry + 1) * len], after[entry * len..(entry + 1) * len]);
    }
    assert!(after[len..2 * len].iter().all(|x| x.is_nan()), "a visible NaN shows");
}

/// A visible weight that has become 0 still meets an infinite value; a hidden one does not.
#[test]
fn what_is_visible_shows_and_what_is_hidden_does_not() {
    let core = |mask: Mask| {
        let query = HostTensor::new([1, 1, 1], vec![1.0]).unwrap();
        let key = HostTensor::new([1, 2, 1], vec![0.0, -1000.0]).unwrap();
        let value = HostTensor::new([1, 2, 1], vec![3.0, f32::INFINITY]).unwrap();
        let inputs = AttentionInputs { query, key: Some(key), value: Some(value), mask, training: None };
        let layer = multihead::MultiHeadAttention::core(multihead::AttentionConfig::new(1)).unwrap();
        [Device::Gpu(gpu()), Device::Cpu(CpuReason::Chosen)].map(|device| run(&device, &layer, &inputs)[0])
    };
    let bits = |numbers: [f32; 2]| numbers.map(f32::to_bits);
    assert!(core(Mask::default()).iter().all(|x| !x.is_finite()));
    let lens = HostTensor::new([1], vec![1]).unwrap();
    assert_eq!(bits(core(Mask { valid_lens: Some(lens), ..Mask::default() })), bits([3.0, 3.0]));
    assert_eq!(bits(core(Mask { causal: true, ..Mask::default() })), bits([3.0, 3.0]));
}
