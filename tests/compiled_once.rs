//! Drivers that compile on the CPU do it once: a second run of a plan compiles nothing. Needs any adapter.
//!
//! Lavapipe takes parameters for constants where a condition depends on nothing else, and then compiles the kernel for
//! every dispatch anew (docs/performance.md).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use multihead::{Fuse, Mask, PlanOptions, Rewriting, Training, kernels};
use support::gpu;
use support::layers::Spec;

/// Bytes of machine code that this process made itself: executable, and of no file.
fn compiled_bytes() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mappings = maps.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let bytes = |range: &str| {
        let (start, end) = range.split_once('-').unwrap();
        u64::from_str_radix(end, 16).unwrap() - u64::from_str_radix(start, 16).unwrap()
    };
    mappings.filter(|words| words.len() == 5 && words[1].contains('x')).map(|words| bytes(words[0])).sum()
}

#[test]
fn a_second_run_compiles_nothing() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(91);
    let spec = Spec { num_kv_heads: 2, ..Spec::new(2, 20, 40, 4, 32) };
    let layer = spec.layer(&mut rng);
    let mask = Mask { causal: true, query_offset: 20, ..Mask::default() };
    let mut inputs = spec.inputs(&mut rng, mask);
    inputs.training = Some(Training { dropout: 0.1, seed: 1, step: 1, returns_dropped: false });
    let names = kernels::all().map(|kernel| kernel.name);
    let device = multihead::Device::Gpu(gpu.clone());
    // Kept, so that no code is freed in the meantime.
    let mut plans = Vec::new();
    for (rewriting, kernel) in
        names.flat_map(|name| [(Rewriting::OFF, name), (Rewriting { pack: true, fuse: Fuse::On }, name)])
    {
        let options = PlanOptions { rewriting, preferred_kernels: vec![kernel], ..PlanOptions::default() };
        let plan = pollster::block_on(layer.compile_with(&device, &inputs.call_shape(), true, &options)).unwrap();
        let run = || pollster::block_on(plan.run(&inputs)).unwrap();
        run();
        let once = compiled_bytes();
        // What counts compiled code must see some.
        assert!(once > 0 || !gpu.profile().name.starts_with("llvmpipe"), "{kernel}");
        for _ in 0..3 {
            run();
        }
        assert_eq!(compiled_bytes(), once, "{kernel}, {rewriting:?}: compiled again");
        plans.push(plan);
    }
}
