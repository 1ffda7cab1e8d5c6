//! What the page says it computed, and whether that will do.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// The case whose expected output is wrong: the page must say that it differs.
pub(super) const WRONG: &str = "wrong_answer";
/// The case that is no case file: the page must say so.
pub(super) const BROKEN: &str = "no_case_file";

/// What the page sends.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Report {
    /// The page got as far as computing.
    Computed {
        /// The adapter's name.
        adapter: String,
        /// One for each case and preferred kernel.
        lines: Vec<Line>,
    },
    /// There was no GPU, or the page is broken.
    Failed {
        /// What it said.
        error: String,
    },
}

/// One case, computed once.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    case: String,
    /// Kernels to take where they apply; none to let the device's profile choose.
    preferred: Vec<String>,
    /// Of each dispatch.
    #[serde(default)]
    kernels: Vec<String>,
    agrees: Option<bool>,
    max_error: Option<String>,
    worst: Option<String>,
    error: Option<String>,
}

impl Report {
    pub(super) fn parse(json: &str) -> Result<Self> {
        serde_json::from_str(json).with_context(|| format!("the page sent no report: {json}"))
    }

    /// Requires that every case agrees with its answer, that the negative controls do not, and that each of these
    /// kernels computed something.
    pub(super) fn judge(&self, kernels: &[String]) -> Result<()> {
        let lines = match self {
            Self::Computed { lines, .. } => lines,
            Self::Failed { error } => bail!("the page failed: {error}"),
        };
        let faults: Vec<_> = lines.iter().filter(|line| !line.is_as_expected()).map(ToString::to_string).collect();
        if !faults.is_empty() {
            bail!("the browser computes wrongly:\n{}", faults.join("\n"));
        }
        let used: BTreeSet<_> = lines.iter().flat_map(|line| &line.kernels).collect();
        let unused: Vec<_> = kernels.iter().filter(|kernel| !used.contains(kernel)).cloned().collect();
        if !unused.is_empty() {
            bail!("no case was computed with {}", unused.join(", "));
        }
        for control in [WRONG, BROKEN] {
            if !lines.iter().any(|line| line.case == control) {
                bail!("the page left out \"{control}\"");
            }
        }
        Ok(())
    }
}

impl Line {
    fn is_as_expected(&self) -> bool {
        match self.case.as_str() {
            WRONG => self.agrees == Some(false),
            BROKEN => self.error.is_some(),
            _ => self.agrees == Some(true),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Computed { adapter, lines } => {
                write!(f, "  adapter \"{adapter}\"")?;
                write!(f, ", {} answers; those with the kernels that its profile chooses:", lines.len())?;
                lines.iter().filter(|line| line.preferred.is_empty()).try_for_each(|line| write!(f, "\n{line}"))
            }
            Self::Failed { error } => write!(f, "  {error}"),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, preferred, agrees, max_error, worst, error, .. } = self;
        let preferred = if preferred.is_empty() { "as chosen".into() } else { preferred.join(", ") };
        let verdict = match (agrees, error) {
            (_, Some(error)) => error.clone(),
            (Some(true), None) => format!("max error {}", max_error.as_deref().unwrap_or("unknown")),
            (_, None) => format!("differs: {}", worst.as_deref().unwrap_or("nothing to compare with")),
        };
        write!(f, "  {case:<20}  {preferred:<20}  {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of one good case and the two controls, with something replaced.
    fn judged(from: &str, to: &str) -> Result<()> {
        let json = r#"{"adapter": "a", "lines": [
            {"case": "good", "preferred": [], "kernels": ["matmul_tiled"], "agrees": true, "maxError": "1e-7"},
            {"case": "wrong_answer", "preferred": [], "kernels": [], "agrees": false, "worst": "output[0] is 1"},
            {"case": "no_case_file", "preferred": [], "error": "too short"}]}"#;
        assert!(json.contains(from));
        Report::parse(&json.replace(from, to))?.judge(&["matmul_tiled".into()])
    }

    #[test]
    fn what_agrees_passes_and_nothing_else() {
        assert!(judged("good", "good").is_ok());
        for (from, to) in [
            (r#""agrees": true"#, r#""agrees": false"#),
            (r#""agrees": true"#, r#""error": "device lost""#),
            (r#""agrees": false"#, r#""agrees": true"#),
            ("no_case_file", "another case"),
            (r#""error": "too short""#, r#""agrees": true"#),
            (r#"["matmul_tiled"]"#, "[]"),
        ] {
            assert!(judged(from, to).is_err(), "{from} → {to}");
        }
    }

    #[test]
    fn a_page_that_failed_says_why() {
        let report = Report::parse(r#"{"error": "no usable GPU adapter"}"#).expect("a report");
        let error = report.judge(&[]).expect_err("nothing was computed").to_string();
        assert_eq!(error, "the page failed: no usable GPU adapter");
        assert!(Report::parse("<html>").is_err());
    }
}
