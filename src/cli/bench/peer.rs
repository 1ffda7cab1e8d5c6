//! Another program that computes the same scenarios, a child process that is asked line by line (peers/README.md).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;

use multihead::Error;
use serde::{Deserialize, Serialize};

/// What a peer is called, and the command that starts it: `NAME=PROGRAM ARGUMENT …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PeerCommand {
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
#[derive(Debug)]
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

    /// An answer that cannot be read or compared.
    pub(super) fn blamed(&self, error: &Error) -> Error {
        Error::Invalid(format!("what the peer {} computed will not do: {error}", self.name))
    }

    fn ask(&mut self, question: &Question<'_>) -> Result<Answer, Error> {
        let mut line = serde_json::to_string(question).expect("a question should have a text");
        line.push('\n');
        let asked = self.questions.write_all(line.as_bytes()).and_then(|()| self.questions.flush());
        let mut answer = String::new();
        match asked.and_then(|()| self.answers.read_line(&mut answer)) {
            Ok(1..) => serde_json::from_str(&answer).map_err(|_| self.nonsense(answer.trim())),
            Ok(0) => Err(self.gone("it closed its output")),
            Err(error) => Err(self.gone(&error.to_string())),
        }
    }

    fn nonsense(&self, answer: &str) -> Error {
        Error::Invalid(format!("the peer {} answered {answer:?}, which is no answer to that", self.name))
    }

    fn gone(&self, why: &str) -> Error {
        Error::Invalid(format!("the peer {} ended before it answered ({why}); its own words stand above", self.name))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// A peer that says this, whatever it is asked.
    fn saying(words: &str) -> Peer {
        let words = vec!["sh".into(), "-c".into(), format!("while read question; do printf '%s\\n' '{words}'; done")];
        Peer::start(&PeerCommand { name: "parrot".into(), words }).unwrap()
    }

    #[test]
    fn seconds_are_a_positive_number_and_nothing_else() {
        assert_eq!(saying(r#"{"seconds": 0.25}"#).time().ok(), Some(0.25));
        for hostile in [
            r#"{"seconds": NaN}"#,
            r#"{"seconds": Infinity}"#,
            r#"{"seconds": 1e999}"#,
            r#"{"seconds": null}"#,
            r#"{"seconds": "0.25"}"#,
            r#"{"seconds": 0}"#,
            r#"{"seconds": -0.25}"#,
            r#"{"seconds": 0.25} and more"#,
            r#"{"minutes": 1}"#,
            r#"{"cannot": "at all"}"#,
            r#""ready""#,
            "{}",
            "0.25",
            "",
        ] {
            let error = saying(hostile).time().expect_err(hostile).to_string();
            assert!(error.contains("parrot") && error.contains("no answer to that"), "{hostile}: {error}");
        }
    }

    #[test]
    fn a_peer_is_ready_or_says_why_it_cannot() {
        let prepare = |words: &str| saying(words).prepare(Path::new("scenario"), Path::new("answer"));
        assert_eq!(prepare(r#""ready""#).unwrap(), None);
        assert_eq!(prepare(r#"{"cannot": "no masks"}"#).unwrap().as_deref(), Some("no masks"));
        for hostile in [r#"{"seconds": 1}"#, r#"{"cannot": 3}"#, r#"{"cannot": null}"#, "ready", r#""Ready""#, "[]"] {
            let error = prepare(hostile).expect_err(hostile).to_string();
            assert!(error.contains("no answer to that"), "{hostile}: {error}");
        }
    }

    #[test]
    fn a_peer_that_ends_or_never_was_is_said() {
        let dead = PeerCommand::from_str("dead=true").unwrap();
        let mut peer = Peer::start(&dead).unwrap();
        let error = peer.time().unwrap_err().to_string();
        assert!(error.contains("the peer dead ended before it answered"), "{error}");
        let error = Peer::start(&PeerCommand::from_str("none=no-such-program-here").unwrap()).err().unwrap();
        assert!(error.to_string().contains("cannot start the peer none (`no-such-program-here`)"), "{error}");
        for nameless in ["", "name", "=program", "name="] {
            assert!(PeerCommand::from_str(nameless).is_err(), "{nameless}");
        }
    }
}
