//! Everything that has to hold, as a table of steps.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::step::Step;
use crate::{cases, chromium, demo, setup};

/// Every way to compute that the cases are checked in: name, arguments of `multihead check`, environment.
///
/// The vector width is that of lavapipe, Mesa's CPU adapter; its subgroups are as wide, so that kernels that depend on
/// the subgroup size run with 4, 8 and 16 lanes. Other adapters ignore it.
const DEVICES: [Device<'_>; 8] = [
    Device { name: "default device", arguments: &[], environment: None },
    Device { name: "default device, fused", arguments: &["--fused", "on"], environment: None },
    Device { name: "default device, rewriting nothing", arguments: &["--rewrite", "off"], environment: None },
    Device { name: "built-in CPU device", arguments: &["--device", "cpu"], environment: None },
    Device {
        name: "strict WebGPU compliance",
        arguments: &[],
        environment: Some(("WGPU_STRICT_WEBGPU_COMPLIANCE", "1")),
    },
    Device { name: "128-bit lavapipe", arguments: &[], environment: Some(("LP_NATIVE_VECTOR_WIDTH", "128")) },
    Device { name: "256-bit lavapipe", arguments: &[], environment: Some(("LP_NATIVE_VECTOR_WIDTH", "256")) },
    Device { name: "512-bit lavapipe", arguments: &[], environment: Some(("LP_NATIVE_VECTOR_WIDTH", "512")) },
];

/// The tests of what a GPU computes, but for the cases, which are checked on each device anyway.
const KERNELS_AND_LAYERS: [&str; 4] =
    ["nextest", "run", "--filterset", "binary(/^(ops|layers|cache|dropout)$/) and not test(/^cases_/)"];

#[derive(Clone, Copy, Debug)]
struct Device<'a> {
    name: &'a str,
    arguments: &'a [&'a str],
    environment: Option<(&'a str, &'a str)>,
}

/// Sets up what is missing, then runs every step and stops at the first that fails.
///
/// # Errors
/// When something is missing and cannot be set up, or a step fails.
pub(crate) fn run(root: &Path) -> Result<()> {
    setup::for_tests(root)?;
    demo::make_output_folder(root)?;
    let cases = cases::find(root)?;
    let steps = steps(&cases, chromium::swiftshader()?.as_deref())?;
    let mut times = Vec::new();
    for step in &steps {
        times.push((step.name.as_str(), step.run(root)?));
    }
    print_times(&times);
    Ok(())
}

/// `swiftshader` is the driver's description, where there is one.
fn steps(cases: &[String], swiftshader: Option<&Path>) -> Result<Vec<Step>> {
    let mut steps = vec![
        Step::cargo("format", ["fmt", "--all", "--", "--check"]),
        Step::cargo("lints", ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
        Step::cargo("lints of the lean library", ["clippy", "--no-default-features", "--lib", "--", "-D", "warnings"]),
        Step::cargo("documentation", ["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"),
        Step::cargo("tests", ["nextest", "run", "--workspace", "--exclude", "multihead-bindings"]),
        Step::cargo("tests in the documentation", ["test", "--doc"]),
        Step::cargo("release build", ["build", "--release", "--bin", "multihead"]),
    ];
    steps.extend(DEVICES.map(|device| check(device, cases)));
    match swiftshader.map(Path::to_string_lossy) {
        Some(driver) => {
            let environment = Some(("VK_DRIVER_FILES", driver.as_ref()));
            steps.push(check(Device { name: "SwiftShader", arguments: &[], environment }, cases));
            steps.push(
                Step::cargo("kernels and layers, SwiftShader", KERNELS_AND_LAYERS).env("VK_DRIVER_FILES", &driver),
            );
        }
        None => println!("No cases on SwiftShader: this system's GPU programs use no Vulkan loader to name it to."),
    }
    for (name, task) in [
        ("package and page", "web"),
        ("package in Node", "package"),
        ("package in a browser", "browser"),
        ("page in a browser", "page"),
        ("Tint", "tint"),
        ("Windows and macOS", "platforms"),
    ] {
        steps.push(Step::this_program(name, [task])?);
    }
    // What would be published builds by itself. Whether the work tree is clean is another matter.
    steps.push(Step::cargo("package", ["package", "--package", "multihead", "--allow-dirty"]));
    steps.push(demo::step(Vec::new()));
    Ok(steps)
}

fn check(device: Device<'_>, cases: &[String]) -> Step {
    let command = ["run", "--release", "--quiet", "--bin", "multihead", "--", "check"];
    let words = command.iter().chain(device.arguments).map(ToString::to_string);
    let name = format!("{} cases, {}", cases.len(), device.name);
    let step = Step::cargo(name, words.chain(cases.iter().cloned()));
    match device.environment {
        Some((variable, value)) => step.env(variable, value),
        None => step,
    }
}

fn print_times(times: &[(&str, Duration)]) {
    println!("\nAll checks passed:");
    for (name, time) in times {
        println!("{:>9.1} s  {name}", time.as_secs_f64());
    }
    let total: Duration = times.iter().map(|(_, time)| *time).sum();
    println!("{:>9.1} s  in all", total.as_secs_f64());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_checks_every_case() {
        let cases = ["tests/cases/a.safetensors".to_owned(), "examples/data/b.safetensors".to_owned()];
        let lines: Vec<String> =
            steps(&cases, Some(Path::new("/lib/icd.json"))).expect("steps").iter().map(ToString::to_string).collect();
        let checks: Vec<&String> = lines.iter().filter(|line| line.contains(" check ")).collect();
        assert_eq!(checks.len(), DEVICES.len() + 1);
        for line in checks {
            assert!(cases.iter().all(|case| line.contains(case.as_str())), "{line}");
        }
        assert!(lines.iter().any(|line| line.starts_with("LP_NATIVE_VECTOR_WIDTH=512 ")));
        assert!(lines.iter().any(|line| line.contains("-- check --device cpu ")));
        assert!(lines.iter().any(|line| line.starts_with("VK_DRIVER_FILES=/lib/icd.json ")));
    }

    #[test]
    fn warnings_fail() {
        let lines: Vec<String> = steps(&[], None).expect("steps").iter().map(ToString::to_string).collect();
        for tool in [" clippy ", " doc "] {
            let mut of_tool = lines.iter().filter(|line| line.contains(tool)).peekable();
            assert!(of_tool.peek().is_some());
            assert!(of_tool.all(|line| line.contains("-D warnings")), "{tool}");
        }
    }
}
