//! What the program says about itself.

use crate::program::{Ended, Folder};

/// The names of all experiments, as the program lists them.
pub fn experiments() -> Vec<String> {
    let help = help(&["experiment", "--help"]);
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    // A description that does not fit goes on in lines that are indented further.
    let lines = commands.lines().map_while(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let names = lines.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

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
fn decode_explains_itself() {
    insta::assert_snapshot!(help(&["decode", "--help"]));
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
    let helps: Vec<String> = experiments().iter().map(|name| help(&["experiment", name, "--help"])).collect();
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
