//! What the program says about itself.

use crate::program::{Ended, Folder};

fn help(arguments: &[&str]) -> String {
    Folder::new().run(arguments).done()
}

#[test]
fn no_arguments_show_the_help() {
    let Ended { code, stdout, stderr } = Folder::new().run([""; 0]);
    assert_eq!((code, stdout.as_str()), (Some(2), ""));
    assert_eq!(stderr, help(&["-h"]));
}

#[test]
fn the_version_is_that_of_the_crate() {
    assert_eq!(help(&["--version"]), format!("multihead {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_program_explains_itself() {
    insta::assert_snapshot!(help(&["--help"]));
}

#[test]
fn run_explains_itself() {
    insta::assert_snapshot!(help(&["run", "--help"]));
}

#[test]
fn check_explains_itself() {
    insta::assert_snapshot!(help(&["check", "--help"]));
}

#[test]
fn plan_explains_itself() {
    insta::assert_snapshot!(help(&["plan", "--help"]));
}

#[test]
fn experiment_explains_itself() {
    insta::assert_snapshot!(help(&["experiment", "--help"]));
}

#[test]
fn each_experiment_explains_itself() {
    let names = ["copy-both", "shapes", "heads-are-free", "alignment", "self-and-cross", "grouped-query"];
    let helps: Vec<String> = names.iter().map(|name| help(&["experiment", name, "--help"])).collect();
    insta::assert_snapshot!(helps.join("\n"));
}

#[test]
fn heads_explains_itself() {
    insta::assert_snapshot!(help(&["heads", "--help"]));
}

#[test]
fn devices_explains_itself() {
    insta::assert_snapshot!(help(&["devices", "--help"]));
}

#[test]
fn both_ways_to_ask_give_the_same_help() {
    assert_eq!(help(&["help", "run"]), help(&["run", "--help"]));
    assert_ne!(help(&["run", "--help"]), help(&["check", "--help"]));
}
