//! `multihead check`: computes cases and compares with the answers they carry, a line for each.
//!
//! All cases are tried. One that cannot be used is an error of its own; the exit code is that of the worst.

use std::path::Path;

use multihead::{Case, Comparison, Device, Error, PlanOptions, Worst};
use serde::Serialize;

use super::args::CheckArguments;
use super::{Outcome, print};

/// What is said of one case.
#[derive(Serialize)]
struct Line<'a> {
    /// As text, for a path need not be Unicode and JSON is.
    case: String,
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
    /// Every tensor whose shape is another than expected, as the end of a sentence.
    other_shapes: Vec<String>,
    /// Whether the scores were never stored.
    fused: bool,
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
    compare(&case, device, &arguments.how.plan_options()).await.map_err(|error| error.in_file(path))
}

async fn compare(case: &Case, device: &Device, options: &PlanOptions) -> Result<Checked, Error> {
    let expected = &case.expected;
    let attention = case.attention()?;
    let with_weights = expected.attention_weights.is_some();
    let plan = attention.compile_with(device, &case.inputs.call_shape(), with_weights, options).await?;
    let got = plan.run(&case.inputs).await?;
    let tolerance = case.tolerance();
    let comparison = expected.compare(&got, tolerance).ok_or_else(|| Error::Missing {
        what: "expected.output or expected.attention_weights".into(),
        hint: "a check needs an answer to compare with; `multihead run` only computes".into(),
    })?;
    let others = expected.beside(&got).filter(|(_, got, expected)| got.shape() != expected.shape());
    let other_shapes =
        others.map(|(name, got, expected)| format!("{name} has shape {}, expected {}", got.shape(), expected.shape()));
    Ok(Checked { comparison, tolerance, other_shapes: other_shapes.collect(), fused: plan.streams() })
}

fn line<'a>(case: &Path, checked: &Result<Checked, Error>, device: &'a str) -> Line<'a> {
    let comparison = checked.as_ref().ok().map(|checked| &checked.comparison);
    Line {
        case: case.display().to_string(),
        ok: comparison.is_some_and(|comparison| comparison.ok),
        max_error: comparison.map(|comparison| comparison.max_error),
        worst: comparison.and_then(|comparison| comparison.worst.clone()),
        device,
        fused: checked.as_ref().is_ok_and(|checked| checked.fused),
        error: checked.as_ref().err().map(ToString::to_string),
    }
}

fn told(path: &Path, Checked { comparison, tolerance, other_shapes, .. }: &Checked) -> String {
    let verdict = if comparison.ok { "ok  " } else { "FAIL" };
    let path = multihead::io::printable(&path.display().to_string());
    let mut text = format!("{verdict}  {path}  max error {:.1e}, tolerance {tolerance:e}", comparison.max_error);
    for other_shape in other_shapes {
        text += &format!("; {other_shape}");
    }
    if let (false, true, Some(worst)) = (comparison.ok, other_shapes.is_empty(), &comparison.worst) {
        text += &format!("; {worst}");
    }
    text + "\n"
}
