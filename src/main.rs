//! The `multihead` program: reads the command line, does one thing, says how it went by its exit code.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    // Silent unless RUST_LOG says otherwise; what users need to know comes as one sentence.
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("off")).init();
    cli::run()
}
