//! The architecture, read from the source: modules use floors below them, every op has everything. Needs no device.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The floor of each module at the crate's root. A module uses its own files and floors below.
const FLOORS: [(&str, u8); 16] = [
    ("error", 0),
    ("shape", 0),
    ("compare", 1),
    ("maps", 1),
    ("graph", 1),
    ("reference", 2),
    ("gpu", 2),
    ("kernels", 3),
    ("device", 3),
    ("plan", 4),
    ("attention", 5),
    ("io", 6),
    ("heads", 6),
    ("plot", 7),
    ("tuning", 7),
    ("experiments", 8),
];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder of the repository") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

/// The module at the crate's root that a file belongs to.
fn module_of(path: &Path) -> String {
    let inside = path.strip_prefix(root().join("src")).expect("a source file");
    let first = inside.components().next().expect("a file name").as_os_str().to_string_lossy().into_owned();
    first.trim_end_matches(".rs").to_owned()
}

/// Modules that code outside tests names as `crate::module`.
fn uses(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    code.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| line.split("crate::").skip(1))
        .map(|rest| rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect())
        .collect()
}

/// A sentence for each use of a module that is not on a floor below.
fn violations(module: &str, text: &str) -> Vec<String> {
    let floors = BTreeMap::from(FLOORS);
    let Some(&floor) = floors.get(module) else {
        return vec![format!("{module} has no floor; give it one in tests/architecture.rs")];
    };
    uses(text)
        .into_iter()
        .filter(|used| used != module)
        .filter(|used| floors.get(used.as_str()).is_none_or(|&other| other >= floor && other > 0))
        .map(|used| format!("{module} (floor {floor}) uses {used}"))
        .collect()
}

#[test]
fn modules_use_only_floors_below_them() {
    let files = rust_files(&root().join("src"));
    assert!(files.len() > 30);
    let inside = files.iter().filter(|path| !["lib", "main", "cli", "web"].contains(&module_of(path).as_str()));
    let found: Vec<_> = inside
        .flat_map(|path| violations(&module_of(path), &fs::read_to_string(path).expect("a source file")))
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_use_of_a_floor_above_would_be_found() {
    assert_eq!(violations("graph", "use crate::plan::Plan;\n").len(), 1);
    assert_eq!(violations("reference", "fn f() -> crate::gpu::Gpu {}\n").len(), 1);
    assert_eq!(violations("nowhere", "").len(), 1);
    assert!(violations("plan", "use crate::graph::Graph;\nuse crate::error::Error;\n").is_empty());
}

/// The program is built on the public API alone.
#[test]
fn the_roof_uses_the_public_api_only() {
    for path in rust_files(&root().join("src/cli")) {
        let text = fs::read_to_string(&path).expect("a source file");
        assert!(!text.contains("crate::"), "{} should go through `multihead::`", path.display());
    }
}

#[test]
fn only_gpu_and_web_know_of_the_browser() {
    for path in rust_files(&root().join("src")) {
        let text = fs::read_to_string(&path).expect("a source file");
        let allowed = ["gpu", "web"].contains(&module_of(&path).as_str());
        assert!(allowed || !text.contains("target_arch"), "{}", path.display());
    }
}

/// In a browser waiting hangs, and std's clock panics.
#[test]
fn the_library_neither_blocks_nor_reads_a_clock_that_browsers_lack() {
    let program = ["main", "cli"];
    for path in rust_files(&root().join("src")) {
        let text = fs::read_to_string(&path).expect("a source file");
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let forbidden = ["block_on", "time::Instant", "SystemTime"].map(|name| code.matches(name).count());
        let allowed = [0, code.matches("web_time::Instant").count(), 0];
        assert!(program.contains(&module_of(&path).as_str()) || forbidden == allowed, "{}", path.display());
    }
}

/// What the library brings along for a target, by Cargo's own account.
fn dependencies(target: &str) -> Vec<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = std::process::Command::new(cargo)
        .current_dir(root())
        .args(["tree", "--package", "multihead", "--edges", "normal", "--prefix", "none", "--target", target])
        .args(["--no-default-features", "--features", "web"])
        .output()
        .expect("cargo should run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).expect("names in UTF-8");
    lines.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect()
}

#[test]
fn a_page_brings_along_no_shader_compiler() {
    let compilers = |target: &str| {
        let found = dependencies(target);
        assert!(found.contains(&"wgpu".to_owned()), "{found:?}");
        found.into_iter().filter(|name| ["naga", "wgpu-core", "wgpu-hal"].contains(&name.as_str())).count()
    };
    assert_eq!(compilers("wasm32-unknown-unknown"), 0);
    assert!(compilers("x86_64-unknown-linux-gnu") >= 3, "elsewhere they are there, so that they would be found");
}

/// One op, one name: in shaders/, in the kernels, in the reference and in the tests.
/// README says which tests a machine without a device can run.
#[test]
fn tests_that_need_an_adapter_are_those_that_the_guide_leaves_out() {
    let guide = fs::read_to_string(root().join("README.md")).expect("the guide");
    let (_, rest) = guide.split_once("not binary(/^(").expect("the command");
    let mut left_out: Vec<_> = rest.split_once(")$/)").expect("its end").0.split('|').collect();
    left_out.sort_unstable();
    let needs = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("a file of the repository");
        // This file speaks of them without opening one.
        (text.contains("gpu()") || text.contains("Gpu::adopt")) && !path.ends_with("architecture.rs")
    };
    let folder = fs::read_dir(root().join("tests")).expect("the tests");
    let files = folder.map(|entry| entry.expect("an entry").path());
    let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).filter(needs);
    let names = files.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned());
    let mut names: Vec<_> = names.chain(["cli".into()]).collect();
    names.sort_unstable();
    assert_eq!(names, left_out);
}

#[test]
fn every_op_has_a_shader_a_kernel_a_reference_and_a_test() {
    let op_source = fs::read_to_string(root().join("src/graph/op.rs")).expect("a source file");
    let (_, names) = op_source.split_once("pub fn name(&self)").expect("Op::name");
    let (names, _) = names.split_once("\n    }\n").expect("the end of Op::name");
    let names: Vec<&str> = names.split('"').skip(1).step_by(2).collect();
    assert!(names.len() >= 5, "{names:?}");
    let reference = rust_files(&root().join("src/reference"));
    let reference: String = reference.iter().map(|path| fs::read_to_string(path).expect("a source file")).collect();
    let tests = ["tests/ops.rs", "tests/streaming.rs"];
    let tests = tests.map(|path| fs::read_to_string(root().join(path)).expect("a test file")).concat();
    for name in names {
        let kernels: Vec<_> = multihead::kernels::all().filter(|kernel| kernel.op == name).collect();
        // Parameters are packed on the host, once.
        assert!(!kernels.is_empty() || name == "pack", "no kernel computes {name}");
        for kernel in kernels {
            assert!(root().join(format!("shaders/{}.wgsl", kernel.name)).is_file(), "no shader {}", kernel.name);
        }
        assert!(reference.contains(&format!("fn {name}<")), "the reference has no {name}");
        assert!(tests.contains(name), "tests/ops.rs and tests/streaming.rs have no test of {name}");
    }
}
