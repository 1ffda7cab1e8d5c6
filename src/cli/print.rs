//! Writing to the terminal.

use std::fmt::Display;
use std::io::{ErrorKind, Write};

use multihead::Error;
use multihead::io::printable;
use serde::Serialize;

/// Prints lines on stdout, with everything escaped that no terminal should be sent.
pub(super) fn text(text: &str) -> Result<(), Error> {
    let lines = text.split_inclusive('\n').map(|line| match line.strip_suffix('\n') {
        Some(line) => printable(line) + "\n",
        None => printable(line),
    });
    write(&lines.collect::<String>())
}

/// Prints one JSON object on a line of its own. Numbers that JSON cannot write, NaN and infinities, become null.
pub(super) fn json(object: &impl Serialize) -> Result<(), Error> {
    let line = serde_json::to_string(object).expect("our own objects should have keys and texts of Unicode");
    // What no terminal should be sent can stand in strings only, where JSON has an escape for it.
    let mut escaped = String::with_capacity(line.len());
    for letter in line.chars() {
        if printable(letter.encode_utf8(&mut [0; 4])).starts_with(letter) {
            escaped.push(letter);
        } else {
            letter.encode_utf16(&mut [0; 2]).iter().for_each(|unit| escaped += &format!("\\u{unit:04x}"));
        }
    }
    write(&(escaped + "\n"))
}

/// Writes on stdout. A reader that goes away early is no fault: whatever is left unsaid was not wanted.
fn write(text: &str) -> Result<(), Error> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(source) if source.kind() != ErrorKind::BrokenPipe => {
            Err(Error::Io { action: "write to standard output".into(), source })
        }
        _ => Ok(()),
    }
}

/// Prints one sentence on stderr, and which flag does what it advises.
pub(super) fn error(error: &Error) {
    let flag = if error.advises_cpu() { " with --device cpu" } else { "" };
    fault(&format!("{error}{flag}"));
}

/// Prints one sentence on stderr; where that fails there is nowhere left to say so.
pub(super) fn fault(sentence: &impl Display) {
    let _ = writeln!(std::io::stderr(), "error: {}", printable(&sentence.to_string()));
}

/// Prints one sentence on stderr.
pub(super) fn warning(warning: &impl Display) {
    let _ = writeln!(std::io::stderr(), "warning: {}", printable(&warning.to_string()));
}
