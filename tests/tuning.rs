//! A measured choice among tiles, on a device. Needs any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use std::time::{Duration, Instant};

use multihead::kernels::{Tile, Tiles};
use multihead::tuning::{BUDGET, Origin, Tuning, candidates};
use multihead::{
    AdapterKind, DType, DeviceProfile, Gpu, Graph, GraphBuilder, HostTensor, Inputs, Plan, PlanOptions, PlanSummary,
    Rewriting,
};
use support::{compare, gpu, random};

/// Two products that are of different classes.
fn two_products() -> Graph {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", [1, 70, 40], DType::F32).unwrap();
    let w = builder.parameter("W", [130, 40]).unwrap();
    let u = builder.parameter("U", [20, 130]).unwrap();
    let hidden = builder.linear("hidden", x, w, None).unwrap();
    let out = builder.linear("out", hidden, u, None).unwrap();
    builder.finish(&[out])
}

/// The products as they are written above, by the kernel that has tiles.
fn tiled() -> PlanOptions {
    let preferred_kernels = vec!["matmul_tiled"];
    PlanOptions { preferred_kernels, rewriting: Rewriting::OFF, ..PlanOptions::default() }
}

/// On a GPU that is not asked about.
fn forced() -> Tuning {
    Tuning { on: true, memory: None, candidates: Some(Tile::ALL.to_vec()) }
}

#[test]
fn candidates_are_few() {
    let of = |kind| candidates(&DeviceProfile { kind, ..DeviceProfile::portable() });
    assert!(of(AdapterKind::Cpu).is_empty());
    for kind in [AdapterKind::Other, AdapterKind::VirtualGpu, AdapterKind::IntegratedGpu, AdapterKind::DiscreteGpu] {
        let tiles = of(kind);
        assert!((2..=4).contains(&tiles.len()), "{kind}: {tiles:?}");
    }
    assert!(BUDGET <= Duration::from_millis(300));
}

/// Whatever came of the measuring, the answer is right and has the bits that it has without.
#[test]
fn a_measured_choice_changes_no_bit() {
    let (gpu, graph, mut rng) = (gpu(), two_products(), fastrand::Rng::with_seed(40));
    let [x, w, u] = [random(&mut rng, [1, 70, 40]), random(&mut rng, [130, 40]), random(&mut rng, [20, 130])];
    let (parameters, inputs) = (Inputs::new().with("W", &w).with("U", &u), Inputs::new().with("x", &x));
    let bits = |tiles: Tiles| {
        let options = PlanOptions { tiles, ..tiled() };
        let plan = pollster::block_on(Plan::new(&gpu, &graph, &parameters, &options)).unwrap();
        let outputs = pollster::block_on(plan.run(&inputs)).unwrap().outputs;
        compare(&outputs, &graph, &parameters, &inputs, "two products");
        outputs["out"].data().iter().map(|number| number.to_bits()).collect::<Vec<_>>()
    };
    let tuned = pollster::block_on(forced().tiles(&gpu, &graph, &tiled())).unwrap();
    let outputs: Vec<_> = tuned.choices.iter().map(|choice| choice.outputs.concat()).collect();
    assert_eq!(outputs, ["hidden", "out"], "the most work first");
    assert!(tuned.choices.iter().all(|choice| choice.origin != Origin::Remembered), "{:?}", tuned.choices);
    assert_eq!(bits(tuned.tiles), bits(Tiles::default()));
}

/// A CPU adapter takes its time to compile; what is compiled is there the next time.
#[test]
fn with_compiled_kernels_the_budget_lets_something_be_measured() {
    let (gpu, graph) = (gpu(), two_products());
    let measured = || {
        let start = Instant::now();
        let tuned = pollster::block_on(forced().tiles(&gpu, &graph, &tiled())).unwrap();
        let measured = tuned.choices.iter().any(|choice| choice.origin == Origin::Measured);
        (measured, start.elapsed())
    };
    let tries: Vec<_> = std::iter::repeat_with(measured).take(10).collect();
    assert!(tries.iter().any(|(measured, _)| *measured), "{tries:?}");
}

/// The file of a memory in which this device has two tiles for the two products, and another driver one.
fn remembering(gpu: &Gpu) -> String {
    let DeviceProfile { name, backend, driver, .. } = gpu.profile();
    let entry = |driver: &str, inner: u64, cols: u64, tile: &str| {
        let product = serde_json::json!({
            "batches": 1, "rows": 128, "inner": inner, "cols": cols, "transpose_rhs": true, "skip_hidden": false
        });
        serde_json::json!({
            "adapter": name, "backend": backend, "driver": driver, "product": product, "tile": tile
        })
    };
    let choices = [
        entry(driver, 64, 256, "32x128"),
        entry(driver, 256, 32, "128x128"),
        entry("another driver", 256, 32, "32x32"),
    ];
    let choices = serde_json::to_string(&choices).unwrap();
    format!(r#"{{"format":"multihead tiles {}","choices":{choices}}}"#, env!("CARGO_PKG_VERSION"))
}

#[test]
fn what_is_remembered_is_taken_without_measuring() {
    let (gpu, graph) = (gpu(), two_products());
    let folder = tempfile::tempdir().unwrap();
    let memory = folder.path().join("tiles.json");
    let text = remembering(&gpu);
    std::fs::write(&memory, &text).unwrap();
    let tuning = Tuning { memory: Some(memory.clone()), ..forced() };
    let tuned = pollster::block_on(tuning.tiles(&gpu, &graph, &tiled())).unwrap();
    let told: Vec<_> = tuned.choices.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["hidden 32×128 (remembered)", "out 128×128 (remembered)"]);
    assert!(tuned.unsaved.is_none());
    assert_eq!(std::fs::read_to_string(&memory).unwrap(), text, "nothing new, so nothing is written");
    let options = PlanOptions { tiles: tuned.tiles, ..tiled() };
    let summary = PlanSummary::with_options(&graph, gpu.profile(), &options).unwrap();
    let grids: Vec<_> = summary.steps.iter().map(|step| step.workgroups).collect();
    assert_eq!(grids, [[3 * 2, 1, 1], [1, 1, 1]], "70×130 by 32×128, and 70×20 by 128×128");
}

#[test]
fn a_remembered_tile_that_is_no_candidate_is_not_taken() {
    let (gpu, graph) = (gpu(), two_products());
    let folder = tempfile::tempdir().unwrap();
    let memory = folder.path().join("tiles.json");
    std::fs::write(&memory, remembering(&gpu)).unwrap();
    let candidates = Some(vec![Tile::Square64, Tile::Wide]);
    let tuning = Tuning { on: true, memory: Some(memory), candidates };
    let tuned = pollster::block_on(tuning.tiles(&gpu, &graph, &tiled())).unwrap();
    assert_eq!(tuned.choices[0].to_string(), "hidden 32×128 (remembered)");
    assert_ne!(tuned.choices[1].origin, Origin::Remembered);
    assert_ne!(tuned.choices[1].tile, Tile::Square128);
}

/// Some of so many candidates are measured, and never all.
#[test]
fn what_had_no_time_for_all_candidates_is_taken_and_not_remembered() {
    let (gpu, graph) = (gpu(), two_products());
    let folder = tempfile::tempdir().unwrap();
    let memory = folder.path().join("tiles.json");
    let tuning = Tuning { on: true, memory: Some(memory.clone()), candidates: Some(Tile::ALL.repeat(25_000)) };
    let measured = || {
        let tuned = pollster::block_on(tuning.tiles(&gpu, &graph, &tiled())).unwrap();
        tuned.choices.iter().any(|choice| choice.origin == Origin::Measured)
    };
    assert!(std::iter::repeat_with(measured).take(10).any(|measured| measured));
    assert!(!memory.exists());
}

/// Switched off, on a CPU adapter, and where the caller has chosen already, nothing is measured and no file made.
#[test]
fn nothing_is_measured_unless_asked_for_where_it_helps() {
    let (gpu, graph) = (gpu(), two_products());
    let folder = tempfile::tempdir().unwrap();
    let memory = Some(folder.path().join("tiles.json"));
    let chosen = PlanOptions { tiles: Tiles::all(Tile::Square128), ..tiled() };
    let mut cases = vec![
        (Tuning { on: false, memory: memory.clone(), ..forced() }, tiled()),
        (Tuning { memory: memory.clone(), candidates: Some(Vec::new()), ..forced() }, tiled()),
        (Tuning { memory: memory.clone(), ..forced() }, chosen),
    ];
    if gpu.profile().kind == AdapterKind::Cpu {
        cases.push((Tuning { on: true, memory, candidates: None }, tiled()));
    }
    for (tuning, options) in cases {
        let tuned = pollster::block_on(tuning.tiles(&gpu, &graph, &options)).unwrap();
        assert_eq!((tuned.tiles, tuned.choices), (options.tiles, vec![]), "{tuning:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// What cannot be measured is computed all the same: here a file stands where the memory should be.
#[test]
fn a_memory_that_cannot_be_kept_is_told_and_hinders_nothing() {
    let (gpu, graph) = (gpu(), two_products());
    let folder = tempfile::tempdir().unwrap();
    let memory = folder.path().join("letter");
    std::fs::write(&memory, "a letter").unwrap();
    let tuning = Tuning { memory: Some(memory.clone()), ..forced() };
    // Once the kernels are compiled, there is time to measure all candidates.
    let told = || {
        let tuned = pollster::block_on(tuning.tiles(&gpu, &graph, &tiled())).unwrap();
        let measured = tuned.choices.iter().any(|choice| choice.origin == Origin::Measured);
        assert!(measured || tuned.unsaved.is_none(), "{:?}", tuned.unsaved);
        tuned.unsaved
    };
    assert!(std::iter::repeat_with(told).take(20).any(|unsaved| unsaved.is_some()));
    assert_eq!(std::fs::read_to_string(&memory).unwrap(), "a letter");
}

#[test]
fn an_empty_product_is_not_measured() {
    let gpu = gpu();
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", [1, 0, 4], DType::F32).unwrap();
    let w = builder.parameter("W", [4, 4]).unwrap();
    let y = builder.linear("y", x, w, None).unwrap();
    let graph = builder.finish(&[y]);
    let tuned = pollster::block_on(forced().tiles(&gpu, &graph, &tiled())).unwrap();
    assert_eq!(tuned.choices, []);
    let w = HostTensor::new([4, 4], vec![1.0; 16]).unwrap();
    let options = PlanOptions { tiles: tuned.tiles, ..tiled() };
    pollster::block_on(Plan::new(&gpu, &graph, &Inputs::new().with("W", &w), &options)).unwrap();
}
