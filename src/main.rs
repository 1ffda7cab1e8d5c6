//! The `multihead` program: reads the command line, does one thing, says how it went by its exit code.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    env_logger::init();
    cli::run()
}
