//! `cargo xtask demo`, `cargo xtask test` and parts of it: set up what is missing, then do the work.

mod apt;
mod browser;
mod cases;
mod checks;
mod chromium;
mod demo;
mod npm;
mod package;
mod page;
mod peers;
mod platforms;
mod serve;
mod setup;
mod site;
mod step;
mod tint;
mod toolchain;
mod vulkan;
mod web;

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
    /// Runs every check: format, lints, docs, tests, the cases on every kind of device, a browser, the demo.
    Test,
    /// Builds the library for browsers, the npm package and the page, into web/dist/: static files for any server.
    Web,
    /// Serves web/dist/ on this machine.
    Serve {
        /// The port.
        #[arg(long, default_value_t = 8080)]
        port: u16,
    },
    /// Runs the package's own tests in Node, with Dawn for a GPU.
    Package,
    /// Computes cases through the package in headless Chromium, and compiles every shader there.
    Browser,
    /// Times a product in headless Chromium against the tile that textbooks have.
    Textbook,
    /// Builds the page and walks it in headless Chromium, as a visitor would.
    Page,
    /// Compiles every variant of every shader as Chrome would, with Dawn in Node.
    Tint,
    /// Times multihead, ONNX Runtime, PyTorch and burn on the same scenarios, in turn.
    Peers {
        /// Passed on to `multihead bench`: `--only P1,H`, `--json`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Type-checks library and program for Windows and macOS.
    Platforms,
}

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Demo { arguments } => demo::run(root(), arguments),
        Task::Test => checks::run(root()),
        Task::Web => web::run(root()),
        Task::Serve { port } => serve::run(root(), port),
        Task::Package => package::run(root()),
        Task::Browser => browser::run(root()),
        Task::Textbook => browser::textbook(root()),
        Task::Page => page::run(root()),
        Task::Tint => tint::run(root()),
        Task::Peers { arguments } => peers::run(root(), arguments),
        Task::Platforms => platforms::run(root()),
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
