//! System packages, on systems with apt.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::step::Step;

/// Installs packages, or says what to run.
///
/// `missing` begins the sentences ("no Vulkan driver found"), `elsewhere` tells what to do on a system without apt.
///
/// # Errors
/// When there is no apt, no right to use it, or it fails.
pub(crate) fn install(root: &Path, missing: &str, packages: &[&str], elsewhere: &str) -> Result<()> {
    if !Step::new("apt", "apt-get", ["--version"]).succeeds(root) {
        bail!("{missing}; {elsewhere}, then run again");
    }
    let Some(rights) = Rights::found(root) else {
        bail!("{missing}; run `sudo apt-get install {}`, then run again", packages.join(" "));
    };
    println!("{missing}. Installing {}.", packages.join(", "));
    if let Err(error) = rights.apt_get("package lists", ["update"]).run(root) {
        // Old lists may do; if not, the next step says so.
        println!("  {error:#}; going on");
    }
    // Nothing that somebody installed may go for it.
    let install = ["install", "-y", "--no-install-recommends", "--no-remove"].into_iter();
    rights.apt_get(&format!("install {}", packages[0]), install.chain(packages.iter().copied())).run(root)?;
    Ok(())
}

/// Whether all of these packages are installed.
pub(crate) fn has(packages: &[&str]) -> bool {
    let query = Command::new("dpkg-query").args(["-W", "-f=${db:Status-Status}\n"]).args(packages).output();
    query.is_ok_and(|output| {
        output.status.success() && String::from_utf8_lossy(&output.stdout).lines().all(|line| line == "installed")
    })
}

/// How system packages can be installed without a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    Root,
    Sudo,
}

impl Rights {
    fn found(root: &Path) -> Option<Self> {
        let user = Command::new("id").arg("-u").output();
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

    #[test]
    fn a_package_that_does_not_exist_is_not_there() {
        assert!(!has(&["no-such-package-here"]));
    }
}
