//! `cargo xtask web`: the library for browsers, the npm package around it, and the page: static files.

mod sizes;

use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::npm::{self, npm};
use crate::step::Step;
use crate::toolchain::{Toolchain, WASM};

/// The npm package.
pub(crate) const PACKAGE: &str = "web/package";

/// What Cargo's wasm becomes, in the package.
const WASM_FOLDER: &str = "web/package/wasm";
const WASM_FILE: &str = "web/package/wasm/multihead_bg.wasm";

/// The page's source, and what it becomes.
const PAGE: &str = "web/page";
pub(crate) const SITE: &str = "web/dist";

/// How the library is built.
const PROFILE: &str = "web";
const LIBRARY: [&str; 4] = ["--lib", "--no-default-features", "--features", "web"];

/// What writes the JavaScript around it.
const TOOL: [&str; 6] = ["run", "--quiet", "--profile", "tool", "--package", "multihead-bindings"];

/// What a page would load in vain: the browser compiles shaders itself.
const UNWANTED: [&str; 2] = ["naga", "wgpu-core"];

/// What has to be in the package, and nothing else; sorted.
const PACKED: [&str; 32] = [
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "README.md",
    "index.d.ts",
    "index.js",
    "package.json",
    "src/attention.js",
    "src/calls.js",
    "src/checks.js",
    "src/device.js",
    "src/errors.js",
    "src/experiments.js",
    "src/files.js",
    "src/heads.js",
    "src/load.js",
    "src/room.js",
    "types/attention.d.ts",
    "types/byHead.d.ts",
    "types/call.d.ts",
    "types/cases.d.ts",
    "types/device.d.ts",
    "types/errors.d.ts",
    "types/experiments.d.ts",
    "types/files.d.ts",
    "types/graph.d.ts",
    "types/heads.d.ts",
    "types/load.d.ts",
    "types/tensors.d.ts",
    "types/times.d.ts",
    "types/verification.d.ts",
    "wasm/multihead.js",
    "wasm/multihead_bg.wasm",
];

/// Makes sure that there are a compiler for browsers, Node and npm.
///
/// # Errors
/// When one cannot be set up; the sentence says what to run.
pub(crate) fn set_up(root: &Path) -> Result<Toolchain> {
    npm::set_up(root)?;
    Toolchain::set_up(root, WASM)
}

/// Builds everything and holds it to its budgets.
///
/// # Errors
/// When something is missing, is formatted otherwise, does not compile, or is too large.
pub(crate) fn run(root: &Path) -> Result<()> {
    package(root)?;
    check_dependencies(root)?;
    check_pack(root)?;
    let page = root.join(PAGE);
    npm::install(&page)?;
    npm("format of package, page and walks", ["run", "formatted"]).run(&page)?;
    npm("build the page", ["run", "build"]).run(&page)?;
    sizes::check_page(&root.join(SITE))
}

/// Builds the package in its folder, with its wasm no larger than it may be.
///
/// # Errors
/// When something is missing, does not compile, or is too large.
pub(crate) fn package(root: &Path) -> Result<()> {
    let toolchain = set_up(root)?;
    for step in steps(toolchain) {
        step.run(root)?;
    }
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let copy = root.join(PACKAGE).join(licence);
        std::fs::copy(root.join(licence), &copy).with_context(|| format!("cannot write {}", copy.display()))?;
    }
    sizes::check_wasm(&root.join(WASM_FILE))
}

/// Lints of what only browsers compile.
pub(crate) fn lints(toolchain: Toolchain) -> Step {
    let lints = [&LIBRARY[..], &["--", "-D", "warnings"]].concat();
    toolchain.cargo("lints of the library for browsers", WASM, ["clippy", PROFILE], &lints)
}

fn steps(toolchain: Toolchain) -> [Step; 2] {
    let library = toolchain.folder(WASM, PROFILE).join("multihead.wasm").display().to_string();
    let build = [&LIBRARY[..], &["--crate-type", "cdylib"]].concat();
    [
        toolchain.cargo("library for browsers", WASM, ["rustc", PROFILE], &build),
        Step::cargo("bindings", [&TOOL[..], &["--", &library, WASM_FOLDER]].concat()),
    ]
}

/// Neither naga nor wgpu-core is part of a page.
fn check_dependencies(root: &Path) -> Result<()> {
    let words = ["tree", "--package", "multihead", "--edges", "normal", "--prefix", "none", "--target", WASM.triple];
    let tree =
        Step::cargo("what the library for browsers is made of", words.into_iter().chain(LIBRARY.into_iter().skip(1)));
    let tree = tree.output(root)?;
    let found = unwanted(&tree);
    if !found.is_empty() {
        bail!("a page would load {}; see the features of wgpu for wasm in Cargo.toml", found.join(" and "));
    }
    println!("  ✓ {} crates, {} not among them", tree.lines().count(), UNWANTED.join(" and "));
    Ok(())
}

fn unwanted(tree: &str) -> Vec<&'static str> {
    let is_there = |name: &&str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    UNWANTED.into_iter().filter(is_there).collect()
}

/// What npm would publish is the package, whole, and nothing else.
fn check_pack(root: &Path) -> Result<()> {
    let output = npm("pack the package", ["pack", "--dry-run", "--json"]).output(&root.join(PACKAGE))?;
    let files = packed(&output)?;
    if files != PACKED {
        let missing: Vec<_> = PACKED.iter().filter(|name| !files.iter().any(|file| file == *name)).collect();
        let more: Vec<_> = files.iter().filter(|file| !PACKED.contains(&file.as_str())).collect();
        bail!("npm would pack other files than the package has: missing {missing:?}, unexpected {more:?}");
    }
    println!("  ✓ {} files would be published", files.len());
    Ok(())
}

/// The files that `npm pack --json` lists, sorted.
fn packed(json: &str) -> Result<Vec<String>> {
    let value: serde_json::Value = serde_json::from_str(json).context("npm pack should write JSON")?;
    let files = value[0]["files"].as_array().context("npm pack should list files")?;
    let mut files: Vec<String> = files.iter().filter_map(|file| Some(file["path"].as_str()?.to_owned())).collect();
    files.sort_unstable();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_page_should_load_is_noticed() {
        let tree = "multihead v0.1.0 (/work)\nnaga-types v30.0.0\nwgpu v30.0.2\n";
        assert!(unwanted(tree).is_empty());
        assert_eq!(unwanted(&format!("{tree}naga v30.0.1\nwgpu-core v30.0.2 (*)\n")), UNWANTED);
    }

    #[test]
    fn what_npm_packs_is_read() {
        let json =
            r#"[{"name": "multihead", "files": [{"path": "src/b.js", "size": 1}, {"path": "a.js", "size": 2}]}]"#;
        assert_eq!(packed(json).expect("a list"), ["a.js", "src/b.js"]);
        assert!(packed("[]").is_err());
        assert!(packed("npm ERR!").is_err());
    }
}
