//! Plans: what they print, that they allocate once, what they refuse. Some tests need any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use multihead::{
    AttentionInputs, DeviceProfile, Error, Gpu, Graph, HostTensor, Inputs, Mask, Plan, PlanOptions, PlanSummary,
    Rewriting,
};
use support::layers::Spec;
use support::{gpu, random};

fn graph_of(spec: &Spec, mask: Mask) -> (Graph, AttentionInputs) {
    let mut rng = fastrand::Rng::with_seed(21);
    let layer = spec.layer(&mut rng);
    let inputs = AttentionInputs { mask, ..AttentionInputs::self_attention(random(&mut rng, [2, 16, 24])) };
    (layer.graph(&inputs.call_shape(), false).unwrap(), inputs)
}

#[test]
fn a_graph_prints_what_is_computed() {
    let spec = Spec { num_kv_heads: 2, extra_key: true, ..Spec::new(2, 16, 16, 4, 6) };
    let lens = HostTensor::new([2], vec![16, 10]).unwrap();
    let (graph, _) = graph_of(&spec, Mask { valid_lens: Some(lens), causal: true, window: Some(5), ..Mask::default() });
    insta::assert_snapshot!(graph);
}

#[test]
fn a_plan_prints_how_it_is_computed() {
    let (graph, _) = graph_of(&Spec::new(2, 16, 16, 4, 6), Mask::default());
    insta::assert_snapshot!(PlanSummary::new(&graph, &DeviceProfile::portable()).unwrap());
}

#[test]
fn a_plan_without_rewriting_prints_a_dispatch_for_every_op() {
    let (graph, _) = graph_of(&Spec::new(2, 16, 16, 4, 6), Mask::default());
    insta::assert_snapshot!(PlanSummary::with_options(&graph, &DeviceProfile::portable(), &unfused()).unwrap());
}

/// The graph as it was built.
fn unfused() -> PlanOptions {
    PlanOptions { rewriting: Rewriting::OFF, ..PlanOptions::default() }
}

#[test]
fn parameters_and_flops_are_those_of_the_formula_whatever_the_number_of_heads() {
    let (n, d) = (10, 24);
    for num_heads in [1, 2, 3, 4, 6, 8, 12, 24] {
        let spec = Spec { biases: false, ..Spec::new(1, n, n, num_heads, d / num_heads) };
        let mut rng = fastrand::Rng::with_seed(22);
        let query = random(&mut rng, [1, n, d]);
        let graph = spec.layer(&mut rng).graph(&AttentionInputs::self_attention(query).call_shape(), false).unwrap();
        let (n, d) = (n as u64, d as u64);
        assert_eq!(graph.parameters(), 4 * d * d);
        assert_eq!(graph.flops(), 8 * n * d * d + 4 * n * n * d);
    }
}

#[test]
fn kernels_are_chosen_by_the_device_profile() {
    let (graph, _) = graph_of(&Spec::new(2, 16, 16, 4, 6), Mask::default());
    let variants = |kind| {
        let profile = DeviceProfile { kind, ..DeviceProfile::portable() };
        let summary = PlanSummary::with_options(&graph, &profile, &unfused()).unwrap();
        summary.steps.into_iter().map(|step| step.variant).collect::<Vec<_>>()
    };
    let (on_cpu, on_gpu) = (variants(multihead::AdapterKind::Cpu), variants(multihead::AdapterKind::DiscreteGpu));
    assert_eq!((on_cpu[0].as_str(), on_gpu[0].as_str()), ("matmul_register_vec4", "matmul_tiled"));
    // Heads of 6 do not come in fours.
    assert_eq!((on_cpu[6].as_str(), on_cpu[7].as_str()), ("matmul_register", "softmax_row"));
    assert_eq!(on_gpu[7], "softmax_workgroup");
}

#[test]
fn scores_beyond_a_binding_are_split_by_the_plan_before_anything_runs() {
    let mut rng = fastrand::Rng::with_seed(23);
    let spec = Spec { biases: false, ..Spec::new(1, 1, 1, 8, 8) };
    let layer = spec.layer(&mut rng);
    // More than WebGPU's 128 MiB is never kept of the scores, whatever the device would allow.
    let generous = DeviceProfile { max_binding_bytes: 2 << 30, max_buffer_bytes: 2 << 30, ..DeviceProfile::portable() };
    let cases = [(2048, 1), (2049, 2), (4096, 4), (12_000, 64)];
    for (length, blocks) in cases {
        let query = HostTensor::new([1, length, 64], vec![0.0; length * 64]).unwrap();
        let graph = layer.graph(&AttentionInputs::self_attention(query).call_shape(), false).unwrap();
        let generous = PlanSummary::with_options(&graph, &generous, &unfused()).unwrap();
        let summary = PlanSummary::with_options(&graph, &DeviceProfile::portable(), &unfused()).unwrap();
        assert_eq!(generous.peak_bytes, summary.peak_bytes);
        let count = summary.steps.iter().filter(|step| step.op == "softmax").count();
        assert_eq!(count, blocks, "{length} tokens");
        assert!(summary.peak_bytes < (256 << 20) + 12 * 4 * 64 * length as u64, "{length} tokens");
    }
}

#[test]
fn running_again_allocates_nothing() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(24);
    let x = random(&mut rng, [2, 16, 24]);
    let (layer, inputs) = {
        let spec = Spec::new(2, 16, 16, 4, 6);
        (spec.layer(&mut rng), AttentionInputs::self_attention(x))
    };
    let device = multihead::Device::Gpu(gpu.clone());
    let plan = pollster::block_on(layer.compile(&device, &inputs.call_shape(), true)).unwrap();
    let counts = |gpu: &Gpu| {
        let counters = gpu.device().get_internal_counters().hal;
        [
            counters.buffers.read(),
            counters.bind_groups.read(),
            counters.compute_pipelines.read(),
            counters.buffer_memory.read(),
        ]
    };
    // The first run may grow what wgpu keeps for itself: staging memory and command pools.
    pollster::block_on(plan.run(&inputs)).unwrap();
    let before = counts(&gpu);
    assert!(before[0] > 0 && before[1] > 0, "the counters should count: {before:?}");
    for _ in 0..5 {
        pollster::block_on(plan.run(&inputs)).unwrap();
        assert_eq!(counts(&gpu), before);
    }
    let another = pollster::block_on(layer.compile(&device, &inputs.call_shape(), true)).unwrap();
    assert!(counts(&gpu)[0] > before[0], "another plan should be seen by the counters");
    drop(another);
}

fn doubling(gpu: &Gpu) -> Plan {
    let mut builder = multihead::GraphBuilder::new();
    let x = builder.input("x", [1, 2], multihead::DType::F32).unwrap();
    let w = builder.parameter("W", [1, 2]).unwrap();
    let y = builder.linear("y", x, w, None).unwrap();
    let w = HostTensor::new([1, 2], vec![1.0, 1.0]).unwrap();
    let graph = builder.finish(&[y]);
    pollster::block_on(Plan::new(gpu, &graph, &Inputs::new().with("W", &w), &PlanOptions::default())).unwrap()
}

#[test]
fn inputs_that_do_not_fit_the_graph_are_refused() {
    let plan = doubling(&gpu());
    let refusal = |inputs: &Inputs<'_>| pollster::block_on(plan.run(inputs)).unwrap_err().to_string();
    let x = HostTensor::new([1, 2], vec![1.0, 2.0]).unwrap();
    let wide = HostTensor::new([2, 1], vec![1.0, 2.0]).unwrap();
    let integers = HostTensor::new([1, 2], vec![1_u32, 2]).unwrap();
    insta::assert_snapshot!(refusal(&Inputs::new()), @"x (1, 2) is missing; every input and parameter of the graph must be given");
    insta::assert_snapshot!(refusal(&Inputs::new().with("x", &wide)), @"x has shape (2, 1), but the graph was built for (1, 2)");
    insta::assert_snapshot!(refusal(&Inputs::new().with("x", &integers)), @"x is given as 32-bit unsigned integers, but the graph was built for 32-bit floats");
    insta::assert_snapshot!(refusal(&Inputs::new().with("x", &x).with("y", &x)), @r#"the graph has no input "y"; it has x"#);
    assert_eq!(pollster::block_on(plan.run(&Inputs::new().with("x", &x))).unwrap().outputs["y"].data(), [3.0]);
}

/// A future that is polled once and then dropped, as a caller does who stops waiting.
fn start_and_abandon<T>(future: impl Future<Output = T>) {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let _ = future.as_mut().poll(&mut context);
}

#[test]
fn an_abandoned_run_leaves_the_plan_usable() {
    let plan = doubling(&gpu());
    let x = HostTensor::new([1, 2], vec![1.0, 2.0]).unwrap();
    for _ in 0..3 {
        start_and_abandon(plan.run(&Inputs::new().with("x", &x)));
        let outputs = pollster::block_on(plan.run(&Inputs::new().with("x", &x))).unwrap().outputs;
        assert_eq!(outputs["y"].data(), [3.0]);
    }
}

#[test]
fn outputs_that_no_buffer_could_take_to_the_host_are_refused_with_the_numbers() {
    let mut rng = fastrand::Rng::with_seed(25);
    let layer = Spec::new(1, 1, 1, 8, 8).layer(&mut rng);
    let query = HostTensor::new([1, 2896, 64], vec![0.0; 2896 * 64]).unwrap();
    let graph = layer.graph(&AttentionInputs::self_attention(query).call_shape(), true).unwrap();
    let error = PlanSummary::new(&graph, &DeviceProfile::portable()).unwrap_err();
    insta::assert_snapshot!(error, @r#"a buffer for all outputs needs 269119488 bytes, but the largest buffer of "portable profile" is 268435456; do not ask for the attention weights, cut the batch into pieces, or compute on the CPU"#);
}

#[test]
fn a_lost_device_is_an_error_and_not_an_answer() {
    let gpu = gpu();
    let plan = doubling(&gpu);
    let x = HostTensor::new([1, 2], vec![1.0, 2.0]).unwrap();
    gpu.device().destroy();
    let error = pollster::block_on(plan.run(&Inputs::new().with("x", &x))).unwrap_err();
    assert!(matches!(error, Error::DeviceLost { .. }), "{error}");
    assert!(error.is_device_fault());
}

#[test]
fn an_adapter_that_is_not_there_is_named() {
    let options = multihead::GpuOptions { adapter: Some("no such adapter".into()), ..Default::default() };
    let error = pollster::block_on(Gpu::open(&options)).unwrap_err();
    assert!(error.to_string().starts_with("no usable GPU adapter named \"no such adapter\": found \""), "{error}");
}
