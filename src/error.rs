//! The one error type: every variant carries the numbers that explain it.

use std::fmt;
use std::path::PathBuf;

use crate::shape::Shape;

/// Whatever can go wrong, as one sentence that says what to do.
///
/// Its `Debug` is the sentence too, which is what `main` prints of an error that it returns.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor's numbers are more or fewer than its shape says.
    #[error("{got} numbers do not fill shape {shape}")]
    DataLength {
        /// How many numbers there are.
        got: usize,
        /// What they should fill.
        shape: Shape,
    },

    /// A tensor's shape is not one that the call can use.
    #[error("{what} has shape {got}, but {expected}")]
    WrongShape {
        /// The tensor's name.
        what: String,
        /// The shape it has.
        got: Shape,
        /// Which shape is needed and why, as the end of the sentence: "should have shape (4, 4), …".
        expected: String,
    },

    /// One size must divide another.
    #[error("{what} {value} is not divisible by {divisor_name} {divisor}")]
    NotDivisible {
        /// What is to be divided.
        what: String,
        /// Its size.
        value: usize,
        /// What should divide it.
        divisor_name: String,
        /// Its size.
        divisor: usize,
    },

    /// A setting or an element lies outside what is allowed.
    #[error("{what} is {value}, but {allowed}")]
    OutOfRange {
        /// The setting or element: "window", "`valid_lens[1, 3]`".
        what: String,
        /// Its value, as written.
        value: String,
        /// What is allowed, as the end of the sentence: "must be at least 1".
        allowed: String,
    },

    /// A file or a graph says something that contradicts itself or that this version cannot do.
    #[error("{0}")]
    Invalid(String),

    /// A name that nothing knows.
    #[error("unknown {kind} \"{name}\"{}", nearest.as_ref().map_or(String::new(), |near| format!("; did you mean \"{near}\"?")))]
    UnknownName {
        /// What the name should name: "tensor", "field of the metadata `attention`".
        kind: String,
        /// The unknown name.
        name: String,
        /// The closest known name, if any is close.
        nearest: Option<String>,
    },

    /// Something that was asked for is not there.
    #[error("{what} is missing; {hint}")]
    Missing {
        /// What is missing.
        what: String,
        /// What to do, as a clause.
        hint: String,
    },

    /// The work needs more than the device (or the format) can give.
    #[error("{what} needs {need} {unit}, but {limit} is {have}; {hint}")]
    LimitExceeded {
        /// What needs too much.
        what: String,
        /// How much it needs.
        need: u64,
        /// How much there is.
        have: u64,
        /// What is counted: "bytes".
        unit: &'static str,
        /// The limit's name.
        limit: String,
        /// What to do, as a clause.
        hint: String,
    },

    /// No adapter fits what was asked for.
    #[error("no usable GPU adapter{wanted}: {found}; {hint}, or compute on the CPU")]
    NoAdapter {
        /// " named \"…\"", or empty.
        wanted: String,
        /// What was found instead.
        found: String,
        /// What to do, as a clause.
        hint: &'static str,
    },

    /// The device went away; results computed on it are not to be trusted.
    #[error("the GPU device was lost ({reason}); open a device again, or compute on the CPU")]
    DeviceLost {
        /// What the driver said.
        reason: String,
    },

    /// The driver or WebGPU's validation refused an object.
    #[error("the GPU refused {what}: {message}")]
    Gpu {
        /// The object's label.
        what: String,
        /// The refusal, on one line.
        message: String,
    },

    /// An error in one file.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<Error>,
    },

    /// The operating system refused to read or write.
    #[error("cannot {action}: {source}")]
    Io {
        /// "read", "write", "create a file in /tmp".
        action: String,
        /// What the system said.
        source: std::io::Error,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The end of a hint about work that only the device is too small for.
pub(crate) const ON_THE_CPU: &str = "or compute on the CPU";

impl Error {
    /// Says which file this error is about.
    #[must_use]
    pub fn in_file(self, path: impl Into<PathBuf>) -> Self {
        Self::File { path: path.into(), source: Box::new(self) }
    }

    /// Whether the error's sentence ends with the advice to compute on the CPU; a program may add how.
    #[must_use]
    pub fn advises_cpu(&self) -> bool {
        match self {
            Self::NoAdapter { .. } | Self::DeviceLost { .. } => true,
            Self::LimitExceeded { hint, .. } => hint.ends_with(ON_THE_CPU),
            Self::File { source, .. } => source.advises_cpu(),
            _ => false,
        }
    }

    /// Whether the device, not the input, is at fault.
    #[must_use]
    pub fn is_device_fault(&self) -> bool {
        match self {
            Self::NoAdapter { .. } | Self::DeviceLost { .. } | Self::Gpu { .. } => true,
            Self::File { source, .. } => source.is_device_fault(),
            _ => false,
        }
    }
}

/// A number as a sentence shows it: a tiny or huge one is not three hundred zeros.
pub(crate) fn number(value: f64) -> String {
    let plain = value == 0.0 || !value.is_finite() || (1e-5..1e16).contains(&value.abs());
    if plain { value.to_string() } else { format!("{value:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_short_as_they_are_said() {
        let shown = [-1e-300, f64::MAX, 0.5, -0.1, 2.0, f64::NAN, f64::NEG_INFINITY, -0.0].map(number);
        assert_eq!(shown, ["-1e-300", "1.7976931348623157e308", "0.5", "-0.1", "2", "NaN", "-inf", "-0"]);
    }

    #[test]
    fn a_main_that_returns_an_error_prints_its_sentence() {
        let error = Error::Missing { what: "the query".into(), hint: "give one".into() }.in_file("a.safetensors");
        let returned: Box<dyn std::error::Error> = error.into();
        assert_eq!(format!("{returned:?}"), "a.safetensors: the query is missing; give one");
    }
}
