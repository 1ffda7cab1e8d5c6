//! `multihead check`: computes cases and compares with the answers they carry, a line for each.
//!
//! All cases are tried. One that cannot be used is an error of its own; the exit code is that of the worst.

use std::path::Path;

use multihead::{Case, Comparison, Device, Error, Worst};
use serde::Serialize;

use super::args::CheckArguments;
use super::{Outcome, print};

/// What is said of one case.
#[derive(Serialize)]
struct Line<'a> {
    case: &'a Path,
    ok: bool,
    max_error: Option<f64>,
    worst: Option<Worst>,
    device: &'a str,
    fused: bool,
    /// Why the case could not be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// A case's comparison, and the tolerance it was held to.
struct Checked {
    comparison: Comparison,
    tolerance: f64,
}

pub(super) async fn check(arguments: &CheckArguments) -> Result<Outcome, Error> {
    let device = super::open(&arguments.how.device).await?;
    let mut worst = Outcome::Done;
    for path in &arguments.cases {
        let checked = check_case(path, arguments, &device).await;
        if arguments.how.json {
            print::json(&line(path, &checked, device.name()))?;
        } else if let Ok(checked) = &checked {
            print::text(&told(path, checked))?;
        }
        worst = worst.max(match checked {
            Ok(checked) if checked.comparison.ok => Outcome::Done,
            Ok(_) => Outcome::Differs,
            Err(error) => {
                print::error(&error);
                Outcome::of(&error)
            }
        });
    }
    Ok(worst)
}

async fn check_case(path: &Path, arguments: &CheckArguments, device: &Device) -> Result<Checked, Error> {
    let case = Case::open(path, &arguments.how.case_options())?;
    compare(&case, device).await.map_err(|error| error.in_file(path))
}

async fn compare(case: &Case, device: &Device) -> Result<Checked, Error> {
    let expected = &case.expected;
    let attention = case.attention()?;
    let with_weights = expected.attention_weights.is_some();
    let got = attention.compile(device, &case.inputs, with_weights).await?.run(&case.inputs).await?;
    let tolerance = case.tolerance();
    let comparison = expected.compare(&got, tolerance).ok_or_else(|| Error::Missing {
        what: "expected.output or expected.attention_weights".into(),
        hint: "a check needs an answer to compare with; `multihead run` only computes".into(),
    })?;
    Ok(Checked { comparison, tolerance })
}

fn line<'a>(case: &'a Path, checked: &Result<Checked, Error>, device: &'a str) -> Line<'a> {
    let comparison = checked.as_ref().ok().map(|checked| &checked.comparison);
    Line {
        case,
        ok: comparison.is_some_and(|comparison| comparison.ok),
        max_error: comparison.map(|comparison| comparison.max_error),
        worst: comparison.and_then(|comparison| comparison.worst.clone()),
        device,
        fused: false,
        error: checked.as_ref().err().map(ToString::to_string),
    }
}

fn told(path: &Path, Checked { comparison, tolerance }: &Checked) -> String {
    let verdict = if comparison.ok { "ok  " } else { "FAIL" };
    let mut text =
        format!("{verdict}  {}  max error {:.1e}, tolerance {tolerance:e}", path.display(), comparison.max_error);
    if let (false, Some(worst)) = (comparison.ok, &comparison.worst) {
        text += &format!("; {worst}");
    }
    text + "\n"
}
