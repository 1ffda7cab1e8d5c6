//! What the package promises: the oldest Rust, and texts that come out of git as they went in. Needs no device.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn read(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Everything that Cargo knows of the workspace and its dependencies.
fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["metadata", "--format-version", "1", "--all-features"])
        .output()
        .expect("cargo should run");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("cargo should write JSON")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("{key} should be a list"))
}

/// "1.88" or "1.88.0" as [1, 88]; a crate that promises nothing promises everything.
fn version(text: Option<&str>) -> [u32; 2] {
    let mut numbers = text.unwrap_or("0.0").split('.').map(|number| number.parse().expect("a number"));
    [numbers.next().expect("a major version"), numbers.next().unwrap_or(0)]
}

/// Ids of what a package needs to be built, itself among them; what its tests need is another matter.
fn needed<'a>(metadata: &'a Value, root: &'a str) -> BTreeSet<&'a str> {
    let nodes = list(&metadata["resolve"], "nodes");
    let mut found = BTreeSet::new();
    let mut waiting = vec![root];
    while let Some(id) = waiting.pop() {
        if !found.insert(id) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == id).expect("a node for each package");
        let is_needed = |dependency: &&Value| list(dependency, "dep_kinds").iter().any(|kind| kind["kind"] != "dev");
        waiting.extend(list(node, "deps").iter().filter(is_needed).map(|dep| dep["pkg"].as_str().expect("an id")));
    }
    found
}

#[test]
fn no_dependency_wants_a_younger_rust_than_is_promised() {
    let metadata = metadata();
    let packages = list(&metadata, "packages");
    let own = packages.iter().find(|package| package["name"] == "multihead").expect("our own package");
    let promised = version(own["rust_version"].as_str());
    assert!(promised > [1, 0], "the promise should be stated");
    let needed = needed(&metadata, own["id"].as_str().expect("an id"));
    assert!(needed.len() > 50, "{} dependencies", needed.len());
    for package in packages.iter().filter(|package| package["id"].as_str().is_some_and(|id| needed.contains(id))) {
        let wanted = version(package["rust_version"].as_str());
        assert!(wanted <= promised, "{} wants Rust {wanted:?}, promised is {promised:?}", package["name"]);
    }
}

#[test]
fn documents_and_workflow_say_the_oldest_rust_that_the_package_says() {
    let promised = env!("CARGO_PKG_RUST_VERSION");
    for (file, words) in [
        ("README.md", format!("a Rust toolchain ({promised} or later)")),
        ("CONTRIBUTING.md", format!("A Rust toolchain ({promised} or later)")),
    ] {
        assert!(read(file).contains(&words), "{file} should say \"{words}\"");
    }
    // The workflow is of the repository, not of the package.
    let workflow = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/workflows/ci.yml");
    if let Ok(workflow) = std::fs::read_to_string(workflow) {
        assert!(
            workflow.contains(&format!("rust-toolchain@{promised}\n")),
            "the workflow should compile with {promised}"
        );
    }
}
