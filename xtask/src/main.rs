//! `cargo xtask demo` and `cargo xtask test`: set up what is missing, then do the work.

mod cases;
mod checks;
mod demo;
mod setup;
mod step;
mod vulkan;

use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Work on multihead itself.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Runs a real attention layer on the GPU, says what its heads do, and draws their maps.
    Demo {
        /// Passed on to the example.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Runs every check: format, lints, docs, tests, the cases on every kind of device, the demo.
    Test,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Demo { arguments } => demo::run(root(), arguments),
        Task::Test => checks::run(root()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The workspace's root, where all commands run.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask should lie in the workspace's root")
}
