//! Reading the command line, and saying in one sentence what is wrong with it.

use clap::Parser;
use clap::error::ErrorKind;

use super::args::{Arguments, Command};
use super::{Outcome, print};

/// What the command line asks for; help and faults are printed, and the outcome of that comes back.
pub(super) fn command() -> Result<Command, Outcome> {
    if let Some(value) = causal_apart() {
        let sentence = format!("--causal takes its value after an equals sign; give --causal={value}");
        print::fault(&sentence);
        return Err(Outcome::BadInput);
    }
    let error = match Arguments::try_parse() {
        Ok(arguments) => return Ok(arguments.command),
        Err(error) => error,
    };
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            // Whoever closed the other end has read enough.
            let _ = error.print();
            Err(Outcome::Done)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            Err(Outcome::BadInput)
        }
        _ => {
            print::fault(&sentence(&error.render().to_string()));
            Err(Outcome::BadInput)
        }
    }
}

/// The value of `--causal false`, written as two words. `--causal` alone is true, and the other word would be taken for a
/// file, so that clap sees nothing wrong with it.
fn causal_apart() -> Option<String> {
    let words: Vec<_> = std::env::args_os().collect();
    let pairs = words.windows(2).filter(|pair| pair[0] == "--causal");
    let mut values = pairs.filter_map(|pair| pair[1].to_str());
    values.find(|value| ["true", "false"].contains(value)).map(str::to_owned)
}

/// clap's paragraphs as one line: what is wrong, what is near, and where the help is.
fn sentence(rendered: &str) -> String {
    let said = rendered.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let (usage, said): (Vec<String>, Vec<String>) =
        said.filter(|paragraph| !paragraph.starts_with("For more")).partition(|text| text.starts_with("Usage:"));
    let said: Vec<&str> =
        said.iter().map(|text| text.trim_start_matches("error: ").trim_start_matches("tip: ")).collect();
    let command: Vec<&str> = usage
        .iter()
        .flat_map(|usage| usage.split(' ').skip(1))
        .take_while(|word| word.starts_with(char::is_lowercase))
        .collect();
    let help = if command.is_empty() { String::new() } else { format!("; see `{} --help`", command.join(" ")) };
    said.join("; ") + &help
}
