//! `cargo xtask package`: the npm package's own tests, in Node with Dawn for a GPU.

use std::path::Path;

use anyhow::Result;

use crate::npm::{self, npm};
use crate::{chromium, web};

/// Builds the package, checks its types and runs its tests.
///
/// # Errors
/// When something is missing, or a test fails.
pub(crate) fn run(root: &Path) -> Result<()> {
    web::package(root)?;
    let folder = root.join(web::PACKAGE);
    npm::install(&folder)?;
    npm("types of the package", ["run", "types"]).run(&folder)?;
    chromium::for_dawn(root, npm("tests of the package", ["test"]))?.run(&folder)?;
    Ok(())
}
