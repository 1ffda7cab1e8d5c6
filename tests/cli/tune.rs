//! `--tune`: nothing but a sentence where there is nothing to gain.

use multihead::{Device, DeviceChoice};

use crate::cases::CaseFile;
use crate::program::{CASE, Ended, Folder};

/// Runs with a cache folder of the test's.
fn run(folder: &Folder, arguments: &[&str]) -> Ended {
    let mut command = folder.command(arguments);
    command.env("XDG_CACHE_HOME", folder.path("cache")).env("LOCALAPPDATA", folder.path("cache"));
    Ended::of(&command.output().unwrap())
}

/// What was said beside the answer, which is that of a program that is not asked to tune.
fn said(folder: &Folder, arguments: &[&str]) -> String {
    let without_times = |stdout: &str| {
        let lines = stdout.lines().filter(|line| !line.starts_with("time ") && !line.starts_with("L  "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let plain = run(folder, arguments);
    assert_eq!((plain.code, plain.stderr.as_str()), (Some(0), ""), "{plain:?}");
    let off = run(folder, &[arguments, &["--tune", "off"]].concat());
    let on = run(folder, &[arguments, &["--tune", "on"]].concat());
    assert_eq!((off.code, off.stderr.as_str(), on.code), (Some(0), "", Some(0)), "{on:?}");
    for ended in [&off, &on] {
        assert_eq!(without_times(&ended.stdout), without_times(&plain.stdout));
    }
    assert!(!folder.path("cache/multihead").exists(), "nothing is remembered");
    on.stderr
}

#[test]
fn where_the_cpu_computes_it_changes_nothing_and_says_so() {
    let folder = Folder::with_case(&CaseFile::new(r#"{"num_heads":2}"#).random("query", &[1, 3, 4]));
    let Device::Gpu(gpu) = pollster::block_on(Device::open(&DeviceChoice::Auto)).unwrap() else {
        panic!("these tests need an adapter; see README.md")
    };
    let on_cpu = gpu.profile().kind == multihead::AdapterKind::Cpu;
    for command in [&["run", CASE][..], &["plan", CASE], &["bench", "--only", "L"]] {
        let devices = if command[0] == "bench" { &["auto"][..] } else { &["cpu", "auto"] };
        for &device in devices.iter().filter(|&&device| device == "cpu" || on_cpu) {
            let sentence = said(&folder, &[command, &["--device", device]].concat());
            let name = if device == "cpu" { "cpu" } else { &gpu.profile().name };
            let reason =
                "which computes on the CPU: compiling what would be measured takes longer than the fastest saves";
            assert_eq!(sentence, format!("warning: --tune on changes nothing on {name}, {reason}\n"), "{command:?}");
        }
    }
}
