//! The program as its users meet it: arguments and files in; exit code, stdout, stderr and files out.
//!
//! Most tests compute on the built-in CPU path; those in `devices` need an adapter, and its absence is a failure.
#![allow(unreachable_pub, reason = "a module of a test crate has nobody to be reached by")]

#[path = "../support/cases.rs"]
mod cases;
mod devices;
mod help;
mod meanings;
mod overrides;
mod program;
mod refused_flags;
mod refused_headers;
mod refused_paths;
mod refused_settings;
mod refused_tensors;
mod reports;
mod verdicts;
