//! Another program that computes the same scenarios, a child process that is asked line by line (peers/README.md).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;

use multihead::Error;
use serde::{Deserialize, Serialize};

/// What a peer is called, and the command that starts it: `NAME=PROGRAM ARGUMENT …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct PeerCommand {
    name: String,
    words: Vec<String>,
}

impl FromStr for PeerCommand {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, command) = text.split_once('=').unwrap_or_default();
        let words: Vec<_> = command.split_whitespace().map(str::to_owned).collect();
        if name.is_empty() || words.is_empty() {
            return Err("must be NAME=PROGRAM ARGUMENT …".into());
        }
        Ok(Self { name: name.into(), words })
    }
}

/// What a peer is asked.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Question<'a> {
    /// Read the scenario, compute it once, write `output` there.
    Prepare { scenario: &'a Path, answer: &'a Path },
    /// Compute it again, a few times: how long did one take?
    Time,
}

/// What it answers.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ready,
    /// It has no such computation; why.
    Cannot(String),
    /// Median seconds of one computation, inputs where the peer computes.
    Seconds(f64),
}

/// A peer that runs.
pub(super) struct Peer {
    pub(super) name: String,
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    pub(super) fn start(command: &PeerCommand) -> Result<Self, Error> {
        let PeerCommand { name, words } = command;
        let mut process = Command::new(&words[0]);
        process.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = process.spawn().map_err(|error| {
            Error::Invalid(format!("cannot start the peer {name} (`{}`): {error}", words.join(" ")))
        })?;
        let (Some(questions), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both should be pipes");
        };
        Ok(Self { name: name.clone(), child, questions, answers: BufReader::new(answers) })
    }

    /// Computes a scenario once, or says why it cannot.
    pub(super) fn prepare(&mut self, scenario: &Path, answer: &Path) -> Result<Option<String>, Error> {
        match self.ask(&Question::Prepare { scenario, answer })? {
            Answer::Ready => Ok(None),
            Answer::Cannot(why) => Ok(Some(why)),
            other @ Answer::Seconds(_) => Err(self.nonsense(&format!("{other:?}"))),
        }
    }

    /// Seconds of one computation of what was prepared last.
    pub(super) fn time(&mut self) -> Result<f64, Error> {
        match self.ask(&Question::Time)? {
            Answer::Seconds(seconds) if seconds > 0.0 && seconds.is_finite() => Ok(seconds),
            other => Err(self.nonsense(&format!("{other:?}"))),
        }
    }

    fn ask(&mut self, question: &Question<'_>) -> Result<Answer, Error> {
        let gone = |error: std::io::Error| Error::Invalid(format!("the peer {} is gone: {error}", self.name));
        let mut line = serde_json::to_string(question).expect("a question should have a text");
        line.push('\n');
        self.questions.write_all(line.as_bytes()).and_then(|()| self.questions.flush()).map_err(gone)?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).map_err(gone)?;
        serde_json::from_str(&answer).map_err(|_| self.nonsense(answer.trim()))
    }

    fn nonsense(&self, answer: &str) -> Error {
        Error::Invalid(format!("the peer {} answered {answer:?}, which is no answer to that", self.name))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
