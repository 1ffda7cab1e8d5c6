//! `cargo xtask platforms`: the program compiles for systems that this machine is not.

use std::path::Path;

use anyhow::Result;

use crate::toolchain::{SYSTEMS, Toolchain};

/// Makes sure that there is a compiler for each.
///
/// # Errors
/// When one is missing and cannot be set up; the sentence says what to run.
pub(crate) fn set_up(root: &Path) -> Result<()> {
    SYSTEMS.iter().try_for_each(|&target| Toolchain::set_up(root, target).map(drop))
}

/// Type-checks library and program for each.
///
/// # Errors
/// When something is missing, or does not compile.
pub(crate) fn run(root: &Path) -> Result<()> {
    for target in SYSTEMS {
        let name = format!("check for {}", target.triple);
        Toolchain::set_up(root, target)?.cargo(&name, target, ["check", "release"], &["--lib", "--bins"]).run(root)?;
    }
    Ok(())
}
