//! What a visitor loads, and how much it may be.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;

/// The most bytes of the wasm, compressed by gzip.
const WASM: u64 = 450_000;
/// The most bytes of all scripts of the page together, the package's among them, compressed one by one.
const SCRIPTS: u64 = 250_000;

/// Prints the size of the wasm and checks it.
///
/// # Errors
/// When it is too large.
pub(super) fn check_wasm(file: &Path) -> Result<()> {
    check("the wasm", &[file.to_owned()], WASM)
}

/// Prints the size of the page's scripts and checks it.
///
/// # Errors
/// When they are too large, or there are none.
pub(super) fn check_page(folder: &Path) -> Result<()> {
    let mut scripts = Vec::new();
    find_scripts(folder, &mut scripts)?;
    if scripts.is_empty() {
        bail!("{} has no script, so the page does nothing", folder.display());
    }
    check("the page's scripts", &scripts, SCRIPTS)
}

fn find_scripts(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            find_scripts(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "js") {
            found.push(path);
        }
    }
    Ok(())
}

fn check(what: &str, files: &[PathBuf], most: u64) -> Result<()> {
    let (mut plain, mut compressed) = (0, 0);
    for file in files {
        let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
        plain += bytes.len() as u64;
        compressed += gzipped(&bytes)?;
    }
    println!("  {what}: {compressed} bytes compressed of {most} that it may be, {plain} plain");
    if compressed > most {
        bail!("{what} has {compressed} bytes compressed by gzip, but may have {most}; see what it is made of");
    }
    Ok(())
}

/// How many bytes gzip makes of these, at its best.
fn gzipped(bytes: &[u8]) -> Result<u64> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_large_fails_and_all_scripts_count() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(check_page(folder.path()).is_err(), "no script");
        fs::create_dir(folder.path().join("assets")).expect("a folder");
        // Noise, which nothing compresses: xorshift.
        let mut state = 1_u64;
        let noise = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        let noise: Vec<u8> = std::iter::repeat_with(noise).take(150_000).collect();
        fs::write(folder.path().join("a.js"), &noise).expect("a file");
        check_page(folder.path()).expect("150 KB");
        fs::write(folder.path().join("assets/b.js"), &noise).expect("a file");
        let error = check_page(folder.path()).expect_err("300 KB").to_string();
        assert!(error.contains("may have 250000"), "{error}");
    }
}
