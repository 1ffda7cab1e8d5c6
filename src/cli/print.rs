//! Writing to the terminal. A reader that goes away early is no fault: whatever is left unsaid was not wanted.

use std::fmt::Display;
use std::io::Write;

use serde::Serialize;

/// Prints text on stdout.
pub(super) fn text(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Prints one JSON object on a line of its own. Numbers that JSON cannot write, NaN and infinities, become null.
pub(super) fn json(object: &impl Serialize) {
    let line = serde_json::to_string(object).expect("our own objects should have string keys");
    text(&format!("{line}\n"));
}

/// Prints one sentence on stderr.
pub(super) fn error(error: &impl Display) {
    let _ = writeln!(std::io::stderr(), "error: {error}");
}

/// Prints one sentence on stderr.
pub(super) fn warning(warning: &impl Display) {
    let _ = writeln!(std::io::stderr(), "warning: {warning}");
}
