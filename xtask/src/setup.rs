//! What has to be there before the work, put there where that is possible.

use std::path::Path;

use anyhow::{Result, bail};

use crate::step::Step;
use crate::vulkan::{self, Missing};
use crate::{apt, browser, platforms};

/// Mesa's Vulkan drivers, among them lavapipe, which needs no GPU; and the loader that finds them.
const PACKAGES: [&str; 2] = ["mesa-vulkan-drivers", "libvulkan1"];
const ELSEWHERE: &str = "install Mesa's Vulkan drivers and the Vulkan loader (Fedora: sudo dnf install \
                         mesa-vulkan-drivers vulkan-loader; Arch: sudo pacman -S vulkan-swrast vulkan-icd-loader)";

/// Makes sure that the demo can run: a graphics driver.
///
/// # Errors
/// When there is none and it cannot be installed; the sentence says what to run.
pub(crate) fn for_demo(root: &Path) -> Result<()> {
    graphics_driver(root)
}

/// Makes sure that every check can run: a graphics driver, rustfmt, clippy, nextest, a browser, Node, compilers for
/// other targets.
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
    graphics_driver(root)?;
    browser::Tools::set_up(root)?;
    platforms::set_up(root)?;
    Ok(())
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
    apt::install(root, &missing.to_string(), &PACKAGES, ELSEWHERE)?;
    match vulkan::Search::of_this_machine().find() {
        Ok(()) => Ok(()),
        Err(still) => bail!("{still}, although {} are installed now", PACKAGES.join(" and ")),
    }
}
