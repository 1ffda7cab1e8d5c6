//! `cargo xtask tint`: every variant of every shader through Dawn and Tint, Chrome's WebGPU, in Node.

use std::path::Path;

use anyhow::Result;

use crate::step::Step;
use crate::{apt, chromium};

/// Where the script and its package are, below the workspace's root.
const FOLDER: &str = "web/dawn";

/// The test that writes what the script reads, and where it writes it: Cargo's folder for what tests write.
const LISTING: &str = "every_shader_is_written_down_for_other_compilers";
const LIST: &str = "target/tmp/shaders.json";

/// Makes sure that there are Node and npm, and a Vulkan driver that Dawn takes.
///
/// # Errors
/// When one is missing and cannot be installed; the sentence says what to run.
pub(crate) fn set_up(root: &Path) -> Result<()> {
    if !npm(["--version"]).succeeds(root) {
        apt::install(root, "there is no npm", &["nodejs", "npm"], "install Node (https://nodejs.org)")?;
    }
    if cfg!(target_os = "linux") {
        chromium::set_up(root)?;
        chromium::swiftshader()?;
    }
    Ok(())
}

/// Compiles all variants.
///
/// # Errors
/// When something is missing, or a variant is refused.
pub(crate) fn run(root: &Path) -> Result<()> {
    set_up(root)?;
    npm(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).run(&root.join(FOLDER))?;
    let test = ["test", "--quiet", "--target-dir", "target", "--test", "shaders", LISTING];
    Step::cargo("list the shaders", test).run(root)?;
    let script = format!("{FOLDER}/compile.js");
    let compile = Step::new("compile with Tint", "node", [script.as_str(), LIST]);
    let compile = match chromium::swiftshader()? {
        Some(driver) => compile.env("VK_DRIVER_FILES", &driver.display().to_string()),
        None => compile,
    };
    compile.run(root)?;
    Ok(())
}

fn npm<const N: usize>(arguments: [&str; N]) -> Step {
    // A script on Windows, which is only found by its whole name.
    Step::new("install Dawn", if cfg!(windows) { "npm.cmd" } else { "npm" }, arguments)
}
