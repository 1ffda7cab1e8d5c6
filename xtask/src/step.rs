//! One command of many: announced, run, timed.

use std::ffi::OsString;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// A command with a name, as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What it shows when it succeeds.
    pub(crate) name: String,
    program: OsString,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
}

impl Step {
    /// A command of any program.
    pub(crate) fn new(
        name: impl Into<String>,
        program: impl Into<OsString>,
        arguments: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            name: name.into(),
            program: program.into(),
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
        }
    }

    /// A command of the cargo that runs this program.
    pub(crate) fn cargo(name: impl Into<String>, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(name, cargo(), arguments)
    }

    /// A task of this program.
    ///
    /// # Errors
    /// When the system does not say where this program is.
    pub(crate) fn this_program(name: impl Into<String>, arguments: [&str; 1]) -> Result<Self> {
        Ok(Self::new(name, std::env::current_exe().context("cannot find this program")?, arguments))
    }

    /// Sets an environment variable.
    pub(crate) fn env(mut self, variable: &str, value: &str) -> Self {
        self.environment.push((variable.into(), value.into()));
        self
    }

    /// Runs the command in the folder `root` and says how long it took, on stderr: stdout is the command's.
    ///
    /// # Errors
    /// When the program cannot be started, or ends with another exit code than 0.
    pub(crate) fn run(&self, root: &Path) -> Result<Duration> {
        eprintln!("\n▶ {}\n  $ {self}", self.name);
        let start = Instant::now();
        let status = self.command(root).status().with_context(|| format!("cannot start `{self}`"))?;
        let took = start.elapsed();
        if !status.success() {
            bail!("{} failed ({status}) after {:.1} s: {self}", self.name, took.as_secs_f64());
        }
        eprintln!("  ✓ {} in {:.1} s", self.name, took.as_secs_f64());
        Ok(took)
    }

    /// Runs the command in the folder `root` and gives what it prints, which nobody sees.
    ///
    /// # Errors
    /// As [`run`](Self::run), with what it said on stderr.
    pub(crate) fn output(&self, root: &Path) -> Result<String> {
        eprintln!("\n▶ {}\n  $ {self}", self.name);
        let output = self.command(root).output().with_context(|| format!("cannot start `{self}`"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{} failed ({}): {self}\n{}", self.name, output.status, said.trim_end());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Whether the command works, without a word.
    pub(crate) fn succeeds(&self, root: &Path) -> bool {
        let mut command = self.command(root);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    fn command(&self, root: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).current_dir(root);
        command.envs(self.environment.iter().map(|(variable, value)| (variable, value)));
        command
    }
}

/// As a line for a shell, paths of many files cut short.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 12;
        for (variable, value) in &self.environment {
            write!(f, "{variable}={} ", quoted(value))?;
        }
        let program = Path::new(&self.program);
        f.write_str(&program.file_stem().unwrap_or(&self.program).to_string_lossy())?;
        for argument in self.arguments.iter().take(SHOWN) {
            write!(f, " {}", quoted(argument))?;
        }
        match self.arguments.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " … {more} more"),
        }
    }
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains(|c: char| c.is_whitespace() || "\"'$`\\*?;&|<>()".contains(c)) {
        format!("'{}'", word.replace('\'', r"'\''"))
    } else {
        word.into()
    }
}

/// The cargo that runs this program, else the one in the path.
fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_reads_as_its_command() {
        let step =
            Step::new("documentation", "/opt/bin/cargo", ["doc", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(step.to_string(), "RUSTDOCFLAGS='-D warnings' cargo doc --no-deps");
        let many = Step::new("many", "ls", (0..20).map(|file| file.to_string()));
        assert_eq!(many.to_string(), "ls 0 1 2 3 4 5 6 7 8 9 10 11 … 8 more");
    }

    #[test]
    fn a_failure_names_its_command() {
        let folder = tempfile::tempdir().expect("a folder");
        let failing = Step::cargo("nonsense", ["--no-such-flag"]);
        assert!(!failing.succeeds(folder.path()));
        let error = failing.run(folder.path()).expect_err("no such flag").to_string();
        assert!(error.contains("nonsense failed") && error.contains("--no-such-flag"), "{error}");
        assert!(Step::new("none", "no-such-program-here", [""]).run(folder.path()).is_err());
    }
}
