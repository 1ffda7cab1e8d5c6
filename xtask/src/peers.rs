//! `cargo xtask peers`: multihead, ONNX Runtime, PyTorch and burn on the same scenarios, in turn.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;

use anyhow::{Context as _, Result};

use crate::step::Step;
use crate::{apt, setup};

/// What the peers written in Python need.
const REQUIREMENTS: &str = "peers/requirements.txt";
/// Their environment, below the workspace's root.
const PYTHON: &str = "target/peers/python";
/// Where burn is built: as large as all the rest, and never cleaned with it.
const BURN: &str = "target/peers/burn";

/// Puts a process before all ordinary ones, and so what it starts.
const REAL_TIME: [&str; 3] = ["chrt", "-r", "5"];

/// Sets up the peers, then runs the benchmark; `arguments` go to it.
///
/// # Errors
/// When something is missing and cannot be set up, or an answer is wrong.
pub(crate) fn run(root: &Path, arguments: Vec<String>) -> Result<()> {
    setup::for_demo(root)?;
    python(root)?;
    Step::cargo("build burn's peer", burn_build()).run(root)?;
    Step::cargo("build multihead", ["build", "--release", "--bin", "multihead"]).run(root)?;
    let real_time = Step::new("real time", REAL_TIME[0], [REAL_TIME[1], REAL_TIME[2], "true"]).succeeds(root);
    if !real_time {
        eprintln!("\nThis system gives no real-time priority: whatever else runs makes all of them slower.");
    }
    bench(real_time, available_parallelism().map_or(1, usize::from), arguments).run(root)?;
    Ok(())
}

fn burn_build() -> [&'static str; 7] {
    ["build", "--release", "--locked", "--manifest-path", "peers/burn_peer/Cargo.toml", "--target-dir", BURN]
}

/// The benchmark as a step.
fn bench(real_time: bool, threads: usize, arguments: Vec<String>) -> Step {
    let python = |name: &str, script: &str| format!("{name}={} peers/{script} {threads}", interpreter());
    let peers = [
        python("onnxruntime", "onnx_peer.py"),
        python("pytorch", "torch_peer.py"),
        format!("burn={BURN}/release/burn_peer"),
    ];
    let mut words: Vec<String> = REAL_TIME.into_iter().filter(|_| real_time).map(Into::into).collect();
    words.extend(["target/release/multihead", "bench"].map(Into::into));
    words.extend(peers.into_iter().flat_map(|peer| ["--peer".into(), peer]));
    words.extend(arguments);
    let program = words.remove(0);
    Step::new("multihead and its peers", program, words)
}

/// Makes the environment, unless it holds what the requirements say already.
fn python(root: &Path) -> Result<()> {
    let [wanted, noted] = [REQUIREMENTS, &format!("{PYTHON}/requirements.txt")].map(|path| root.join(path));
    if is_same(&wanted, &noted) {
        return Ok(());
    }
    if !Step::new("Python", system_python(), ["-c", "import ensurepip, venv"]).succeeds(root) {
        apt::install(root, "there is no Python with venv", &["python3-venv"], "install Python 3 with its module venv")?;
    }
    Step::new("a Python of the peers' own", system_python(), ["-m", "venv", "--clear", PYTHON]).run(root)?;
    let install = ["-m", "pip", "install", "--quiet", "--requirement", REQUIREMENTS];
    Step::new("PyTorch and ONNX Runtime, some gigabytes", interpreter(), install).run(root)?;
    fs::copy(wanted, noted).context("cannot note what was installed")?;
    Ok(())
}

fn is_same(wanted: &Path, noted: &Path) -> bool {
    matches!((fs::read(wanted), fs::read(noted)), (Ok(wanted), Ok(noted)) if wanted == noted)
}

fn system_python() -> &'static str {
    if cfg!(windows) { "python" } else { "python3" }
}

/// The environment's, from the workspace's root.
fn interpreter() -> String {
    if cfg!(windows) { format!("{PYTHON}/Scripts/python") } else { format!("{PYTHON}/bin/python") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_peers_run_in_one_command_and_arguments_follow() {
        let line = |real_time| bench(real_time, 2, vec!["--only".into(), "P1".into()]).to_string();
        let arguments = "--peer 'onnxruntime=target/peers/python/bin/python peers/onnx_peer.py 2' \
                         --peer 'pytorch=target/peers/python/bin/python peers/torch_peer.py 2' \
                         --peer burn=target/peers/burn/release/burn_peer --only P1";
        if cfg!(unix) {
            assert_eq!(line(false), format!("multihead bench {arguments}"));
            assert!(line(true).starts_with("chrt -r 5 target/release/multihead bench --peer"), "{}", line(true));
        }
    }

    #[test]
    fn requirements_that_changed_are_installed_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let [wanted, noted] = ["wanted", "noted"].map(|name| folder.path().join(name));
        fs::write(&wanted, "numpy==1").expect("a file");
        assert!(!is_same(&wanted, &noted));
        fs::copy(&wanted, &noted).expect("a copy");
        assert!(is_same(&wanted, &noted));
        fs::write(&wanted, "numpy==2").expect("a file");
        assert!(!is_same(&wanted, &noted));
    }

    #[test]
    fn versions_are_pinned() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a root");
        let requirements = fs::read_to_string(root.join(REQUIREMENTS)).expect("requirements");
        assert!(requirements.lines().all(|line| line.contains("==")), "{requirements}");
        assert!(root.join("peers/burn_peer/Cargo.lock").exists());
    }
}
