//! Long work: dispatches are cut, submissions are parts of a run, and nothing of it shows in the answer. Needs any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use std::time::Duration;

use multihead::{
    AttentionInputs, AttentionPlan, Clock, Device, DeviceProfile, Fuse, Gpu, Mask, PlanOptions, PlanSummary, Progress,
    Rewriting,
};
use support::layers::Spec;
use support::{gpu, portable_gpu, random};

/// Ways of computing a graph that end in different kernels.
fn ways() -> [PlanOptions; 6] {
    let plain = Rewriting { pack: false, fuse: Fuse::Off };
    let fused = Rewriting { pack: true, fuse: Fuse::On };
    let preferring = |kernels: &[&'static str], rewriting| PlanOptions {
        preferred_kernels: kernels.to_vec(),
        rewriting,
        ..PlanOptions::default()
    };
    [
        PlanOptions::default(),
        preferring(&[], plain),
        preferring(&["matmul_tiled", "attention_tiled"], fused),
        preferring(&["matmul_texels", "attention_texels"], fused),
        preferring(&["matmul_texels", "attention_texels_wide"], fused),
        preferring(&["matmul_texels", "attention_panels"], fused),
    ]
}

fn compiled(gpu: &Gpu, options: &PlanOptions) -> (AttentionPlan, AttentionInputs) {
    let mut rng = fastrand::Rng::with_seed(61);
    let spec = Spec { num_kv_heads: 2, ..Spec::new(2, 133, 133, 4, 16) };
    let layer = spec.layer(&mut rng);
    let mask = Mask { causal: true, ..Mask::default() };
    let inputs = AttentionInputs { mask, ..AttentionInputs::self_attention(random(&mut rng, [2, 133, 64])) };
    let device = Device::Gpu(gpu.clone());
    let plan = pollster::block_on(layer.compile_with(&device, &inputs.call_shape(), false, options)).unwrap();
    (plan, inputs)
}

#[test]
fn parts_of_a_run_give_the_same_bits_as_one_submission() {
    let gpu = gpu();
    for options in ways() {
        let run = |dispatch_flops| {
            let (plan, inputs) = compiled(&gpu, &PlanOptions { dispatch_flops, ..options.clone() });
            let mut told = Vec::new();
            let result = pollster::block_on(plan.run_with_progress(&inputs, |progress| told.push(progress))).unwrap();
            let bits: Vec<_> = result.output.data().iter().map(|number| number.to_bits()).collect();
            (plan.num_dispatches(), bits, told)
        };
        let (whole_dispatches, whole, told) = run(None);
        assert!(matches!(told[..], [Progress { done, total }] if done == total), "{told:?}");
        for dispatch_flops in [1, 100_000] {
            let (dispatches, parts, told) = run(Some(dispatch_flops));
            assert!(dispatches > whole_dispatches, "{dispatches} dispatches of {dispatch_flops}, {options:?}");
            assert!(whole == parts, "{dispatch_flops} to a dispatch, {options:?}");
            assert!(told.len() > 2 && told.is_sorted_by(|a, b| a.done < b.done), "{told:?}");
            assert_eq!(told.last().map(|last| last.done), told.first().map(|first| first.total));
        }
    }
}

#[test]
fn no_dispatch_of_a_slow_device_takes_long_and_usual_calls_stay_whole() {
    let lavapipe = DeviceProfile {
        name: "llvmpipe".into(),
        kind: multihead::AdapterKind::Cpu,
        subgroups: true,
        subgroup: [8, 8],
        max_texture_rows: 8192,
        ..DeviceProfile::portable()
    };
    let dispatches = |length: usize| {
        let mut rng = fastrand::Rng::with_seed(62);
        let layer = Spec { biases: false, ..Spec::new(1, 1, 1, 8, 64) }.layer(&mut rng);
        let query = multihead::HostTensor::new([1, length, 512], vec![0.0; length * 512]).unwrap();
        let graph = layer.graph(&AttentionInputs::self_attention(query).call_shape(), false).unwrap();
        PlanSummary::new(&graph, &lavapipe).unwrap().steps.len()
    };
    assert_eq!([256, 1024, 2048].map(dispatches), [3, 3, 7]);
}

#[test]
fn a_profile_has_every_dispatch_and_adds_up_to_the_compute_time() {
    let timed = gpu();
    let has_clock = timed.device().features().contains(wgpu::Features::TIMESTAMP_QUERY);
    let clock = if has_clock { Clock::Device } else { Clock::Host };
    for (gpu, clock) in [(timed, clock), (portable_gpu(), Clock::Host)] {
        for dispatch_flops in [None, Some(100_000)] {
            let (plan, inputs) = compiled(&gpu, &PlanOptions { dispatch_flops, ..PlanOptions::default() });
            let run = pollster::block_on(plan.run(&inputs)).unwrap();
            let (output, profile) = pollster::block_on(plan.profile(&inputs)).unwrap();
            assert_eq!(output.output, run.output);
            assert_eq!((profile.clock, profile.steps.len()), (clock, plan.num_dispatches()));
            let (total, compute) = (profile.total(), output.timing.gpu);
            assert!(total > Duration::ZERO && total <= compute * 2, "{total:?} of {compute:?}: {profile}");
            let shares: f64 = profile.steps.iter().map(|step| profile.share(step)).sum();
            assert!((shares - 1.0).abs() < 1e-9);
            assert!(profile.steps.is_sorted_by_key(|step| step.start));
        }
    }
}

#[test]
fn the_cpu_tells_how_far_it_is_and_what_each_node_takes() {
    let mut rng = fastrand::Rng::with_seed(63);
    let spec = Spec::new(1, 20, 20, 2, 4);
    let (layer, inputs) = (spec.layer(&mut rng), AttentionInputs::self_attention(random(&mut rng, [1, 20, 8])));
    let device = pollster::block_on(Device::open(&multihead::DeviceChoice::Cpu)).unwrap();
    let plan = pollster::block_on(layer.compile(&device, &inputs.call_shape(), false)).unwrap();
    let mut told = Vec::new();
    pollster::block_on(plan.run_with_progress(&inputs, |progress| told.push(progress))).unwrap();
    assert_eq!(told.len(), plan.num_dispatches());
    assert!(told.is_sorted_by(|a, b| a.done < b.done) && told.last().is_some_and(|last| last.done == last.total));
    let (_, profile) = pollster::block_on(plan.profile(&inputs)).unwrap();
    assert_eq!((profile.clock, profile.steps.len()), (Clock::Host, plan.num_dispatches()));
}

#[test]
fn a_trace_has_an_event_for_each_dispatch() {
    let (plan, inputs) = compiled(&gpu(), &PlanOptions::default());
    let (_, profile) = pollster::block_on(plan.profile(&inputs)).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&profile.to_chrome_trace("a \"device\"")).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    assert_eq!((events[0]["ph"].as_str(), events[0]["args"]["name"].as_str()), (Some("M"), Some("a \"device\"")));
    let complete: Vec<_> = events.iter().filter(|event| event["ph"] == "X").collect();
    assert_eq!(complete.len(), profile.steps.len());
    let microseconds: f64 = complete.iter().map(|event| event["dur"].as_f64().unwrap()).sum();
    assert!((microseconds / 1e6 - profile.total().as_secs_f64()).abs() < 1e-6);
}
