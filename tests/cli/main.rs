//! The program as its users meet it: arguments and files in; exit code, stdout, stderr and files out.
//!
//! Most tests compute on the built-in CPU path; those in `devices` need an adapter, and its absence is a failure.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
#![allow(unreachable_pub, reason = "a module of a test crate has nobody to be reached by")]

mod bench;
#[path = "../support/cases.rs"]
mod cases;
mod decode;
mod devices;
mod experiments;
mod guide;
mod help;
mod meanings;
mod overrides;
mod profile;
mod program;
mod refused_flags;
mod refused_headers;
#[cfg(target_os = "linux")] // /proc, /dev/full and the system's own sentences
mod refused_paths;
mod refused_settings;
mod refused_tensors;
mod reports;
mod tune;
mod verdicts;
