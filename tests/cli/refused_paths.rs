//! Paths that cannot be read or written, and paths that only look odd.

use std::fs;
use std::process::Stdio;

use crate::cases::CaseFile;
use crate::program::{CASE, Ended, Folder, Sentences};

fn case() -> CaseFile {
    CaseFile::new(r#"{"num_heads":2}"#).random("query", &[1, 2, 4]).random("expected.output", &[1, 2, 4])
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = Folder::with_case(&case());
    fs::create_dir(folder.path("folder")).unwrap();
    let mut sentences = Sentences::default();
    for command in ["run", "check", "plan"] {
        sentences.refused(&format!("{command}: a missing file"), &folder, &[command, "missing.safetensors"]);
        sentences.refused(&format!("{command}: a folder"), &folder, &[command, "folder"]);
    }
    sentences.refused("a file as a folder", &folder, &["run", "case.safetensors/x"]);
    sentences.refused("an empty name", &folder, &["run", ""]);
    sentences.refused("a line break in the name", &folder, &["run", "a\nb"]);
    sentences.refused("missing weights", &folder, &["run", CASE, "--weights", "missing"]);
    sentences.refused("a folder as weights", &folder, &["run", CASE, "--weights", "folder"]);
    insta::assert_snapshot!(sentences);
}

#[test]
fn places_that_cannot_be_written_are_refused_and_nothing_is_written() {
    let folder = Folder::with_case(&case());
    fs::create_dir(folder.path("folder")).unwrap();
    let mut sentences = Sentences::default();
    let mut refused = |what: &str, more: &[&str]| sentences.refused(what, &folder, &[&["run", CASE], more].concat());
    refused("a missing folder", &["-o", "none/out"]);
    refused("a folder", &["-o", "folder"]);
    refused("a folder by its slash", &["-o", "folder/"]);
    refused("a folder to be", &["-o", "new/"]);
    refused("an empty name", &["-o", ""]);
    refused("a place that nobody can write", &["-o", "/proc/x"]);
    refused("a picture in a missing folder", &["--maps", "none/maps.png"]);
    refused("a picture that is a folder", &["--maps", "folder"]);
    refused("a picture where nobody can write", &["--maps", "/proc/x.png"]);
    refused("a good output and a bad picture", &["-o", "out", "--maps", "/proc/x.png"]);
    refused("a good picture and a bad output", &["-o", "/proc/x", "--maps", "maps.png"]);
    refused("an unknown picture format", &["-o", "out", "--maps", "maps.jpg"]);
    refused("a picture without a format", &["--maps", "maps"]);
    insta::assert_snapshot!(sentences);
}

#[test]
fn what_is_read_is_not_overwritten_and_two_files_do_not_share_a_name() {
    let folder = Folder::with_case(&case());
    CaseFile::without_settings().projections("", [[4, 4]; 4]).write(folder.path("weights"));
    case().write(folder.path("case.png"));
    fs::create_dir(folder.path("folder")).unwrap();
    std::os::unix::fs::symlink(CASE, folder.path("link")).unwrap();
    let mut sentences = Sentences::default();
    let mut refused =
        |what: &str, arguments: &[&str]| sentences.refused(what, &folder, &[&["run"], arguments].concat());
    refused("the case", &[CASE, "-o", CASE]);
    refused("the case in other words", &[CASE, "-o", "./folder/../case.safetensors"]);
    refused("the case by a link", &[CASE, "-o", "link"]);
    refused("the case as a picture", &["case.png", "--maps", "case.png"]);
    refused("the weights", &[CASE, "--weights", "weights", "-o", "weights"]);
    refused("one file for both", &[CASE, "-o", "out.png", "--maps", "out.png"]);
    refused("one file for both in other words", &[CASE, "-o", "out.png", "--maps", "folder/../out.png"]);
    insta::assert_snapshot!(sentences);
    folder.on_cpu(&["run", CASE, "-o", "/dev/null"]).done();
}

#[test]
fn odd_names_are_names() {
    let folder = Folder::new();
    for name in ["two words.safetensors", "Größe ü 注意.safetensors", "-", "=", "'quoted \"name\"'"] {
        case().write(folder.path(name));
        let out = format!("out of {name}");
        let told = folder.run(["run", "--device", "cpu", "--json", "-o", &out, "--", name]).done();
        let report: serde_json::Value = serde_json::from_str(&told).unwrap();
        assert_eq!(report["output"]["file"], out.as_str());
        assert!(folder.path(&out).is_file());
    }
}

#[test]
fn a_name_that_is_no_unicode_is_a_name() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new();
    let name = OsStr::from_bytes(b"case\xFF");
    case().write(folder.path(name));
    let out = OsStr::from_bytes(b"out\xFE");
    let common = ["--device", "cpu", "--json"].map(OsStr::new);
    let told = folder.run([&common[..], &["run", "-o"].map(OsStr::new), &[out, name]].concat());
    assert_eq!(told.code, Some(2), "options of a command stand behind it: {told:?}");
    let told = folder.run([&["run"].map(OsStr::new)[..], &common, &[OsStr::new("-o"), out, name]].concat()).done();
    assert!(serde_json::from_str::<serde_json::Value>(&told).is_ok(), "{told}");
    assert!(folder.path(out).is_file());
    let checked = folder.run([&["check"].map(OsStr::new)[..], &common, &[name]].concat());
    assert_eq!(checked.code, Some(1), "{checked:?}");
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    let folder = Folder::with_case(&case());
    for arguments in [&["run", CASE, "--device", "cpu"][..], &["plan", CASE, "--device", "cpu"], &["--help"]] {
        let mut child = folder.command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let ended = Ended::of(&child.wait_with_output().unwrap());
        assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_full_disk_behind_stdout_is_said() {
    let folder = Folder::with_case(&case());
    for arguments in [&["run", CASE, "--json", "--device", "cpu"][..], &["plan", CASE, "--device", "cpu"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ended = Ended::of(&folder.command(arguments).stdout(full).stderr(Stdio::piped()).output().unwrap());
        assert_eq!(ended.sentence(2), "cannot write to standard output: No space left on device (os error 28)");
    }
}

#[test]
fn the_output_can_go_to_stdout() {
    let folder = Folder::with_case(&case());
    let output = folder.command(["run", CASE, "--device", "cpu", "-o", "/dev/stdout"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let length = u64::from_le_bytes(output.stdout[..8].try_into().unwrap());
    assert!(length < 1000, "the file comes first");
}
