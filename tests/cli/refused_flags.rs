//! Command lines that cannot be: the same rules as in the file, and one line that names the flag.

use crate::cases::CaseFile;
use crate::program::{CASE, Folder, Sentences};

fn folder() -> Folder {
    let case = CaseFile::new(r#"{"num_heads":4}"#).random("query", &[2, 2, 12]);
    Folder::with_case(&case.random("expected.output", &[2, 2, 12]))
}

#[test]
fn settings_are_held_to_the_rules_of_the_file() {
    let folder = folder();
    let mut sentences = Sentences::default();
    for flag in [
        "--num-heads=0",
        "--num-heads=-4",
        "--num-heads=4.5",
        "--num-heads=four",
        "--num-heads=",
        "--num-heads=5",
        "--num-heads=4294967295",
        "--num-heads=99999999999999999999",
        "--num-kv-heads=0",
        "--num-kv-heads=3",
        "--head-dim=0",
        "--head-dim=4",
        "--window=0",
        "--window=-1",
        "--window=1e3",
        "--causal=maybe",
        "--query-offset=x",
        "--query-offset=9223372036854775808",
        "--scale=nan",
        "--scale=inf",
        "--scale=1e999",
        "--scale=1e39",
        "--tolerance=-1",
        "--tolerance=inf",
        "--dropout=2",
        "--dropout=0.5",
        "--seed=-1",
        "--prefix=encoder.",
        "--fused=maybe",
    ] {
        sentences.refused(flag, &folder, &["run", CASE, flag]);
    }
    for (flag, value) in [("--num-heads", "-4"), ("--window", "-1"), ("--seed", "-1"), ("--tolerance", "-1")] {
        sentences.refused(&format!("{flag} {value}"), &folder, &["run", CASE, flag, value]);
    }
    insta::assert_snapshot!(sentences);
}

#[test]
fn command_lines_that_cannot_be_are_refused_in_one_line() {
    let folder = folder();
    let mut sentences = Sentences::default();
    let mut refused = |arguments: &[&str]| {
        let what = if arguments.is_empty() { "nothing" } else { &arguments.join(" ") };
        let sentence = folder.run(arguments).sentence(2);
        sentences.note(what, &sentence);
    };
    refused(&["run"]);
    refused(&["check"]);
    refused(&["plan"]);
    refused(&["attend", CASE]);
    refused(&["chekc", CASE]);
    refused(&["run", CASE, "more"]);
    refused(&["run", CASE, "--casual"]);
    refused(&["run", CASE, "--causal", "false"]);
    refused(&["check", "--causal", "true", CASE]);
    refused(&["run", CASE, "--with-weights"]);
    refused(&["run", CASE, "--batch-entry", "1"]);
    refused(&["run", CASE, "--batch-entry=-1", "--maps", "maps.png"]);
    refused(&["run", CASE, "--output"]);
    refused(&["run", CASE, "--device", ""]);
    refused(&["check", CASE, "-o", "out"]);
    refused(&["devices", "--device", "cpu"]);
    insta::assert_snapshot!(sentences);
}

#[test]
fn a_batch_entry_that_is_not_there_is_refused() {
    let folder = folder();
    let mut sentences = Sentences::default();
    let maps = ["run", CASE, "-o", "out", "--maps", "maps.png"];
    for entry in ["2", "18446744073709551615"] {
        sentences.refused(&format!("entry {entry} of 2"), &folder, &[&maps[..], &["--batch-entry", entry]].concat());
    }
    folder.on_cpu(&[&maps[..], &["--batch-entry", "1"]].concat()).done();
    let empty = Folder::with_case(&CaseFile::new(r#"{"num_heads":4}"#).random("query", &[0, 2, 12]));
    sentences.refused("entry 0 of 0", &empty, &maps);
    insta::assert_snapshot!(sentences);
}

#[test]
fn pictures_that_cannot_be_drawn_are_refused() {
    let mut sentences = Sentences::default();
    let mut refused = |what: &str, case: &CaseFile| {
        sentences.refused(what, &Folder::with_case(case), &["run", CASE, "-o", "out", "--maps", "maps.png"]);
    };
    let tokens = |tokens: &str| {
        let case = CaseFile::new(r#"{"num_heads":1}"#).random("query", &[2, 2, 1]);
        case.metadata("tokens", tokens)
    };
    refused("fewer tokens than queries", &tokens(r#"[["a"],["b","c"]]"#));
    refused("more tokens than queries", &tokens(r#"[["a","b","c"]]"#));
    refused("too many queries", &CaseFile::new(r#"{"num_heads":1}"#).random("query", &[1, 2100, 1]));
    insta::assert_snapshot!(sentences);
    for legal in [r#"[["a","b"]]"#, "[[],[]]", "[]"] {
        Folder::with_case(&tokens(legal)).on_cpu(&["run", CASE, "--maps", "maps.svg"]).done();
    }
}

/// The tokens label the keys too, and the key that the layer learned comes after them.
#[test]
fn a_learned_key_is_drawn_after_the_tokens() {
    let case = CaseFile::new(r#"{"num_heads":1}"#).random("query", &[1, 2, 2]).projections("", [[2, 2]; 4]);
    let case = case.random("bias_k", &[1, 1, 2]).random("bias_v", &[1, 1, 2]).metadata("tokens", r#"[["ab","cd"]]"#);
    let folder = Folder::with_case(&case);
    folder.on_cpu(&["run", CASE, "--maps", "maps.svg"]).done();
    let picture = std::fs::read_to_string(folder.path("maps.svg")).expect("the picture should be there");
    assert!(["ab", "cd", "bias_k"].iter().all(|label| picture.contains(&format!(">{label}<"))), "{picture}");
}

#[test]
fn a_check_without_an_answer_is_refused() {
    let folder = Folder::with_case(&CaseFile::new(r#"{"num_heads":4}"#).random("query", &[2, 2, 12]));
    let mut sentences = Sentences::default();
    sentences.refused("no answer", &folder, &["check", CASE]);
    insta::assert_snapshot!(sentences);
}
