//! The KV cache: step by step against the one-shot answer, on every kind of device. Needs any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use half::f16;
use multihead::{
    AttentionConfig, AttentionInputs, CacheOptions, CacheStorage, CpuReason, Device, Gpu, HostTensor, KvCache, Mask,
    MultiHeadAttention, PlanOptions, StepInputs, StepPlan, StepShape, Tensor,
};
use support::layers::Spec;
use support::{first_difference, gpu, random};

/// Each compiles its kernels anew, which is what these tests spend their time on: opened once for each test.
fn devices() -> Vec<Device> {
    support::gpus().into_iter().map(Device::Gpu).chain([Device::Cpu(CpuReason::Chosen)]).collect()
}

/// A cache and the step that fills it.
struct Decoder {
    cache: KvCache,
    step: StepPlan,
}

impl Decoder {
    fn new(device: &Device, layer: &MultiHeadAttention, options: &CacheOptions, shape: &StepShape) -> Self {
        let cache = pollster::block_on(layer.cache(device, options, shape)).unwrap();
        let step = pollster::block_on(layer.compile_step(device, &cache, shape)).unwrap();
        Self { cache, step }
    }

    fn run(&mut self, inputs: &StepInputs) -> HostTensor {
        pollster::block_on(self.step.run(&mut self.cache, inputs)).unwrap().output
    }

    fn refusal(&mut self, inputs: &StepInputs) -> String {
        pollster::block_on(self.step.run(&mut self.cache, inputs)).unwrap_err().to_string()
    }
}

fn options(batch: usize, capacity: usize, storage: CacheStorage) -> CacheOptions {
    CacheOptions { batch, capacity, storage }
}

/// One head of width 1 whose scores are all 0: outputs are means of the values so far.
fn means(device: &Device, batch: usize, rows: usize, storage: CacheStorage) -> Decoder {
    let layer = MultiHeadAttention::core(AttentionConfig::new(1)).unwrap();
    let shape = StepShape { key: Some(1), value: Some(1), ..StepShape::self_attention(rows, 1) };
    Decoder::new(device, &layer, &options(batch, 6, storage), &shape)
}

/// (B, L, 1) values under zero queries and keys.
fn values(values: &[&[f32]]) -> StepInputs {
    let shape = [values.len(), values[0].len(), 1];
    let zeros = HostTensor::new(shape, vec![0.0; shape[0] * shape[1]]).unwrap();
    let value = Some(HostTensor::new(shape, values.concat()).unwrap());
    StepInputs { key: Some(zeros.clone()), value, ..StepInputs::new(zeros) }
}

fn near(got: &HostTensor, expected: &[f32]) {
    assert_eq!(got.data().len(), expected.len());
    let close = got.data().iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-6 * expected.abs());
    assert!(close, "{:?} instead of {expected:?}", got.data());
}

#[test]
fn equal_scores_give_the_mean_of_all_values_so_far() {
    for device in devices() {
        for storage in [CacheStorage::F32, CacheStorage::F16] {
            let mut one = means(&device, 1, 1, storage);
            for value in [1.0, 2.0, 4.0] {
                one.run(&values(&[&[value]]));
            }
            near(&one.run(&values(&[&[8.0]])), &[3.75]);

            let mut chunked = means(&device, 1, 2, storage);
            near(&chunked.run(&values(&[&[1.0, 2.0]])), &[1.0, 1.5]);
            near(&chunked.run(&values(&[&[4.0, 8.0]])), &[7.0 / 3.0, 3.75]);

            let mut ragged = means(&device, 2, 3, storage);
            let prompts = values(&[&[1.0, 9.0, 9.0], &[1.0, 2.0, 4.0]]);
            // The two rows beyond the first sequence's own see nothing: zeros.
            let first = ragged.run(&StepInputs { added: Some(vec![1, 3]), ..prompts });
            assert_eq!(first.data()[1..3], [0.0, 0.0]);
            assert_eq!(ragged.cache.lengths(), [1, 3]);
            near(&ragged.run(&values(&[&[8.0], &[8.0]])), &[4.5, 3.75]);
            assert_eq!(ragged.cache.lengths(), [2, 4]);
        }
    }
}

/// Rows from `first` on, `count` of them.
fn rows(tensor: &HostTensor, first: usize, count: usize) -> HostTensor {
    let &[batch, length, width] = tensor.shape().axes() else { panic!("three axes") };
    let entry =
        |entry: usize| &tensor.data()[(entry * length + first) * width..(entry * length + first + count) * width];
    HostTensor::new([batch, count, width], (0..batch).flat_map(entry).copied().collect()).unwrap()
}

/// All rows in chunks of these sizes: (B, L, E).
fn in_chunks(decoder: &mut Decoder, x: &StepInputs, chunks: &[usize]) -> HostTensor {
    let &[batch, length, _] = x.query.shape().axes() else { panic!("three axes") };
    let mut outputs = vec![Vec::new(); batch];
    let mut first = 0;
    for &count in chunks {
        let some = |tensor: &Option<HostTensor>| tensor.as_ref().map(|tensor| rows(tensor, first, count));
        let query = rows(&x.query, first, count);
        let inputs = StepInputs { query, key: some(&x.key), value: some(&x.value), added: None };
        let output = decoder.run(&inputs);
        let width = output.shape().axes()[2];
        for (all, new) in outputs.iter_mut().zip(output.data().chunks(count * width)) {
            all.extend_from_slice(new);
        }
        first += count;
    }
    assert_eq!(first, length);
    let data = outputs.concat();
    HostTensor::new([batch, length, data.len() / batch / length], data).unwrap()
}

const CHUNKS: [&[usize]; 4] = [&[1; 23], &[23], &[5, 1, 1, 7, 9], &[20, 1, 1, 1]];

/// Self-attention of a layer, grouped heads, awkward widths, with and without a window.
#[test]
fn steps_of_any_chunks_give_the_one_shot_causal_answer() {
    let mut rng = fastrand::Rng::with_seed(100);
    let devices = devices();
    let specs = [
        Spec { num_kv_heads: 2, ..Spec::new(2, 23, 23, 4, 8) },
        Spec { num_kv_heads: 1, value_dim: 5, biases: false, ..Spec::new(1, 23, 23, 6, 7) },
        Spec { num_kv_heads: 3, value_dim: 68, ..Spec::new(3, 23, 23, 3, 20) },
    ];
    for spec in specs {
        let layer = spec.layer(&mut rng);
        let x = random(&mut rng, [spec.batch, 23, spec.num_hiddens]);
        for window in [None, Some(4)] {
            let mask = Mask { causal: true, window, ..Mask::default() };
            let inputs = AttentionInputs { mask, ..AttentionInputs::self_attention(x.clone()) };
            let [truth, _] = layer.reference::<f64>(&inputs).unwrap();
            let [naive, _] = layer.reference::<f32>(&inputs).unwrap();
            for device in &devices {
                let shape = StepShape { window, ..StepShape::self_attention(23, spec.num_hiddens) };
                let options = options(spec.batch, 29, CacheStorage::F32);
                let mut decoder = Decoder::new(device, &layer, &options, &shape);
                for chunks in CHUNKS {
                    decoder.cache.reset();
                    let got = in_chunks(&mut decoder, &StepInputs::new(x.clone()), chunks);
                    let difference = first_difference(got.data(), truth.data(), naive.data());
                    assert_eq!(difference, None, "{spec:?}, window {window:?}, {chunks:?}, {}", device.name());
                }
            }
        }
    }
}

/// Attention itself has the same bits in any chunk: more tiles than one, parts, groups of more than four heads.
#[test]
fn chunks_and_runs_have_the_same_bits() {
    let mut rng = fastrand::Rng::with_seed(101);
    let devices = devices();
    for (heads, kv_heads) in [(2, 2), (6, 1)] {
        let config = AttentionConfig { num_kv_heads: Some(kv_heads), ..AttentionConfig::new(heads) };
        let layer = MultiHeadAttention::core(config).unwrap();
        let length = 600;
        let x = StepInputs {
            key: Some(random(&mut rng, [1, length, kv_heads * 8])),
            value: Some(random(&mut rng, [1, length, kv_heads * 8])),
            ..StepInputs::new(random(&mut rng, [1, length, heads * 8]))
        };
        let shape = StepShape {
            key: Some(kv_heads * 8),
            value: Some(kv_heads * 8),
            ..StepShape::self_attention(300, heads * 8)
        };
        let inputs = AttentionInputs {
            query: x.query.clone(),
            key: x.key.clone(),
            value: x.value.clone(),
            mask: Mask { causal: true, ..Mask::default() },
            training: None,
        };
        let [truth, _] = layer.reference::<f64>(&inputs).unwrap();
        let [naive, _] = layer.reference::<f32>(&inputs).unwrap();
        for device in &devices {
            let mut decoder = Decoder::new(device, &layer, &options(1, 700, CacheStorage::F32), &shape);
            let whole = in_chunks(&mut decoder, &x, &[300, 300]);
            assert_eq!(first_difference(whole.data(), truth.data(), naive.data()), None, "{}", device.name());
            for chunks in [&[300, 300][..], &[299, 290, 1, 1, 1, 3, 5], &[7, 293, 150, 150]] {
                decoder.cache.reset();
                let again = in_chunks(&mut decoder, &x, chunks);
                assert!(bits(&again) == bits(&whole), "{}, {heads} heads, chunks {chunks:?}", device.name());
            }
            // In plans of other numbers of rows too.
            for rows in [1, 7, 64, length] {
                decoder.cache.reset();
                let shape = StepShape { rows, ..shape };
                decoder.step = pollster::block_on(layer.compile_step(device, &decoder.cache, &shape)).unwrap();
                let mut chunks = vec![rows; length / rows];
                chunks.extend((!length.is_multiple_of(rows)).then_some(length % rows));
                let again = in_chunks(&mut decoder, &x, &chunks);
                assert!(bits(&again) == bits(&whole), "{}, {heads} heads, plan of {rows} rows", device.name());
            }
        }
    }
}

fn bits(tensor: &HostTensor) -> Vec<u32> {
    tensor.data().iter().map(|x| x.to_bits()).collect()
}

/// On a device whose shaders see no more than one sequence at a time, to the bit what they compute where they see all.
#[test]
fn a_step_that_is_cut_into_pieces_gives_the_same_bits() {
    let mut rng = fastrand::Rng::with_seed(105);
    let layer = MultiHeadAttention::core(AttentionConfig { num_kv_heads: Some(2), ..AttentionConfig::new(4) }).unwrap();
    let [query, key, value] = [32, 16, 16].map(|width| random(&mut rng, [5, 23, width]));
    let x = StepInputs { key: Some(key), value: Some(value), ..StepInputs::new(query) };
    let shape = StepShape { key: Some(16), value: Some(16), ..StepShape::self_attention(23, 32) };
    let devices = [gpu(), support::cramped_gpu(4_096)].map(Device::Gpu);
    for storage in [CacheStorage::F32, CacheStorage::F16] {
        let of_devices = devices.each_ref().map(|device| {
            let mut decoder = Decoder::new(device, &layer, &options(5, 40, storage), &shape);
            let whole = in_chunks(&mut decoder, &x, &[16, 1, 6]);
            decoder.cache.reset();
            assert_eq!(bits(&in_chunks(&mut decoder, &x, &[1; 23])), bits(&whole));
            (bits(&whole), decoder.step.num_dispatches())
        });
        let [(whole, few), (cut, many)] = of_devices;
        assert!(cut == whole && many > few, "{few} and {many} dispatches");
    }
    let refusal = pollster::block_on(layer.cache(&devices[1], &options(1, 65, CacheStorage::F32), &shape)).unwrap_err();
    let refusal = refusal.to_string();
    assert!(
        refusal.starts_with("one sequence of a cache needs 4160 bytes, but what a shader sees of a buffer on"),
        "{refusal}"
    );
    assert!(refusal.ends_with("make its capacity smaller, store 16-bit floats, or compute on the CPU"), "{refusal}");
}

/// Whoever stops waiting for a copy has an empty sequence, not the old length over new rows.
#[test]
fn a_copy_that_nobody_waits_for_leaves_an_empty_sequence() {
    let mut decoder = means(&Device::Gpu(gpu()), 2, 2, CacheStorage::F32);
    decoder.run(&values(&[&[1.0, 2.0], &[3.0, 4.0]]));
    let mut copy = Box::pin(decoder.cache.copy_entry(0, 1));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let ready = copy.as_mut().poll(&mut context).is_ready();
    drop(copy);
    assert_eq!(decoder.cache.lengths(), [2, if ready { 2 } else { 0 }]);
    decoder.cache.truncate(1, 0).unwrap();
    near(&decoder.run(&values(&[&[3.0], &[7.0]])), &[2.0, 7.0]);
}

/// A step costs by what is cached: room for 2 GiB is there at once, and none of it is touched.
#[test]
fn capacity_costs_nothing_on_the_cpu() {
    for storage in [CacheStorage::F32, CacheStorage::F16] {
        let layer = MultiHeadAttention::core(AttentionConfig::new(1)).unwrap();
        let shape = StepShape::self_attention(2, 4);
        let cpu = Device::Cpu(CpuReason::Chosen);
        let mut decoder = Decoder::new(&cpu, &layer, &options(1, 1 << 26, storage), &shape);
        let row = HostTensor::new([1, 2, 4], vec![1.0; 8]).unwrap();
        let start = std::time::Instant::now();
        for _ in 0..20 {
            assert_eq!(decoder.run(&StepInputs::new(row.clone())).data(), [1.0; 8]);
        }
        // Were all of it copied for each step, twenty would take many seconds.
        assert!(start.elapsed().as_secs_f64() < 2.0, "{:?}", start.elapsed());
    }
}

#[test]
fn past_the_capacity_is_an_error_and_the_cache_stays_as_it_was() {
    for device in devices() {
        let mut decoder = means(&device, 2, 4, CacheStorage::F32);
        decoder.run(&StepInputs { added: Some(vec![1, 4]), ..values(&[&[1.0, 0.0, 0.0, 0.0], &[1.0, 2.0, 4.0, 1.0]]) });
        let refusal = decoder.refusal(&values(&[&[5.0; 3], &[5.0; 3]]));
        assert_eq!(
            refusal,
            "batch entry 1 with 4 cached rows and 3 new ones needs 7 rows, but the capacity of the cache is 6; truncate it, or make a cache of more capacity"
        );
        assert_eq!(decoder.cache.lengths(), [1, 4]);
        near(&decoder.run(&values(&[&[3.0], &[2.0]])), &[2.0, 2.0]);
        // Up to the last row, and not one more.
        near(&decoder.run(&values(&[&[2.0], &[8.0]])), &[2.0, 3.0]);
        assert_eq!(decoder.cache.lengths(), [3, 6]);
        assert!(decoder.refusal(&values(&[&[2.0], &[8.0]])).starts_with("batch entry 1 with 6 cached rows and 1 new"));
    }
}

#[test]
fn sequences_are_forgotten_cut_and_copied() {
    for device in devices() {
        for storage in [CacheStorage::F32, CacheStorage::F16] {
            let mut decoder = means(&device, 3, 3, storage);
            decoder.run(&values(&[&[1.0, 2.0, 3.0], &[10.0, 20.0, 60.0], &[7.0, 7.0, 7.0]]));
            decoder.cache.truncate(0, 1).unwrap();
            pollster::block_on(decoder.cache.copy_entry(1, 2)).unwrap();
            pollster::block_on(decoder.cache.copy_entry(0, 0)).unwrap();
            assert_eq!(decoder.cache.lengths(), [1, 3, 3]);
            near(&decoder.run(&values(&[&[3.0], &[30.0], &[10.0]])), &[2.0, 30.0, 25.0]);
            decoder.cache.reset();
            assert_eq!(decoder.cache.lengths(), [0, 0, 0]);
            near(&decoder.run(&values(&[&[5.0], &[6.0], &[7.0]])), &[5.0, 6.0, 7.0]);
            let refusal = decoder.cache.truncate(1, 2).unwrap_err().to_string();
            let expected = "the length to truncate to is 2, but must be at most the 1 rows that batch entry 1 has";
            assert_eq!(refusal, expected);
            let refusal = pollster::block_on(decoder.cache.copy_entry(0, 3)).unwrap_err().to_string();
            assert_eq!(refusal, "the batch entry is 3, but must be less than the cache's batch, 3");
        }
    }
}

/// Of more bytes than are copied at a time.
#[test]
fn wide_sequences_are_copied_whole() {
    let (heads, width, length) = (512, 512 * 128, 5);
    let layer = MultiHeadAttention::core(AttentionConfig::new(heads)).unwrap();
    let shape = StepShape { key: Some(heads), value: Some(width), ..StepShape::self_attention(length, heads) };
    let mut rng = fastrand::Rng::with_seed(104);
    let zeros = |rows| HostTensor::new([2, rows, heads], vec![0.0; 2 * rows * heads]).unwrap();
    let inputs =
        |rows, value| StepInputs { key: Some(zeros(rows)), value: Some(value), ..StepInputs::new(zeros(rows)) };
    let value = random(&mut rng, [2, length, width]);
    let last = HostTensor::new([2, 1, width], vec![0.0; 2 * width]).unwrap();
    for device in devices() {
        let mut decoder = Decoder::new(&device, &layer, &options(2, length + 1, CacheStorage::F32), &shape);
        decoder.run(&inputs(length, value.clone()));
        pollster::block_on(decoder.cache.copy_entry(1, 0)).unwrap();
        let means = decoder.run(&inputs(1, last.clone()));
        let [first, second] = [&means.data()[..width], &means.data()[width..]];
        assert!(first == second, "{}", device.name());
        let sum = (0..length).map(|row| value.data()[(length + row + 1) * width - 1]).sum::<f32>();
        near(&HostTensor::new([1], vec![first[width - 1]]).unwrap(), &[sum / 6.0]);
    }
}

/// Rounded to the nearest half, ties to even, on every device: read back through weights that are exactly 1.
#[test]
fn halves_are_the_nearest() {
    let mut special: Vec<f32> = vec![
        0.0,
        -0.0,
        1.0,
        1.0 + 2.0_f32.powi(-11),
        1.0 + 3.0 * 2.0_f32.powi(-11),
        65_504.0,
        65_519.0,
        -65_520.0,
        1e30,
    ];
    special.extend([
        2.0_f32.powi(-14),
        6.0e-5,
        2.0_f32.powi(-24),
        1.5 * 2.0_f32.powi(-24),
        2.0_f32.powi(-25),
        3e-8,
        1e-20,
    ]);
    let mut rng = fastrand::Rng::with_seed(102);
    special.extend((0..240).map(|_| f32::from_bits(rng.u32(..))).filter(|x| x.is_finite()));
    let layer = MultiHeadAttention::core(AttentionConfig::new(1)).unwrap();
    let width = special.len();
    let shape = StepShape { key: Some(1), value: Some(width), ..StepShape::self_attention(1, 1) };
    for device in devices() {
        let mut decoder = Decoder::new(&device, &layer, &options(1, 1, CacheStorage::F16), &shape);
        let zero = HostTensor::new([1, 1, 1], vec![0.0]).unwrap();
        let value = Some(HostTensor::new([1, 1, width], special.clone()).unwrap());
        let got = decoder.run(&StepInputs { key: Some(zero.clone()), value, ..StepInputs::new(zero) });
        for (&x, &got) in special.iter().zip(got.data()) {
            // A sum that starts at 0 has no −0.
            let bits = |x: f32| (x + 0.0).to_bits();
            assert_eq!(bits(got), bits(f16::from_f32(x).to_f32()), "{}: {x:e} became {got:e}", device.name());
        }
    }
}

/// Stored as halves, the answer is that of the rounded keys and values.
#[test]
fn halves_are_rounded_once_and_computed_with_in_full() {
    let mut rng = fastrand::Rng::with_seed(103);
    let config = AttentionConfig { num_kv_heads: Some(2), ..AttentionConfig::new(4) };
    let layer = MultiHeadAttention::core(config).unwrap();
    let [query, key, value] = [24, 12, 10].map(|width| random(&mut rng, [2, 23, width]));
    let rounded = |tensor: &HostTensor| {
        let data = tensor.data().iter().map(|&x| f16::from_f32(x).to_f32()).collect();
        HostTensor::new(tensor.shape().clone(), data).unwrap()
    };
    let inputs = AttentionInputs {
        query: query.clone(),
        key: Some(rounded(&key)),
        value: Some(rounded(&value)),
        mask: Mask { causal: true, ..Mask::default() },
        training: None,
    };
    let ([truth, _], [naive, _]) = (layer.reference::<f64>(&inputs).unwrap(), layer.reference::<f32>(&inputs).unwrap());
    let x = StepInputs { key: Some(key), value: Some(value), ..StepInputs::new(query) };
    let shape = StepShape { key: Some(12), value: Some(10), ..StepShape::self_attention(23, 24) };
    for device in devices() {
        let mut decoder = Decoder::new(&device, &layer, &options(2, 24, CacheStorage::F16), &shape);
        for chunks in CHUNKS {
            decoder.cache.reset();
            let got = in_chunks(&mut decoder, &x, chunks);
            let difference = first_difference(got.data(), truth.data(), naive.data());
            assert_eq!(difference, None, "{}, {chunks:?}", device.name());
        }
    }
}

#[test]
fn bytes_shrink_with_key_value_heads_and_with_halves() {
    let device = Device::Cpu(CpuReason::Chosen);
    let bytes = |kv_heads: usize, storage| {
        let config = AttentionConfig { num_kv_heads: Some(kv_heads), ..AttentionConfig::new(8) };
        let layer = MultiHeadAttention::core(config).unwrap();
        let width = Some(kv_heads * 64);
        let shape = StepShape { key: width, value: width, ..StepShape::self_attention(1, 512) };
        let cache = pollster::block_on(layer.cache(&device, &options(3, 100, storage), &shape)).unwrap();
        assert_eq!(cache.bytes(), cache.bytes_per_token() * 300);
        cache.bytes_per_token()
    };
    assert_eq!(bytes(8, CacheStorage::F32), 2 * 512 * 4);
    assert_eq!(bytes(2, CacheStorage::F32), 2 * 512 * 4 / 4);
    assert_eq!(bytes(1, CacheStorage::F16), 2 * 512 * 2 / 8);
}

/// Any numbers give a cache and a step or an error: no sum or product of them overflows.
#[test]
fn numbers_that_nobody_has_room_for_are_refused() {
    let huge = [usize::MAX, usize::MAX - 2, usize::MAX / 2, usize::MAX / 8, 1 << 40];
    for device in [Device::Gpu(gpu()), Device::Cpu(CpuReason::Chosen)] {
        for huge in huge {
            for heads in [1, huge] {
                let layer = MultiHeadAttention::core(AttentionConfig::new(heads)).unwrap();
                let shape = StepShape::self_attention(1, heads);
                let narrow = StepShape { key: Some(heads), value: Some(heads), ..shape };
                let shapes = [
                    StepShape { value: Some(huge), ..narrow },
                    StepShape { key: Some(huge), ..narrow },
                    StepShape { query: huge, ..narrow },
                    StepShape { rows: huge, ..narrow },
                ];
                for shape in shapes {
                    for options in [[1, 1], [huge, 1], [1, huge], [huge, huge]] {
                        for storage in [CacheStorage::F32, CacheStorage::F16] {
                            let options = options_of(options, storage);
                            let cache = pollster::block_on(layer.cache(&device, &options, &shape));
                            let step = cache.and_then(|cache| {
                                assert!(cache.bytes() > 0 && cache.bytes_per_token() > 0);
                                pollster::block_on(layer.compile_step(&device, &cache, &shape))
                            });
                            assert!(step.is_err() || heads == huge && shape == narrow, "{heads} {shape:?} {options:?}");
                        }
                    }
                }
            }
        }
    }
}

fn options_of([batch, capacity]: [usize; 2], storage: CacheStorage) -> CacheOptions {
    options(batch, capacity, storage)
}

/// The groups of a value are written out in a kernel's text, so that it would take minutes to compile.
#[test]
fn heads_wider_than_the_kernel_takes_are_refused_with_both_numbers() {
    let layer = MultiHeadAttention::core(AttentionConfig::new(2)).unwrap();
    let refusal = |[head, value]: [usize; 2]| {
        let shape = StepShape { key: Some(2 * head), value: Some(2 * value), ..StepShape::self_attention(1, 2 * head) };
        let options = options(1, 1, CacheStorage::F32);
        pollster::block_on(layer.cache(&Device::Cpu(CpuReason::Chosen), &options, &shape)).map_err(|e| e.to_string())
    };
    assert!(refusal([512, 512]).is_ok());
    let expected = |what| {
        format!(
            "a head of {what} needs 513 columns, but the widest that attention over a cache takes is 512; use more heads"
        )
    };
    assert_eq!(refusal([513, 1]).unwrap_err(), expected("queries"));
    assert_eq!(refusal([1, 513]).unwrap_err(), expected("values"));
}

/// Two devices of one adapter, opened one after the other: wgpu has the same numbers for what is on them.
#[test]
fn a_cache_of_another_device_is_refused_and_not_touched() {
    let layer = MultiHeadAttention::core(AttentionConfig::new(1)).unwrap();
    let shape = StepShape { key: Some(1), value: Some(1), ..StepShape::self_attention(1, 1) };
    let [one, other, adopted] = [gpu(), gpu(), gpu()];
    let adopted = Gpu::adopt(adopted.device(), adopted.queue()).unwrap();
    let twice = Gpu::adopt(adopted.device(), adopted.queue()).unwrap();
    let devices = [one, other, adopted, twice].map(Device::Gpu);
    let caches = devices
        .each_ref()
        .map(|device| pollster::block_on(layer.cache(device, &options(1, 4, CacheStorage::F32), &shape)).unwrap());
    for (of_device, device) in devices.iter().enumerate() {
        for (_, cache) in caches.iter().enumerate().filter(|&(of_cache, _)| of_cache != of_device) {
            let error = pollster::block_on(layer.compile_step(device, cache, &shape)).unwrap_err().to_string();
            assert!(error.starts_with("the cache lies on another device than this \""), "{error}");
        }
    }
    // A clone is the same device.
    let Device::Gpu(gpu) = &devices[0] else { unreachable!() };
    pollster::block_on(layer.compile_step(&Device::Gpu(gpu.clone()), &caches[0], &shape)).unwrap();
}

/// What lies in buffers of the caller's would not come back, and rows would be appended nevertheless.
#[test]
fn a_step_takes_no_tensors_of_the_callers() {
    let device = gpu();
    let layer = MultiHeadAttention::core(AttentionConfig::new(1)).unwrap();
    let shape = StepShape::self_attention(1, 4);
    let buffer = device.device().create_buffer(&wgpu::BufferDescriptor {
        label: None,
        size: 64,
        usage: wgpu::BufferUsages::STORAGE,
        mapped_at_creation: false,
    });
    let device = Device::Gpu(device);
    let cache = pollster::block_on(layer.cache(&device, &options(1, 4, CacheStorage::F32), &shape)).unwrap();
    for name in ["joined", "query", "key_cache", "lengths"] {
        let mut plan = PlanOptions::default();
        plan.tensors.insert(name.into(), Tensor::new(&buffer));
        let refusal = pollster::block_on(layer.compile_step_with(&device, &cache, &shape, &plan)).unwrap_err();
        assert!(refusal.to_string().starts_with(&format!("{name} would lie in buffers of the caller's")), "{refusal}");
    }
}

/// One plan serves all steps: lengths are data.
#[test]
fn a_step_allocates_and_compiles_nothing() {
    let device = gpu();
    let mut decoder = means(&Device::Gpu(device.clone()), 2, 1, CacheStorage::F16);
    let counts = || {
        let counters = device.device().get_internal_counters().hal;
        [counters.buffers.read(), counters.bind_groups.read(), counters.compute_pipelines.read()]
    };
    decoder.run(&values(&[&[1.0], &[2.0]]));
    let before = counts();
    assert!(before.iter().all(|&count| count > 0), "the counters should count: {before:?}");
    for _ in 0..5 {
        decoder.run(&values(&[&[1.0], &[2.0]]));
        assert_eq!(counts(), before);
    }
}

#[test]
fn what_a_cache_cannot_be_is_refused() {
    let mut rng = fastrand::Rng::with_seed(104);
    let spec = Spec { num_kv_heads: 2, ..Spec::new(1, 4, 4, 4, 4) };
    let [layer, other] = [spec, Spec { num_kv_heads: 4, ..spec }].map(|spec| spec.layer(&mut rng));
    let [cpu, device] = [Device::Cpu(CpuReason::Chosen), Device::Gpu(gpu())];
    let shape = StepShape::self_attention(2, 16);
    let made = |layer: &MultiHeadAttention, options: CacheOptions, shape: &StepShape| {
        pollster::block_on(layer.cache(&cpu, &options, shape))
    };
    let f32s = |batch, capacity| options(batch, capacity, CacheStorage::F32);
    let refused = |options, shape: &StepShape| made(&layer, options, shape).unwrap_err().to_string();
    assert_eq!(refused(f32s(1, 0), &shape), "the capacity of a cache is 0, but must be at least 1");
    assert_eq!(refused(f32s(0, 1), &shape), "the batch of a cache is 0, but must be at least 1");
    let no_rows = StepShape { rows: 0, ..shape };
    assert_eq!(refused(f32s(1, 1), &no_rows), "the number of rows of a step is 0, but must be at least 1");
    let no_window = StepShape { window: Some(0), ..shape };
    assert_eq!(refused(f32s(1, 1), &no_window), "window is 0, but must be at least 1");
    assert!(refused(f32s(1, usize::MAX / 2), &shape).contains("more elements than can be counted"));
    assert!(refused(f32s(1, 1 << 50), &shape).contains("more memory than is left"));
    let on_gpu = pollster::block_on(layer.cache(&device, &f32s(1, 1 << 40), &shape)).unwrap_err();
    assert!(matches!(on_gpu, multihead::Error::LimitExceeded { .. }), "{on_gpu}");

    let mut cache = made(&layer, f32s(1, 4), &shape).unwrap();
    let step = |layer: &MultiHeadAttention, device| pollster::block_on(layer.compile_step(device, &cache, &shape));
    let wider = StepShape { value: Some(8), ..shape };
    let core = MultiHeadAttention::core(AttentionConfig::new(4)).unwrap();
    let narrow = pollster::block_on(core.cache(&cpu, &f32s(1, 4), &shape)).unwrap();
    assert_eq!(
        pollster::block_on(core.compile_step(&cpu, &narrow, &wider)).unwrap_err().to_string(),
        "the cache keeps keys of 4 heads of 4 and values of 4 for 4 query heads, but this step has keys of 4 heads of 4 and values of 2 for 4 query heads; make a cache for it"
    );
    // A layer of the same sizes and even of the same weights is another; a clone is not.
    let twin = MultiHeadAttention::new(AttentionConfig::new(4), layer.weights().unwrap().clone()).unwrap();
    for stranger in [&twin, &spec.layer(&mut rng), &other] {
        let refusal = step(stranger, &cpu).unwrap_err().to_string();
        assert!(refusal.starts_with("the cache was made by another layer"), "{refusal}");
    }
    step(&layer.clone(), &cpu).unwrap();
    let elsewhere = step(&layer, &device).unwrap_err().to_string();
    assert!(elsewhere.starts_with("the cache lies on another device than this \""), "{elsewhere}");
    let plan = step(&layer, &cpu).unwrap();
    let mut second = made(&layer, f32s(1, 4), &shape).unwrap();
    let x = |rows: usize| StepInputs::new(HostTensor::new([1, rows, 16], vec![0.5; rows * 16]).unwrap());
    let run = |cache: &mut KvCache, inputs: &StepInputs| {
        pollster::block_on(plan.run(cache, inputs)).map(|_| ()).map_err(|error| error.to_string())
    };
    let foreign = run(&mut second, &x(1)).unwrap_err();
    assert_eq!(foreign, "the step was compiled for another cache; compile a step for this one");
    assert_eq!(
        run(&mut cache, &x(3)).unwrap_err(),
        "query has shape (1, 3, 16), but the step was compiled for (1, rows, 16), at most 2 rows and as many of each"
    );
    assert!(run(&mut cache, &StepInputs { key: Some(x(1).query), ..x(1) }).unwrap_err().starts_with("a key is given"));
    assert_eq!(
        run(&mut cache, &StepInputs { added: Some(vec![2]), ..x(1) }).unwrap_err(),
        "the count of new rows of batch entry 0 is 2, but must be at most the 1 rows that are given"
    );
    assert!(run(&mut cache, &StepInputs { added: Some(vec![1, 1]), ..x(1) }).is_err());
    assert_eq!(cache.lengths(), [0]);
    let learned = Spec { extra_key: true, ..spec }.layer(&mut rng);
    let learned = made(&learned, f32s(1, 1), &shape).unwrap_err().to_string();
    assert!(learned.contains("bias_k"), "{learned}");
}
