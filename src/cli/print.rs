//! Writing to the terminal.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use multihead::Error;
use serde::Serialize;

/// Prints text on stdout. A reader that goes away early is no fault: whatever is left unsaid was not wanted.
pub(super) fn text(text: &str) -> Result<(), Error> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => {
            Err(Error::Io { action: "write to standard output".into(), source })
        }
        _ => Ok(()),
    }
}

/// Prints one JSON object on a line of its own. Numbers that JSON cannot write, NaN and infinities, become null.
pub(super) fn json(object: &impl Serialize) -> Result<(), Error> {
    let line = serde_json::to_string(object).expect("our own objects should have keys and texts of Unicode");
    text(&format!("{line}\n"))
}

/// Prints one sentence on stderr; where that fails there is nowhere left to say so.
pub(super) fn error(error: &impl Display) {
    let _ = writeln!(std::io::stderr(), "error: {}", one_line(error));
}

/// Prints one sentence on stderr.
pub(super) fn warning(warning: &impl Display) {
    let _ = writeln!(std::io::stderr(), "warning: {}", one_line(warning));
}

/// Control characters, which a path may hold, as escapes: a sentence stays a line and a terminal as it is.
pub(super) fn one_line(text: &impl Display) -> String {
    let text = text.to_string();
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if letter.is_control() { escaped.extend(letter.escape_default()) } else { escaped.push(letter) }
    }
    escaped
}
