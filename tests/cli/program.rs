//! Running the program in a folder of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use multihead::HostTensor;
use multihead::io::Archive;
use tempfile::TempDir;

use crate::cases::CaseFile;

/// The case file that most tests write, relative to the folder.
pub const CASE: &str = "case.safetensors";

/// A temporary folder in which the program runs, so that sentences hold relative paths.
#[derive(Debug)]
pub struct Folder {
    folder: TempDir,
}

/// How the program ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Folder {
    pub fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A folder that holds one case.
    pub fn with_case(case: &CaseFile) -> Self {
        let folder = Self::new();
        case.write(folder.path(CASE));
        folder
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Every file below the folder with its bytes.
    pub fn listing(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    files.push((path, bytes));
                }
            }
        }
        files.sort();
        files
    }

    pub fn command<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_multihead"));
        command.args(arguments).current_dir(self.folder.path()).stdin(Stdio::null());
        // Snapshots hold lines of a certain width and nothing of what a developer logs.
        command.env_remove("RUST_LOG").env_remove("COLUMNS");
        // Mesa's layer that orders devices speaks on stderr where there is no desktop; Vulkan's loader knows this switch.
        command.env("NODEVICE_SELECT", "1");
        command
    }

    /// Runs the program with these arguments, whatever device they name.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Ended {
        Ended::of(&self.command(arguments).output().unwrap())
    }

    /// Runs the program with these arguments on the CPU.
    pub fn on_cpu(&self, arguments: &[&str]) -> Ended {
        self.run(arguments.iter().copied().chain(["--device", "cpu"]))
    }

    /// Computes `CASE` on the CPU with more arguments; the whole output file, bit for bit.
    pub fn output_bytes(&self, more: &[&str]) -> Vec<u8> {
        let arguments = [&["run", CASE, "-o", "out.safetensors"], more].concat();
        self.on_cpu(&arguments).done();
        std::fs::read(self.path("out.safetensors")).unwrap()
    }

    /// Computes `CASE` on the CPU with more arguments; its output.
    pub fn output(&self, more: &[&str]) -> HostTensor {
        let bytes = self.output_bytes(more);
        Archive::from_bytes(&bytes).unwrap().tensor("output").unwrap()
    }
}

impl Ended {
    pub fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Self { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Exit code 0 and nothing to complain about; what it printed.
    pub fn done(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        self.stdout
    }

    /// The one line on stderr of a program that ended with `code` and printed nothing else.
    pub fn sentence(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.stdout, "", "{self:?}");
        let Some(line) = self.stderr.strip_suffix('\n') else { panic!("no line: {self:?}") };
        assert!(!line.contains('\n'), "more than one line: {self:?}");
        let Some(sentence) = line.strip_prefix("error: ") else { panic!("no error: {self:?}") };
        sentence.into()
    }
}

/// Sentences under what provoked them, for a person to read.
#[derive(Debug, Default)]
pub struct Sentences {
    text: String,
}

impl Sentences {
    /// Notes how the program refuses a case on the CPU.
    pub fn case(&mut self, what: &str, case: &CaseFile) {
        self.bytes(what, &case.bytes());
    }

    /// Notes how the program refuses a case file of these bytes.
    pub fn bytes(&mut self, what: &str, bytes: &[u8]) {
        let folder = Folder::new();
        std::fs::write(folder.path(CASE), bytes).unwrap();
        self.refused(what, &folder, &["run", CASE, "-o", "out.safetensors"]);
    }

    /// Notes how the program refuses these arguments on the CPU, having held it to what every refusal promises.
    pub fn refused(&mut self, what: &str, folder: &Folder, arguments: &[&str]) {
        let before = folder.listing();
        let sentence = folder.on_cpu(arguments).sentence(2);
        assert!(folder.listing() == before, "{what}: something was written");
        self.note(what, &sentence);
    }

    /// Notes a sentence.
    pub fn note(&mut self, what: &str, sentence: &str) {
        self.text += &format!("{what}\n    {sentence}\n");
    }
}

impl std::fmt::Display for Sentences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
