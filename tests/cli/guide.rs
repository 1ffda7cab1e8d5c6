//! The guide's outputs are the program's, on the CPU and on the adapter.
//!
//! `GUIDE=update cargo nextest run --test cli guide` writes what the program prints on the CPU into the guide; blocks
//! with a line "…", which stands for lines left out, are left to a person.

use std::path::Path;
use std::process::Command;

use crate::help::experiments;
use crate::program::Ended;

const GUIDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/guide.md");

/// What stands for lines that the guide leaves out.
const LEFT_OUT: &str = "…";

/// A command of the guide with what it says the program prints.
struct Block {
    arguments: Vec<String>,
    output: String,
}

/// Fenced blocks that begin with the program's name.
fn blocks(guide: &str) -> Vec<Block> {
    let fenced = guide.split("```").skip(1).step_by(2);
    let commands = fenced.filter_map(|block| block.strip_prefix("text\n$ multihead "));
    let split = |block: &str| {
        let (command, output) = block.split_once('\n').unwrap();
        Block { arguments: command.split(' ').map(str::to_owned).collect(), output: output.into() }
    };
    commands.map(split).collect()
}

fn run(arguments: &[String], device: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_multihead"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    command.args(arguments).args(["--device", device]).current_dir(root).env_remove("RUST_LOG");
    let ended = Ended::of(&command.output().unwrap());
    assert_eq!(ended.code, Some(0), "{arguments:?} on {device}: {ended:?}");
    ended.stdout
}

/// The text with measured times and the device's name left out.
fn without_times(text: &str) -> String {
    let masked = |line: &str| match (line.split_once(" runs on "), line.strip_suffix(" ms")) {
        (Some((before, _)), _) => format!("{before} runs on …"),
        (None, Some(row)) => row.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.').to_owned(),
        (None, None) => line.to_owned(),
    };
    text.lines().map(masked).collect::<Vec<_>>().join("\n")
}

/// Whether `told` is `printed` or, where it leaves lines out, parts of it in their order.
fn agree(told: &str, printed: &str) -> bool {
    let (told, printed) = (without_times(told), without_times(printed));
    let told: Vec<&str> = told.lines().collect();
    let printed: Vec<&str> = printed.lines().collect();
    if !told.contains(&LEFT_OUT) {
        return told == printed;
    }
    let mut rest = printed.as_slice();
    for part in told.split(|line| *line == LEFT_OUT).filter(|part| !part.is_empty()) {
        let Some(start) = rest.windows(part.len()).position(|lines| lines == part) else { return false };
        rest = &rest[start + part.len()..];
    }
    true
}

#[test]
fn every_output_of_the_guide_is_what_the_program_prints() {
    let guide = std::fs::read_to_string(GUIDE).unwrap();
    if std::env::var_os("GUIDE").is_some_and(|wish| wish == "update") {
        return update(&guide);
    }
    let blocks = blocks(&guide);
    assert!(blocks.len() >= 9);
    for Block { arguments, output } in &blocks {
        for device in ["cpu", "auto"] {
            let printed = run(arguments, device);
            assert!(agree(output, &printed), "{arguments:?} on {device}: the guide says\n{output}\nand not\n{printed}");
        }
    }
}

fn update(guide: &str) {
    let mut updated = guide.to_owned();
    for Block { arguments, output } in blocks(guide) {
        if output.lines().any(|line| line == LEFT_OUT) {
            continue;
        }
        let command = format!("$ multihead {}\n", arguments.join(" "));
        updated = updated.replace(&format!("{command}{output}```"), &format!("{command}{}```", run(&arguments, "cpu")));
    }
    std::fs::write(GUIDE, updated).unwrap();
}

#[test]
fn every_experiment_is_in_the_guide() {
    let blocks = blocks(&std::fs::read_to_string(GUIDE).unwrap());
    let told = |words: &[&str]| blocks.iter().any(|block| block.arguments.iter().take(words.len()).eq(words));
    let names = experiments();
    assert!(names.len() >= 6, "{names:?}");
    for name in names {
        assert!(told(&["experiment", &name]), "{name}");
    }
    assert!(told(&["heads"]));
}

/// The comparison can fail.
#[test]
fn another_number_is_noticed_and_another_time_is_not() {
    assert!(agree("width 256  12.345 ms\n", "width 256  9.1 ms\n"));
    assert!(!agree("width 256  12.345 ms\n", "width 257  12.345 ms\n"));
    assert!(!agree("0.7071\n", "0.7072\n"));
    assert!(!agree("a\n", "a\nb\n"));
    assert!(agree("a\n…\nc\n", "a\nb\nc\n") && agree("…\nb\n…\n", "a\nb\nc\n"));
    assert!(!agree("c\n…\na\n", "a\nb\nc\n") && !agree("a\n…\nd\n", "a\nb\nc\n"));
}
