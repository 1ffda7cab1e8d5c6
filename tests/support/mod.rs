//! What the tests share: devices, random tensors, the yardstick.
#![allow(dead_code, reason = "every test file compiles this module and uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![allow(unreachable_pub, reason = "a module of a test crate has nobody to be reached by")]

pub mod layers;
pub mod users;

use std::collections::BTreeMap;

use multihead::{Gpu, GpuOptions, Graph, HostTensor, Inputs, LimitsChoice, Plan, PlanOptions, kernels, reference};

/// A device with the adapter's own limits. No adapter is a failure, never a skip.
pub fn gpu() -> Gpu {
    open(LimitsChoice::Adapter)
}

/// A device with no more than what WebGPU guarantees.
pub fn portable_gpu() -> Gpu {
    open(LimitsChoice::WebGpuDefault)
}

/// A device on which no binding is larger than this, so that small work is split like large work.
pub fn cramped_gpu(binding_bytes: u64) -> Gpu {
    open(LimitsChoice::Binding(binding_bytes))
}

/// Both, where they are two: SwiftShader's own limits let no other kernel be chosen, and it compiles slowly.
pub fn gpus() -> Vec<Gpu> {
    let gpu = gpu();
    let one = gpu.profile().name.contains("SwiftShader");
    let portable = (!one).then(portable_gpu);
    std::iter::once(gpu).chain(portable).collect()
}

fn open(limits: LimitsChoice) -> Gpu {
    let options = GpuOptions { adapter: None, limits };
    pollster::block_on(Gpu::open(&options)).expect("these tests need a Vulkan, Metal or DX12 adapter; see README.md")
}

/// Whether a kernel of this name reads its operands from textures.
pub fn reads_texels(kernel: &str) -> bool {
    kernels::all().any(|known| known.name == kernel && known.wgsl.contains("texture_storage_2d<rgba32float, read>"))
}

/// Numbers around 0, seeded: the same in every run.
pub fn random(rng: &mut fastrand::Rng, shape: impl Into<multihead::Shape>) -> HostTensor {
    let shape = shape.into();
    let len = shape.checked_len().unwrap();
    HostTensor::new(shape, (0..len).map(|_| rng.f32() * 2.0 - 1.0).collect()).unwrap()
}

/// Largest absolute difference allowed between a result and the truth: four times what the same computation in plain
/// 32-bit Rust deviates, and a millionth (2⁻²⁰) of the largest true number.
pub fn allowance(truth: &[f64], naive: &[f32]) -> f64 {
    let errors = naive.iter().zip(truth).map(|(&n, &t)| (f64::from(n) - t).abs());
    // A naive result that is no number measures nothing.
    let naive_error = errors.filter(|error| error.is_finite()).fold(0.0, f64::max);
    let largest = truth.iter().map(|t| t.abs()).fold(0.0, f64::max);
    4.0 * naive_error + 2.0_f64.powi(-20) * largest
}

/// The first place where `got` is not the truth, if there is one. NaN equals NaN only; an infinity equals itself.
pub fn first_difference(got: &[f32], truth: &[f64], naive: &[f32]) -> Option<String> {
    if got.len() != truth.len() {
        return Some(format!("{} numbers instead of {}", got.len(), truth.len()));
    }
    let finite = |value: &&f64| value.is_finite();
    let finite_truth: Vec<f64> = truth.iter().filter(finite).copied().collect();
    let finite_naive: Vec<f32> = naive.iter().zip(truth).filter(|(_, t)| t.is_finite()).map(|(&n, _)| n).collect();
    let allowed = allowance(&finite_truth, &finite_naive);
    let matches = |got: f32, truth: f64| {
        if truth.is_finite() { (f64::from(got) - truth).abs() <= allowed } else { !got.is_finite() }
    };
    let index = got.iter().zip(truth).position(|(&got, &truth)| !matches(got, truth))?;
    let error: f64 = got.iter().zip(truth).map(|(&g, &t)| (f64::from(g) - t).powi(2)).sum();
    let power: f64 = truth.iter().map(|t| t * t).sum();
    Some(format!(
        "at {index}: got {}, expected {}, allowed difference {allowed:e}, NMSE {:e}",
        got[index],
        truth[index],
        error / power
    ))
}

/// Runs a graph on a device, poisoned beforehand, and holds every output against the reference.
pub fn check_graph(
    gpu: &Gpu,
    graph: &Graph,
    parameters: &Inputs<'_>,
    inputs: &Inputs<'_>,
    kernel: Option<&'static str>,
    about: &str,
) {
    let options = PlanOptions { preferred_kernels: kernel.into_iter().collect(), ..PlanOptions::default() };
    let plan = pollster::block_on(Plan::new(gpu, graph, parameters, &options)).unwrap();
    pollster::block_on(plan.poison()).unwrap();
    let got = pollster::block_on(plan.run(inputs)).unwrap().outputs;
    compare(&got, graph, parameters, inputs, &format!("{about}, kernel {kernel:?}, device {}", gpu.profile().name));
}

/// Holds outputs against the reference in 64 bits, with the reference in 32 bits as the measure of what is fair.
pub fn compare(
    got: &BTreeMap<String, HostTensor>,
    graph: &Graph,
    parameters: &Inputs<'_>,
    inputs: &Inputs<'_>,
    about: &str,
) {
    let truth = reference::interpret::<f64>(graph, parameters, inputs).unwrap();
    let naive = reference::interpret::<f32>(graph, parameters, inputs).unwrap();
    assert_eq!(got.len(), truth.len(), "{about}");
    for (name, truth) in &truth {
        assert_eq!(got[name].shape(), truth.shape(), "{about}: {name}");
        if let Some(difference) = first_difference(got[name].data(), truth.data(), naive[name].data()) {
            panic!("{about}: {name} {} {difference}", truth.shape());
        }
    }
}
