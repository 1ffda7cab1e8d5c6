//! `cargo xtask tint`: every variant of every shader through Dawn and Tint, Chrome's WebGPU, in Node.

use std::path::Path;

use anyhow::Result;

use crate::npm;
use crate::step::Step;
use crate::{chromium, web};

/// Where the script is, below the workspace's root; Dawn is what the package's own tests have.
pub(crate) const FOLDER: &str = "web/package/test/shaders";

/// The test that writes what the script reads, and where it writes it: Cargo's folder for what tests write.
const LISTING: &str = "every_shader_is_written_down_for_other_compilers";
pub(crate) const LIST: &str = "target/tmp/shaders.json";

/// Writes every shader down for other compilers, to [`LIST`].
///
/// # Errors
/// When the test that does so fails.
pub(crate) fn list(root: &Path) -> Result<()> {
    let test = ["test", "--quiet", "--target-dir", "target", "--test", "shaders", LISTING];
    Step::cargo("list the shaders", test).run(root).map(drop)
}

/// Compiles all variants.
///
/// # Errors
/// When something is missing, or a variant is refused.
pub(crate) fn run(root: &Path) -> Result<()> {
    npm::set_up(root)?;
    npm::install(&root.join(web::PACKAGE))?;
    list(root)?;
    let script = format!("{FOLDER}/compile.js");
    chromium::for_dawn(root, Step::new("compile with Tint", "node", [script.as_str(), LIST]))?.run(root)?;
    Ok(())
}
