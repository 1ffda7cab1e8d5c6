//! What has to be there before the work, put there where that is possible.

use std::path::Path;

use anyhow::{Result, bail};

use crate::step::Step;
use crate::vulkan::{self, Missing};

/// Mesa's Vulkan drivers, among them lavapipe, which needs no GPU; and the loader that finds them.
const PACKAGES: [&str; 2] = ["mesa-vulkan-drivers", "libvulkan1"];

/// Makes sure that the demo can run: a graphics driver.
///
/// # Errors
/// When there is none and it cannot be installed; the sentence says what to run.
pub(crate) fn for_demo(root: &Path) -> Result<()> {
    graphics_driver(root)
}

/// Makes sure that every check can run: a graphics driver, rustfmt, clippy, nextest.
///
/// # Errors
/// When one is missing and cannot be installed; the sentence says what to run.
pub(crate) fn for_tests(root: &Path) -> Result<()> {
    for (command, component) in [("fmt", "rustfmt"), ("clippy", "clippy")] {
        if !Step::cargo(component, [command, "--version"]).succeeds(root) {
            add_component(root, component)?;
        }
    }
    if !Step::cargo("nextest", ["nextest", "--version"]).succeeds(root) {
        println!("cargo-nextest, which runs the tests, is missing.");
        Step::cargo("install cargo-nextest", ["install", "--locked", "cargo-nextest"]).run(root)?;
    }
    graphics_driver(root)
}

fn add_component(root: &Path, component: &str) -> Result<()> {
    println!("{component} is missing.");
    if !Step::new("rustup", "rustup", ["--version"]).succeeds(root) {
        bail!(
            "{component} is missing and there is no rustup; install {component} for your Rust toolchain, then run again"
        );
    }
    Step::new(format!("install {component}"), "rustup", ["component", "add", component]).run(root)?;
    Ok(())
}

/// macOS and Windows bring their drivers; on Linux there must be a Vulkan loader and a driver.
fn graphics_driver(root: &Path) -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    let Err(missing) = vulkan::Search::of_this_machine().find() else {
        return Ok(());
    };
    if let Missing::NamedDriver { variable, .. } = &missing {
        bail!("{missing}; unset {variable} or correct it, then run again");
    }
    install_driver(root, &missing)?;
    match vulkan::Search::of_this_machine().find() {
        Ok(()) => Ok(()),
        Err(still) => bail!("{still}, although {} are installed now", PACKAGES.join(" and ")),
    }
}

/// With apt and the rights for it; otherwise says what to run.
fn install_driver(root: &Path, missing: &Missing) -> Result<()> {
    if !Step::new("apt", "apt-get", ["--version"]).succeeds(root) {
        bail!(
            "{missing}; install Mesa's Vulkan drivers and the Vulkan loader (Fedora: sudo dnf install \
             mesa-vulkan-drivers vulkan-loader; Arch: sudo pacman -S vulkan-swrast vulkan-icd-loader), then run again"
        );
    }
    let Some(rights) = Rights::found(root) else {
        bail!("{missing}; run `sudo apt-get install {}`, then run again", PACKAGES.join(" "));
    };
    println!(
        "{missing}. Installing {}, Mesa's drivers (one of them needs no GPU) and the loader.",
        PACKAGES.join(" and ")
    );
    if let Err(error) = rights.apt_get("package lists", ["update"]).run(root) {
        // Old lists may do; if not, the next step says so.
        println!("  {error:#}; going on");
    }
    let install = ["install", "-y", "--no-install-recommends"].into_iter().chain(PACKAGES);
    rights.apt_get("install a Vulkan driver", install).run(root)?;
    Ok(())
}

/// How system packages can be installed without a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    Root,
    Sudo,
}

impl Rights {
    fn found(root: &Path) -> Option<Self> {
        let user = std::process::Command::new("id").arg("-u").output();
        if user.is_ok_and(|output| output.stdout.trim_ascii() == b"0") {
            return Some(Self::Root);
        }
        Step::new("sudo", "sudo", ["-n", "true"]).succeeds(root).then_some(Self::Sudo)
    }

    fn apt_get<'word>(self, name: &str, arguments: impl IntoIterator<Item = &'word str>) -> Step {
        // `env` behind sudo: sudo does not pass the caller's environment on.
        let quietly = ["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"];
        let words = quietly.into_iter().chain(arguments);
        match self {
            Self::Root => Step::new(name, "env", words.skip(1)),
            Self::Sudo => Step::new(name, "sudo", ["-n"].into_iter().chain(words)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn apt_asks_no_questions() {
        let line = |rights: Rights| rights.apt_get("lists", ["update"]).to_string();
        assert_eq!(line(Rights::Root), "env DEBIAN_FRONTEND=noninteractive apt-get update");
        assert_eq!(line(Rights::Sudo), "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get update");
    }
}
