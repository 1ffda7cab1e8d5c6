//! Drivers that compile on the CPU do it once: a second run of a plan compiles nothing. Needs any adapter.
//!
//! Lavapipe takes parameters for constants where a condition depends on nothing else, and then compiles the kernel for
//! every dispatch anew (docs/performance.md).
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use std::collections::BTreeSet;

use multihead::{Fuse, Mask, PlanOptions, PlanSummary, Rewriting, Training, kernels};
use support::layers::Spec;
use support::{gpu, reads_texels};

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

/// Compiled code of the process after each of four runs of a plan.
fn compiled_by_runs(run: impl Fn()) -> [u64; 4] {
    [(); 4].map(|()| {
        run();
        compiled_bytes()
    })
}

#[test]
fn a_second_run_compiles_nothing() {
    let gpu = gpu();
    let device = multihead::Device::Gpu(gpu.clone());
    let mut rng = fastrand::Rng::with_seed(91);
    let many = Spec { num_kv_heads: 2, ..Spec::new(2, 20, 40, 4, 32) };
    let few = Spec { extra_key: true, ..Spec::new(1, 3, 5, 1, 4) };
    let fused = Rewriting { pack: true, fuse: Fuse::On };
    // Kept, so that no code is freed in the meantime.
    let mut plans = Vec::new();
    let (mut seen, mut rises) = (BTreeSet::new(), 0);
    for (spec, kernel) in [many, few].into_iter().flat_map(|spec| kernels::all().map(move |kernel| (spec, kernel.name)))
    {
        let layer = spec.layer(&mut rng);
        let mask = Mask { causal: true, query_offset: 20, ..Mask::default() };
        let mut inputs = spec.inputs(&mut rng, mask);
        inputs.training = Some(Training { dropout: 0.1, seed: 1, step: 1, returns_dropped: false });
        for (rewriting, with_weights) in [(Rewriting::OFF, true), (fused, true), (fused, false)] {
            // What attention reads from texels is written there by products.
            let preferred_kernels = vec![kernel, if reads_texels(kernel) { "matmul_texels" } else { kernel }];
            let options = PlanOptions { rewriting, preferred_kernels, ..PlanOptions::default() };
            let call = inputs.call_shape();
            let graph = layer.graph(&call, with_weights).unwrap();
            let summary = PlanSummary::with_options(&graph, gpu.profile(), &options).unwrap();
            seen.extend(summary.steps.into_iter().map(|step| step.variant));
            let plan = pollster::block_on(layer.compile_with(&device, &call, with_weights, &options)).unwrap();
            let before = compiled_bytes();
            let after = compiled_by_runs(|| drop(pollster::block_on(plan.run(&inputs)).unwrap()));
            assert_eq!(after, [after[0]; 4], "{kernel}, {rewriting:?}: compiled again");
            rises += usize::from(after[0] > before);
            plans.push(plan);
        }
    }
    if gpu.profile().name.starts_with("llvmpipe") {
        // What counts compiled code sees new code; and every kernel that such a layer can have was among them.
        assert!(rises > 3, "{rises} rises");
        let missing = kernels::all().map(|kernel| kernel.name).filter(|&name| !seen.contains(name));
        assert_eq!(missing.collect::<Vec<_>>(), OF_OTHERS);
    }
}

/// The kernel of a cache.
const OF_OTHERS: [&str; 1] = ["append_rows"];
