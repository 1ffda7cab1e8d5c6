//! In other people's programs: their device, their buffers, their encoder, their kernels. Needs any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use multihead::graph::{Custom, CustomKernel};
use multihead::{
    AttentionInputs, DType, Error, Gpu, GraphBuilder, HostTensor, Inputs, Mask, Plan, PlanOptions, PlanSummary, Tensor,
    reference,
};
use support::layers::Spec;
use support::users::{users_buffer, users_device, words};
use support::{cramped_gpu, first_difference, gpu, random};
use wgpu::BufferUsages as Usage;

/// (B, L, E) out of rows of (query, key, value) side by side.
fn unpacked(packed: &[f32], part: usize, [batch, length, width]: [usize; 3]) -> HostTensor {
    let rows = packed.chunks(3 * width).flat_map(|row| row[part * width..(part + 1) * width].to_vec());
    HostTensor::new([batch, length, width], rows.collect()).unwrap()
}

#[test]
fn attention_between_the_users_buffers_with_offsets_and_strides() {
    let (device, queue) = users_device();
    let gpu = Gpu::adopt(&device, &queue).unwrap();
    let mut rng = fastrand::Rng::with_seed(31);
    let [batch, length, width] = [2, 7, 12];
    let spec = Spec::new(batch, length, length, 3, 4);
    let layer = spec.layer(&mut rng);
    // Query, key and value lie in rows of 3·E from byte 20 on; the output's rows are 16 elements apart from byte 8 on.
    let packed = random(&mut rng, [batch, length, 3 * width]).into_data();
    let source = users_buffer(&device, 20 + packed.len() as u64 * 4, Usage::STORAGE | Usage::COPY_DST);
    queue.write_buffer(&source, 20, bytemuck::cast_slice(&packed));
    let target = users_buffer(&device, 4096, Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC);
    queue.write_buffer(&target, 0, bytemuck::cast_slice(&[-7.0_f32; 1024]));
    let lens = users_buffer(&device, 64, Usage::STORAGE | Usage::COPY_DST);
    queue.write_buffer(&lens, 12, bytemuck::cast_slice(&[7_u32, 3]));
    let strides = [length * 3 * width, 3 * width, 1];
    let part = |index: u64| Tensor::new(&source).at(20 + index * width as u64 * 4).with_strides(strides);
    let tensors = [
        ("query", part(0)),
        ("key", part(1)),
        ("value", part(2)),
        ("valid_lens", Tensor::new(&lens).at(12)),
        ("output", Tensor::new(&target).at(8).with_strides([length * 16, 16, 1])),
    ];
    let options = PlanOptions {
        tensors: tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect(),
        ..PlanOptions::default()
    };
    let mask = Mask { valid_lens: Some(HostTensor::new([2], vec![7, 3]).unwrap()), causal: true, ..Mask::default() };
    let [query, key, value] = [0, 1, 2].map(|part| unpacked(&packed, part, [batch, length, width]));
    let inputs = AttentionInputs { query, key: Some(key), value: Some(value), mask, training: None };
    let plan = pollster::block_on(layer.plan(&gpu, &inputs.call_shape(), false, &options)).unwrap();

    let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    plan.encode(&mut encoder).unwrap();
    queue.submit([encoder.finish()]);
    let written = words(gpu.device(), gpu.queue(), &target);

    let place = |row: usize, col: usize| 2 + row / length * length * 16 + row % length * 16 + col;
    let got: Vec<f32> = (0..batch * length)
        .flat_map(|row| (0..width).map(move |col| (row, col)))
        .map(|(row, col)| written[place(row, col)])
        .collect();
    let (truth, naive) = (layer.reference::<f64>(&inputs).unwrap(), layer.reference::<f32>(&inputs).unwrap());
    assert_eq!(first_difference(&got, truth[0].data(), naive[0].data()), None);
    let touched: std::collections::BTreeSet<usize> =
        (0..batch * length).flat_map(|row| (0..width).map(move |col| place(row, col))).collect();
    let untouched = |index: &usize| !touched.contains(index);
    assert!((0..written.len()).filter(untouched).all(|index| written[index].to_bits() == (-7.0_f32).to_bits()));
}

#[test]
fn a_tensor_without_gaps_costs_no_dispatch() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(32);
    let layer = Spec::new(1, 4, 4, 2, 4).layer(&mut rng);
    let query = random(&mut rng, [1, 4, 8]);
    let buffer = users_buffer(gpu.device(), 4 + 128, Usage::STORAGE | Usage::COPY_DST);
    gpu.queue().write_buffer(&buffer, 4, bytemuck::cast_slice(query.data()));
    let inputs = AttentionInputs::self_attention(query);
    let tensors = [("query".to_owned(), Tensor::new(&buffer).at(4))].into();
    let options = PlanOptions { tensors, ..PlanOptions::default() };
    let plan = pollster::block_on(layer.plan(&gpu, &inputs.call_shape(), false, &options)).unwrap();
    let owned = pollster::block_on(layer.plan(&gpu, &inputs.call_shape(), false, &PlanOptions::default())).unwrap();
    assert_eq!(plan.num_dispatches(), owned.num_dispatches());
    let got = pollster::block_on(plan.run(&Inputs::new())).unwrap().outputs.remove("output").unwrap();
    let (truth, naive) = (layer.reference::<f64>(&inputs).unwrap(), layer.reference::<f32>(&inputs).unwrap());
    assert_eq!(first_difference(got.data(), truth[0].data(), naive[0].data()), None);
    assert!(pollster::block_on(plan.run(&Inputs::new().with("query", &inputs.query))).is_err(), "given twice");
}

/// Strides cost a copy; and a window into a user's buffer is shorter, by what a binding has to begin before it.
#[test]
fn a_summary_tells_the_dispatches_of_a_plan_with_buffers_of_the_users() {
    let gpu = cramped_gpu(2_048);
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", [1, 128, 4], DType::F32).unwrap();
    let w = builder.input("W", [4, 4], DType::F32).unwrap();
    let y = builder.linear("y", x, w, None).unwrap();
    let graph = builder.finish(&[y]);
    let buffer = || Tensor::new(&users_buffer(gpu.device(), 8_192, Usage::STORAGE));
    let dispatches = |tensors: &[(&str, Tensor)]| {
        let tensors = tensors.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
        let options = PlanOptions { tensors, ..PlanOptions::default() };
        let summary = PlanSummary::with_options(&graph, gpu.profile(), &options).unwrap();
        let plan = pollster::block_on(Plan::new(&gpu, &graph, &Inputs::new(), &options)).unwrap();
        assert_eq!((summary.steps.len(), summary.peak_bytes), (plan.num_dispatches(), plan.peak_bytes()));
        summary.steps.len()
    };
    let dense = dispatches(&[]);
    assert!(dispatches(&[("y", buffer())]) > dense);
    assert!(dispatches(&[("W", buffer().with_strides([8, 2]))]) > dense);
    let small = Tensor::new(&users_buffer(gpu.device(), 64, Usage::STORAGE));
    let options = PlanOptions { tensors: [("y".to_owned(), small)].into(), ..PlanOptions::default() };
    let refusal = PlanSummary::with_options(&graph, gpu.profile(), &options).unwrap_err();
    assert!(matches!(refusal, Error::LimitExceeded { need: 2_048, have: 64, .. }), "{refusal}");
}

#[test]
fn nothing_is_installed_on_the_users_device() {
    let (device, queue) = users_device();
    let errors = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&errors);
    device.on_uncaptured_error(Arc::new(move |_| {
        seen.fetch_add(1, Ordering::Relaxed);
    }));
    let gpu = Gpu::adopt(&device, &queue).unwrap();
    let mut rng = fastrand::Rng::with_seed(33);
    let layer = Spec::new(1, 4, 4, 2, 4).layer(&mut rng);
    let inputs = AttentionInputs::self_attention(random(&mut rng, [1, 4, 8]));
    pollster::block_on(layer.run(&multihead::Device::Gpu(gpu), &inputs)).unwrap();
    assert_eq!(errors.load(Ordering::Relaxed), 0);
    users_buffer(&device, 16, Usage::MAP_READ | Usage::STORAGE); // not a legal pair
    assert_eq!(errors.load(Ordering::Relaxed), 1, "the user's handler should still be the one that is called");
}

#[test]
fn a_device_with_less_than_webgpu_guarantees_is_refused_with_the_numbers() {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let adapter = pollster::block_on(instance.request_adapter(&wgpu::RequestAdapterOptions::default())).unwrap();
    let required_limits = wgpu::Limits { max_compute_invocations_per_workgroup: 64, ..wgpu::Limits::default() };
    let descriptor = wgpu::DeviceDescriptor { required_limits, ..Default::default() };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).unwrap();
    let error = Gpu::adopt(&device, &queue).unwrap_err();
    insta::assert_snapshot!(error, @"a kernel needs 256 invocations, but the device's max_compute_invocations_per_workgroup is 64; request the device with wgpu::Limits::default() or more");
}

#[test]
fn work_too_large_for_one_encoder_is_refused_there_and_split_by_run() {
    let gpu = cramped_gpu(1_024);
    let mut rng = fastrand::Rng::with_seed(34);
    let layer = Spec { biases: false, ..Spec::new(1, 1, 1, 8, 4) }.layer(&mut rng);
    let inputs = AttentionInputs::self_attention(random(&mut rng, [4, 60, 32]));
    let plan = pollster::block_on(layer.plan(&gpu, &inputs.call_shape(), false, &PlanOptions::default())).unwrap();
    assert!(plan.num_dispatches() > 1_024, "{}", plan.num_dispatches());
    let mut encoder = gpu.device().create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    let error = plan.encode(&mut encoder).unwrap_err();
    assert!(matches!(error, Error::LimitExceeded { have: 1_024, .. }), "{error}");
    let got = pollster::block_on(plan.run(&Inputs::new().with("query", &inputs.query))).unwrap();
    let (truth, naive) = (layer.reference::<f64>(&inputs).unwrap(), layer.reference::<f32>(&inputs).unwrap());
    assert_eq!(first_difference(got.outputs["output"].data(), truth[0].data(), naive[0].data()), None);
}

#[test]
fn tensors_that_do_not_fit_are_refused_with_the_numbers() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(35);
    let layer = Spec::new(1, 4, 4, 2, 4).layer(&mut rng);
    let call = AttentionInputs::self_attention(random(&mut rng, [1, 4, 8])).call_shape();
    let buffer = users_buffer(gpu.device(), 128, Usage::STORAGE);
    let refusal = |tensors: &[(&str, Tensor)]| {
        let tensors = tensors.iter().map(|(name, tensor)| ((*name).to_owned(), tensor.clone())).collect();
        let options = PlanOptions { tensors, ..PlanOptions::default() };
        pollster::block_on(layer.plan(&gpu, &call, false, &options)).unwrap_err().to_string()
    };
    let uniform = users_buffer(gpu.device(), 128, Usage::UNIFORM);
    let whole = Tensor::new(&buffer);
    insta::assert_snapshot!(refusal(&[("query", whole.clone().at(2))]), @"the offset of query is 2, but must be a multiple of 4 bytes");
    insta::assert_snapshot!(refusal(&[("query", whole.clone().at(4))]), @"query (1, 4, 8) at byte 4 needs 132 bytes, but its buffer is 128; make the buffer larger, or check offset and strides");
    insta::assert_snapshot!(refusal(&[("query", whole.clone().with_strides([0, 9, 1]))]), @"query (1, 4, 8) at byte 0 needs 140 bytes, but its buffer is 128; make the buffer larger, or check offset and strides");
    insta::assert_snapshot!(refusal(&[("query", whole.clone().with_strides([8, 1]))]), @"query (1, 4, 8) has strides [8, 1], but needs one for each of at most four axes");
    insta::assert_snapshot!(refusal(&[("output", whole.clone().with_strides([0, 4, 1]))]), @"output (1, 4, 8) would be written with strides [0, 4, 1], by which elements fall on each other");
    insta::assert_snapshot!(refusal(&[("query", Tensor::new(&uniform))]), @"the buffer of query has usage BufferUsages(UNIFORM), but a shader needs STORAGE");
    insta::assert_snapshot!(refusal(&[("scores", whole.clone())]), @r#"the graph has no input, parameter or output "scores"; it has query, W_q, b_q, W_k, b_k, W_v, b_v, W_o, b_o, output"#);
    let roomy = Tensor::new(&users_buffer(gpu.device(), 1_024, Usage::STORAGE));
    insta::assert_snapshot!(refusal(&[("W_o", roomy.clone()), ("output", roomy.at(512))]), @"W_o and output lie in one buffer, but one dispatch would read the one and write the other; give them a buffer each");
}

/// out[i] = x[i]·|x[i]|, with its uniform left out.
const SIGNED_SQUARE: &str = "
    @group(0) @binding(1) var<storage, read> x: array<f32>;
    @group(0) @binding(2) var<storage, read_write> out: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arrayLength(&out) { out[id.x] = x[id.x] * abs(x[id.x]); }
    }";

fn square(wgsl: &str, has_twin: bool) -> Custom {
    let twin: Arc<multihead::graph::CpuTwin> = Arc::new(|inputs: &[&[f64]], output: &mut [f64]| {
        output.iter_mut().zip(inputs[0]).for_each(|(out, x)| *out = x * x.abs());
    });
    let kernel = CustomKernel {
        name: "signed_square".into(),
        wgsl: wgsl.into(),
        params: Vec::new(),
        workgroups: [1, 1, 1],
        cpu: has_twin.then_some(twin),
    };
    Custom { kernel: Arc::new(kernel), inputs: Vec::new() }
}

fn squared_graph(op: Custom) -> multihead::Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", [1, 12], DType::F32).unwrap();
    let y = builder.custom("y", Custom { inputs: vec![x], ..op }, [1, 12]).unwrap();
    let w = builder.parameter("W", [3, 12]).unwrap();
    let z = builder.linear("z", y, w, None).unwrap();
    builder.finish(&[z])
}

#[test]
fn a_users_kernel_is_a_node_like_any_other() {
    let mut rng = fastrand::Rng::with_seed(36);
    let (x, w) = (random(&mut rng, [1, 12]), random(&mut rng, [3, 12]));
    let (parameters, inputs) = (Inputs::new().with("W", &w), Inputs::new().with("x", &x));
    let graph = squared_graph(square(SIGNED_SQUARE, true));
    assert!(graph.to_string().contains("signed_square"), "{graph}");
    support::check_graph(&gpu(), &graph, &parameters, &inputs, None, "a user's kernel");
}

/// A user's shader that asks for a length gets the tensor's, not that of the memory around it.
#[test]
fn a_users_kernel_writes_nothing_behind_its_tensor() {
    let gpu = gpu();
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", [5], DType::F32).unwrap();
    let y = builder.custom("y", Custom { inputs: vec![x], ..square(SIGNED_SQUARE, true) }, [5]).unwrap();
    let graph = builder.finish(&[y]);
    let buffer = users_buffer(gpu.device(), 64, Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC);
    gpu.queue().write_buffer(&buffer, 0, bytemuck::cast_slice(&[-7.0_f32; 16]));
    let options = PlanOptions { tensors: [("y".to_owned(), Tensor::new(&buffer))].into(), ..PlanOptions::default() };
    let plan = pollster::block_on(Plan::new(&gpu, &graph, &Inputs::new(), &options)).unwrap();
    let x = HostTensor::new([5], vec![1.0, -2.0, 3.0, -4.0, 5.0]).unwrap();
    pollster::block_on(plan.run(&Inputs::new().with("x", &x))).unwrap();
    let mut expected = vec![-7.0_f32; 16];
    expected[..5].copy_from_slice(&[1.0, -4.0, 9.0, -16.0, 25.0]);
    assert!(words(gpu.device(), gpu.queue(), &buffer).iter().zip(&expected).all(|(a, b)| a.to_bits() == b.to_bits()));
}

#[test]
fn grids_that_no_device_takes_are_refused_with_the_numbers() {
    let with_grid = |workgroups| {
        let Custom { kernel, inputs } = square(SIGNED_SQUARE, true);
        Custom { kernel: Arc::new(CustomKernel { workgroups, ..(*kernel).clone() }), inputs }
    };
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", [5], DType::F32).unwrap();
    let none = builder.custom("none", Custom { inputs: vec![x], ..with_grid([0, 1, 1]) }, [5]).unwrap_err();
    assert!(none.to_string().contains("[0, 1, 1]"), "{none}");
    let y = builder.custom("y", Custom { inputs: vec![x], ..with_grid([70_000, 1, 1]) }, [5]).unwrap();
    let graph = builder.finish(&[y]);
    let error = pollster::block_on(Plan::new(&gpu(), &graph, &Inputs::new(), &PlanOptions::default())).unwrap_err();
    assert!(matches!(error, Error::LimitExceeded { need: 70_000, .. }), "{error}");
}

/// A user's kernel sees its tensors from their first element on, which no binding can do at every offset.
#[test]
fn a_tensor_where_no_binding_can_start_is_copied_for_a_users_kernel_if_it_has_strides() {
    let gpu = gpu();
    let buffer = users_buffer(gpu.device(), 1_024, Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC);
    let x: Vec<f32> = (0..5_u8).map(|i| f32::from(i) - 2.0).collect();
    gpu.queue().write_buffer(&buffer, 4, bytemuck::cast_slice(&x));
    let plan = |tensor: Tensor| {
        let mut builder = GraphBuilder::new();
        let x = builder.input("x", [5], DType::F32).unwrap();
        let y = builder.custom("y", Custom { inputs: vec![x], ..square(SIGNED_SQUARE, true) }, [5]).unwrap();
        let options = PlanOptions { tensors: [("x".to_owned(), tensor)].into(), ..PlanOptions::default() };
        pollster::block_on(Plan::new(&gpu, &builder.finish(&[y]), &Inputs::new(), &options))
    };
    let error = plan(Tensor::new(&buffer).at(4)).unwrap_err().to_string();
    let expected = "the offset of x, which signed_square binds, is 4, but must be a multiple of ";
    assert!(error.starts_with(expected) && error.contains("give it strides"), "{error}");
    let plan = plan(Tensor::new(&buffer).at(4).with_strides([1])).unwrap();
    let got = pollster::block_on(plan.run(&Inputs::new())).unwrap();
    assert_eq!(got.outputs["y"].data(), [-4.0, -1.0, 0.0, 1.0, 4.0]);
}

#[test]
fn without_a_twin_the_cpu_says_so() {
    let mut rng = fastrand::Rng::with_seed(37);
    let (x, w) = (random(&mut rng, [1, 12]), random(&mut rng, [3, 12]));
    let graph = squared_graph(square(SIGNED_SQUARE, false));
    let (parameters, inputs) = (Inputs::new().with("W", &w), Inputs::new().with("x", &x));
    insta::assert_snapshot!(reference::interpret::<f32>(&graph, &parameters, &inputs).unwrap_err(), @"signed_square has no CPU twin; compute on a GPU, or give the kernel one");
}

#[test]
fn what_the_compiler_says_of_a_users_kernel_is_passed_on() {
    let w = HostTensor::new([3, 12], vec![0.0; 36]).unwrap();
    let gpu = gpu();
    let plan = |wgsl: &str| {
        let graph = squared_graph(square(wgsl, true));
        pollster::block_on(Plan::new(&gpu, &graph, &Inputs::new().with("W", &w), &PlanOptions::default()))
    };
    let error = plan("@compute @workgroup_size(1) fn main() { nonsense }").unwrap_err().to_string();
    assert!(error.starts_with("the GPU refused mha.signed_square:") && error.contains("nonsense"), "{error}");
    // The name alone does not make a kernel: another text under it is compiled anew.
    assert!(plan(SIGNED_SQUARE).is_ok());
}

/// Wherever a shader's type is larger than what lies behind its binding.
#[test]
fn a_users_type_larger_than_its_binding_is_refused_by_the_plan() {
    let gpu = gpu();
    let w = HostTensor::new([3, 12], vec![0.0; 36]).unwrap();
    let shader = |uniform: &str, x: &str, out: &str| {
        format!(
            "@group(0) @binding(0) var<uniform> params: {uniform};
             @group(0) @binding(1) var<storage, read> x: {x};
             @group(0) @binding(2) var<storage, read_write> out: {out};
             @compute @workgroup_size(1) fn main() {{ out[0] = x[0] + params[0]; }}"
        )
    };
    let plan = |params: usize, [uniform, x, out]: [&str; 3]| {
        let Custom { kernel, inputs } = square(&shader(uniform, x, out), true);
        let kernel = CustomKernel { params: vec![0; params], ..(*kernel).clone() };
        let graph = squared_graph(Custom { kernel: Arc::new(kernel), inputs });
        pollster::block_on(Plan::new(&gpu, &graph, &Inputs::new().with("W", &w), &PlanOptions::default()))
    };
    assert!(plan(16, ["vec4<f32>", "array<f32, 12>", "array<f32>"]).is_ok());
    assert!(plan(8, ["vec2<f32>", "array<f32>", "array<f32, 12>"]).is_ok());
    for (params, types) in [
        (0, ["vec4<f32>", "array<f32>", "array<f32>"]),
        (12, ["vec4<f32>", "array<f32>", "array<f32>"]),
        (4, ["vec2<f32>", "array<f32>", "array<f32>"]),
        (16, ["vec4<f32>", "array<f32, 13>", "array<f32>"]),
        (16, ["vec4<f32>", "array<f32>", "array<f32, 13>"]),
    ] {
        let error = plan(params, types).unwrap_err();
        assert!(matches!(error, Error::Gpu { .. }), "{types:?}: {error}");
        assert!(error.to_string().contains("signed_square"), "{types:?}: {error}");
    }
}

/// The answer overwrites the question: allowed where a dispatch of its own writes it, whatever the size.
#[test]
fn attention_in_place_is_right_for_small_and_large_calls() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(81);
    let layer = multihead::MultiHeadAttention::core(multihead::AttentionConfig::new(2)).unwrap();
    for [length, width] in [[6, 8], [200, 128]] {
        let query = random(&mut rng, [1, length, width]);
        let inputs = AttentionInputs::self_attention(query);
        let buffer =
            users_buffer(gpu.device(), (length * width * 4) as u64, Usage::STORAGE | Usage::COPY_DST | Usage::COPY_SRC);
        gpu.queue().write_buffer(&buffer, 0, bytemuck::cast_slice(inputs.query.data()));
        let tensors = ["query", "joined"].map(|name| (name.to_owned(), Tensor::new(&buffer))).into();
        let options = PlanOptions { tensors, ..PlanOptions::default() };
        let plan = pollster::block_on(layer.plan(&gpu, &inputs.call_shape(), false, &options)).unwrap();
        pollster::block_on(plan.run(&Inputs::new())).unwrap();
        let got = words(gpu.device(), gpu.queue(), &buffer);
        let (truth, naive) = (layer.reference::<f64>(&inputs).unwrap(), layer.reference::<f32>(&inputs).unwrap());
        assert_eq!(first_difference(&got, truth[0].data(), naive[0].data()), None, "{length} × {width}");
    }
}

/// Inputs and outputs of an `AttentionPlan` are the host's.
#[test]
fn a_plan_of_host_tensors_refuses_buffers_of_the_users() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(82);
    let layer = Spec::new(1, 4, 4, 2, 4).layer(&mut rng);
    let call = AttentionInputs::self_attention(random(&mut rng, [1, 4, 8])).call_shape();
    let buffer = users_buffer(gpu.device(), 128, Usage::STORAGE);
    let options =
        PlanOptions { tensors: [("output".to_owned(), Tensor::new(&buffer))].into(), ..PlanOptions::default() };
    for device in [multihead::Device::Gpu(gpu.clone()), multihead::Device::Cpu(multihead::CpuReason::Chosen)] {
        let error = pollster::block_on(layer.compile_with(&device, &call, false, &options)).unwrap_err();
        assert!(error.to_string().contains("MultiHeadAttention::plan"), "{error}");
    }
}

/// A run computes its own inputs, or is refused: never those that an upload put in their place.
#[test]
fn an_upload_never_changes_a_run_that_is_not_over() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(83);
    let layer = Spec::new(1, 40, 40, 2, 16).layer(&mut rng);
    let [ours, theirs] = [(); 2].map(|()| random(&mut rng, [1, 40, 32]));
    let call = AttentionInputs::self_attention(ours.clone()).call_shape();
    let plan = pollster::block_on(layer.plan(&gpu, &call, false, &PlanOptions::default())).unwrap();
    let run = || pollster::block_on(plan.run(&Inputs::new().with("query", &ours)));
    let expected = run().unwrap().outputs.remove("output").unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let _ = pollster::block_on(plan.upload(&Inputs::new().with("query", &theirs)));
                std::thread::yield_now();
            }
        });
        let mut refused = 0;
        for _ in 0..100 {
            match run() {
                Ok(mut got) => assert_eq!(got.outputs.remove("output").unwrap(), expected),
                Err(error) => {
                    assert!(error.to_string().contains("running already"), "{error}");
                    refused += 1;
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        assert!(refused < 100, "some runs should have had their turn");
    });
}
