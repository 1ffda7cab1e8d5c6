//! Node and npm.

use std::path::Path;

use anyhow::Result;

use crate::apt;
use crate::step::Step;

/// Installs what the lock file says, and runs no script of anybody's.
const CI: [&str; 5] = ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];

/// Installs what a package needs, unless it lies there already.
///
/// # Errors
/// When npm fails.
pub(crate) fn install(package: &Path) -> Result<()> {
    if !is_installed(package) {
        npm("install what the package needs", CI).run(package)?;
    }
    Ok(())
}

/// npm notes what it installed; the note is younger than the lock file that it followed.
fn is_installed(package: &Path) -> bool {
    let written = |file: &str| package.join(file).metadata().and_then(|about| about.modified());
    match (written("node_modules/.package-lock.json"), written("package-lock.json")) {
        (Ok(installed), Ok(locked)) => installed >= locked,
        _ => false,
    }
}

/// Makes sure that there are Node and npm.
///
/// # Errors
/// When there are none and they cannot be installed; the sentence says what to run.
pub(crate) fn set_up(root: &Path) -> Result<()> {
    if npm("npm", ["--version"]).succeeds(root) {
        return Ok(());
    }
    apt::install(root, "there is no npm", &["nodejs", "npm"], "install Node (https://nodejs.org)")
}

/// A command of npm.
pub(crate) fn npm<const N: usize>(name: &str, arguments: [&str; N]) -> Step {
    // A script on Windows, which is only found by its whole name.
    Step::new(name, if cfg!(windows) { "npm.cmd" } else { "npm" }, arguments)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn a_lock_file_that_changed_is_followed_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let lock = folder.path().join("package-lock.json");
        fs::write(&lock, "{}").expect("a file");
        assert!(!is_installed(folder.path()));
        fs::create_dir(folder.path().join("node_modules")).expect("a folder");
        fs::write(folder.path().join("node_modules/.package-lock.json"), "{}").expect("a file");
        assert!(is_installed(folder.path()));
        let later = SystemTime::now() + Duration::from_secs(60);
        File::options().write(true).open(&lock).and_then(|file| file.set_modified(later)).expect("another time");
        assert!(!is_installed(folder.path()));
    }
}
