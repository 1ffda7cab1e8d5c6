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
        /// One for each case and each way to compute it.
        lines: Vec<Line>,
        /// What the browser's compiler says of all shaders.
        shaders: Shaders,
        /// One case in a worker.
        worker: Worker,
    },
    /// There was no GPU, or the page is broken.
    Failed {
        /// What it said.
        error: String,
    },
}

/// Every variant of every shader, compiled.
#[derive(Debug, Deserialize)]
pub(super) struct Shaders {
    variants: usize,
    /// Refused, with what was said.
    faults: Vec<String>,
    /// Taken, although they should be refused.
    missed: Vec<String>,
}

/// One case in a worker.
#[derive(Debug, Deserialize)]
pub(super) struct Worker {
    agrees: bool,
    error: Option<String>,
}

/// One case, computed once.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    case: String,
    /// Kernels to take where they apply; none to let the device's profile choose.
    preferred: Vec<String>,
    /// Whether attention may, must or must not stream.
    fused: String,
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
        let (lines, shaders, worker) = match self {
            Self::Computed { lines, shaders, worker, .. } => (lines, shaders, worker),
            Self::Failed { error } => bail!("the page failed: {error}"),
        };
        let faults: Vec<_> = lines.iter().filter(|line| !line.is_as_expected()).map(ToString::to_string).collect();
        if !faults.is_empty() {
            bail!("the browser computes wrongly:\n{}", faults.join("\n"));
        }
        if shaders.variants == 0 || !shaders.faults.is_empty() || !shaders.missed.is_empty() {
            bail!("the browser's compiler disagrees: {shaders:?}");
        }
        if !worker.agrees {
            bail!("a worker computes wrongly: {}", worker.error.as_deref().unwrap_or("it differs"));
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
            Self::Computed { adapter, lines, shaders, .. } => {
                write!(f, "  adapter \"{adapter}\", {} shader variants compiled", shaders.variants)?;
                write!(f, ", {} answers; those with the kernels that its profile chooses:", lines.len())?;
                lines.iter().filter(|line| line.preferred.is_empty()).try_for_each(|line| write!(f, "\n{line}"))
            }
            Self::Failed { error } => write!(f, "  {error}"),
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, preferred, fused, agrees, max_error, worst, error, .. } = self;
        let preferred = if preferred.is_empty() { format!("as chosen, fused {fused}") } else { preferred.join(", ") };
        let verdict = match (agrees, error) {
            (_, Some(error)) => error.clone(),
            (Some(true), None) => format!("max error {}", max_error.as_deref().unwrap_or("unknown")),
            (_, None) => format!("differs: {}", worst.as_deref().unwrap_or("nothing to compare with")),
        };
        write!(f, "  {case:<20}  {preferred:<22}  {verdict}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A report of one good case and the two controls, with something replaced.
    fn judged(from: &str, to: &str) -> Result<()> {
        let json = r#"{"adapter": "a", "lines": [
            {"case": "good", "preferred": [], "fused": "auto", "kernels": ["matmul_tiled"], "agrees": true,
             "maxError": "1e-7"},
            {"case": "wrong_answer", "preferred": [], "fused": "on", "kernels": [], "agrees": false,
             "worst": "output[0] is 1"},
            {"case": "no_case_file", "preferred": [], "fused": "off", "error": "too short"}],
            "shaders": {"variants": 3, "faults": [], "missed": []}, "worker": {"case": "good", "agrees": true}}"#;
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
            (r#""variants": 3"#, r#""variants": 0"#),
            (r#""faults": []"#, r#""faults": ["line 3"]"#),
            (r#""missed": []"#, r#""missed": ["no_entry_point"]"#),
            (r#""case": "good", "agrees": true"#, r#""case": "good", "agrees": false"#),
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
