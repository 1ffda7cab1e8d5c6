//! How a product of 256³ compares with the textbook's tile on the same device in a browser.

use std::fmt;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::site::Site;
use crate::web;

/// The page, and the package that it times.
pub(super) fn site(root: &Path) -> Result<Site> {
    let mut site = Site::default();
    let package = root.join(web::PACKAGE);
    site.add_folder("/", &package.join("test/textbook"))?;
    site.add_file("/package/index.js", &package.join("index.js"))?;
    for folder in ["src", "wasm"] {
        site.add_folder(&format!("/package/{folder}/"), &package.join(folder))?;
    }
    Ok(site)
}

/// What the page measured.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Report {
    Timed(Times),
    Failed { error: String },
}

/// Medians; the ratio is that of the pairs.
#[derive(Debug, Deserialize)]
pub(super) struct Times {
    adapter: String,
    kernel: String,
    ours_ms: f64,
    textbook_ms: f64,
    ratio: f64,
}

impl Times {
    pub(super) fn parse(json: &str) -> Result<Self> {
        match serde_json::from_str(json).with_context(|| format!("the page sent no times: {json}"))? {
            Report::Timed(times) => Ok(times),
            Report::Failed { error } => bail!("the page failed: {error}"),
        }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { adapter, kernel, ours_ms, textbook_ms, ratio } = self;
        write!(
            f,
            "  256³ on \"{adapter}\": {kernel} {ours_ms:.1} ms, the textbook's tile {textbook_ms:.1} ms, ratio {ratio:.1}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_a_failure_says_why() {
        let json = r#"{"adapter": "a", "kernel": "matmul_register", "ours_ms": 5, "textbook_ms": 266.25, "ratio": 53}"#;
        let line = Times::parse(json).expect("times").to_string();
        assert_eq!(line, r#"  256³ on "a": matmul_register 5.0 ms, the textbook's tile 266.2 ms, ratio 53.0"#);
        for (hostile, why) in [
            (r#"{"error": "no adapter"}"#, "the page failed: no adapter"),
            (r#"{"adapter": "a", "kernel": "k", "ours_ms": null, "textbook_ms": 1, "ratio": 1}"#, "no times"),
            ("<html>", "no times"),
        ] {
            let error = Times::parse(hostile).expect_err(hostile).to_string();
            assert!(error.contains(why), "{hostile}: {error}");
        }
    }
}
