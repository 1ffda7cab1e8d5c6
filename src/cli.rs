//! The command line: each command in a file of its own, through the library's public API only.

mod args;
mod bench;
mod cache_folder;
mod check;
mod decode;
mod devices;
mod experiment;
mod heads;
mod outputs;
mod plan;
mod print;
mod profile;
mod progress;
mod run;
mod show;
mod tune;
mod usage;

use std::process::ExitCode;

use multihead::{CpuReason, Device, DeviceChoice, Error};

use args::Command;

/// How a command ended, as its exit code; the worst of several is the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    Done = 0,
    Differs = 1,
    BadInput = 2,
    NoDevice = 3,
}

impl Outcome {
    fn of(error: &Error) -> Self {
        if error.is_device_fault() { Self::NoDevice } else { Self::BadInput }
    }
}

/// Parses the command line, runs the command, prints what went wrong.
pub(crate) fn run() -> ExitCode {
    let command = match usage::command() {
        Ok(command) => command,
        Err(outcome) => return ExitCode::from(outcome as u8),
    };
    if let Err(error) = ctrlc::set_handler(interrupted) {
        log::warn!("an interruption would leave a temporary file behind: {error}");
    }
    let result = pollster::block_on(async {
        match command {
            Command::Run(arguments) => run::run(&arguments).await,
            Command::Check(arguments) => check::check(&arguments).await,
            Command::Plan(arguments) => plan::plan(&arguments).await,
            Command::Decode(arguments) => decode::decode(&arguments).await,
            Command::Bench(arguments) => bench::bench(&arguments).await,
            Command::Experiment(experiment) => experiment::experiment(&experiment).await,
            Command::Heads(arguments) => heads::heads(&arguments).await,
            Command::Devices(arguments) => devices::devices(&arguments).await,
        }
    });
    let outcome = result.unwrap_or_else(|error| {
        print::error(&error);
        Outcome::of(&error)
    });
    ExitCode::from(outcome as u8)
}

/// Ends the program as a shell expects of one that was interrupted, without a half-written file.
fn interrupted() {
    const INTERRUPTED: i32 = 130;
    multihead::io::remove_unfinished();
    std::process::exit(INTERRUPTED);
}

/// Opens the device that was asked for; falling back to the CPU is said, not done in silence.
async fn open(choice: &DeviceChoice) -> Result<Device, Error> {
    let device = Device::open(choice).await?;
    if let Device::Cpu(CpuReason::NoGpu(reason)) = &device {
        // The error's own advice is for those who asked for a GPU.
        let reason = match reason {
            Error::NoAdapter { wanted, found, .. } => format!("no usable GPU adapter{wanted}: {found}"),
            other => other.to_string(),
        };
        print::warning(&format!("{reason}; computing on the CPU"));
    }
    Ok(device)
}
