//! Which files hold cases that `multihead check` can check.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Where cases lie, below the workspace's root.
const FOLDERS: [&str; 2] = ["tests/cases", "examples/data"];

/// Every case with an answer to compare with, relative to `root`, in order of the names.
///
/// # Errors
/// When a file cannot be read, or there is no case at all: then nothing would be tested.
pub(crate) fn find(root: &Path) -> Result<Vec<String>> {
    let mut cases = Vec::new();
    for folder in FOLDERS {
        let mut files = safetensors_files(&root.join(folder))?;
        files.sort();
        for file in files {
            if has_answer(&file).with_context(|| format!("cannot read {}", file.display()))? {
                let relative = file.strip_prefix(root).unwrap_or(&file);
                cases.push(relative.display().to_string());
            }
        }
    }
    if cases.is_empty() {
        bail!("no case files with answers in {}", FOLDERS.join(" or "));
    }
    Ok(cases)
}

fn safetensors_files(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let paths: Vec<PathBuf> = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    Ok(paths.into_iter().filter(|path| path.extension().is_some_and(|name| name == "safetensors")).collect())
}

/// Whether the file's header names an `expected.…` tensor; weights without a call have none.
fn has_answer(file: &Path) -> std::io::Result<bool> {
    let mut file = File::open(file)?;
    let mut header_len = [0; 8];
    file.read_exact(&mut header_len)?;
    let mut header = Vec::new();
    file.take(u64::from_le_bytes(header_len)).read_to_end(&mut header)?;
    Ok(String::from_utf8_lossy(&header).contains("\"expected."))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_safetensors(file: &Path, header: &str) {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        fs::write(file, bytes).expect("a file");
    }

    #[test]
    fn only_files_with_answers_are_cases() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(find(root.path()).is_err(), "no folders, no cases");
        let data = root.path().join("examples/data");
        fs::create_dir_all(&data).expect("a folder");
        write_safetensors(&data.join("b.safetensors"), r#"{"expected.output": {}}"#);
        write_safetensors(&data.join("a.safetensors"), r#"{"expected.attention_weights": {}}"#);
        write_safetensors(&data.join("weights.safetensors"), r#"{"W_q.weight": {}}"#);
        fs::write(data.join("README.md"), "about").expect("a file");
        let cases = find(root.path()).expect("two cases");
        let names: Vec<&str> = cases.iter().filter_map(|case| Path::new(case).file_name()?.to_str()).collect();
        assert_eq!(names, ["a.safetensors", "b.safetensors"]);
        assert!(cases.iter().all(|case| Path::new(case).is_relative()));
    }

    #[test]
    fn a_broken_file_is_an_error_not_a_skip() {
        let root = tempfile::tempdir().expect("a folder");
        let cases = root.path().join("tests/cases");
        fs::create_dir_all(&cases).expect("a folder");
        fs::write(cases.join("short.safetensors"), "abc").expect("a file");
        let error = find(root.path()).expect_err("three bytes are no header");
        assert!(error.to_string().contains("short.safetensors"), "{error}");
    }
}
