//! Compilers for targets other than this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::apt;
use crate::step::Step;

/// Debian's own Rust toolchain for browsers, and what it needs to build the standard library for any target.
const DEBIAN: [&str; 6] = ["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm", "rust-web-clippy", "lld-22"];

/// A target, and the parts of the standard library to build where they do not come built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Its name: "wasm32-unknown-unknown".
    pub(crate) triple: &'static str,
    std: &'static str,
}

/// The browser.
pub(crate) const WASM: Target = Target { triple: "wasm32-unknown-unknown", std: "std,panic_abort" };

/// Systems that the library has code for and the checks may never run on: whichever one works on, others would not be
/// compiled.
pub(crate) const SYSTEMS: [Target; 2] = [
    Target { triple: "x86_64-pc-windows-msvc", std: "std,panic_unwind" },
    Target { triple: "aarch64-apple-darwin", std: "std,panic_unwind" },
];

/// Who compiles for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Toolchain {
    /// The one that runs this program; it has the target's standard library.
    Own,
    /// Debian's for browsers, from the standard library's source.
    Debian,
}

impl Toolchain {
    /// Finds a toolchain for a target, and sets one up where there is none.
    ///
    /// # Errors
    /// When none can be set up; the sentence says what to run.
    pub(crate) fn set_up(root: &Path, target: Target) -> Result<Self> {
        if let Some(found) = Self::find(root, target) {
            return Ok(found);
        }
        let missing = format!("there is no Rust toolchain for {}", target.triple);
        println!("{missing}.");
        let Err(error) = Step::new("add the target", "rustup", ["target", "add", target.triple]).run(root) else {
            return Ok(Self::Own);
        };
        println!("  {error:#}; going on");
        let elsewhere = format!("install one (with rustup: `rustup target add {}`)", target.triple);
        apt::install(root, &missing, &DEBIAN, &elsewhere)?;
        Ok(Self::Debian)
    }

    fn find(root: &Path, target: Target) -> Option<Self> {
        let arguments = ["--print", "target-libdir", "--target", target.triple];
        let own = Command::new("rustc").args(arguments).current_dir(root).output().ok()?;
        let folder = String::from_utf8_lossy(&own.stdout).trim().to_owned();
        if own.status.success() && Path::new(&folder).is_dir() {
            return Some(Self::Own);
        }
        apt::has(&DEBIAN).then_some(Self::Debian)
    }

    /// A command of cargo for a target, in a profile; what it makes goes to [`folder`](Self::folder).
    pub(crate) fn cargo(self, name: &str, target: Target, command: [&str; 2], arguments: &[&str]) -> Step {
        let [command, profile] = command;
        let for_target = ["--profile", profile, "--target", target.triple, "--target-dir", self.target_folder()];
        let for_target = for_target.into_iter().chain(arguments.iter().copied());
        match self {
            Self::Own => Step::cargo(name, [command].into_iter().chain(for_target)),
            Self::Debian => {
                // `cargo clippy` would look in the home folder first, where rustup's is.
                let program = if command == "clippy" { "/usr/bin/cargo-clippy" } else { "/usr/bin/cargo" };
                let build_std = format!("build-std={}", target.std);
                Step::new(name, program, [command, "-Z", &build_std].into_iter().chain(for_target))
                    .env("CARGO", "/usr/bin/cargo")
                    .env("RUSTC", "/usr/bin/rustc")
                    .env("RUSTC_BOOTSTRAP", "1")
            }
        }
    }

    /// Where it puts what it makes for a target, relative to the workspace's root.
    pub(crate) fn folder(self, target: Target, profile: &str) -> PathBuf {
        [self.target_folder(), target.triple, profile].iter().collect()
    }

    /// Two compilers do not share a folder: each would throw away what the other made.
    fn target_folder(self) -> &'static str {
        match self {
            Self::Own => "target",
            Self::Debian => "target/debian",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_toolchain_has_its_own_words() {
        let line = |toolchain: Toolchain, command| toolchain.cargo("", WASM, [command, "web"], &["--lib"]).to_string();
        assert_eq!(
            line(Toolchain::Own, "build"),
            "cargo build --profile web --target wasm32-unknown-unknown --target-dir target --lib"
        );
        assert_eq!(
            line(Toolchain::Debian, "clippy"),
            "CARGO=/usr/bin/cargo RUSTC=/usr/bin/rustc RUSTC_BOOTSTRAP=1 cargo-clippy clippy -Z \
             build-std=std,panic_abort --profile web --target wasm32-unknown-unknown --target-dir target/debian --lib"
        );
    }

    #[test]
    fn this_machines_own_target_needs_no_set_up() {
        let output = Command::new("rustc").arg("-vV").output().expect("a compiler");
        let output = String::from_utf8_lossy(&output.stdout).into_owned();
        let host = output.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host").to_owned();
        let host = Target { triple: host.leak(), std: "std" };
        assert_eq!(Toolchain::find(Path::new("."), host), Some(Toolchain::Own));
        let nowhere = Target { triple: "no-such-target", std: "std" };
        assert_ne!(Toolchain::find(Path::new("."), nowhere), Some(Toolchain::Own));
    }
}
