//! `--tune`: nothing but a sentence where there is nothing to gain.

use std::path::PathBuf;

use multihead::{Device, DeviceChoice};

use crate::cases::CaseFile;
use crate::program::{CASE, Ended, Folder};

/// Runs with the test's folder for what each system calls the user's.
fn run(folder: &Folder, arguments: &[&str]) -> Ended {
    let mut command = folder.command(arguments);
    for name in ["HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"] {
        command.env(name, folder.path("user"));
    }
    Ended::of(&command.output().unwrap())
}

/// What the program remembered, wherever below the folder: drivers may have caches there too.
fn remembered(folder: &Folder) -> Vec<PathBuf> {
    let inside = |path: PathBuf| path.strip_prefix(folder.path("")).unwrap().to_owned();
    let is_ours = |path: &PathBuf| path.iter().any(|name| name == "multihead" || name == "tiles.json");
    folder.listing().into_iter().map(|(path, _)| inside(path)).filter(is_ours).collect()
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
    assert_eq!(remembered(folder), Vec::<PathBuf>::new());
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

#[test]
fn a_run_tells_tuning_from_compiling() {
    let folder = Folder::with_case(&CaseFile::new(r#"{"num_heads":2}"#).random("query", &[1, 3, 4]));
    for (switch, expected) in [
        ("on", &["compile", "gpu", "readback", "tune", "upload"][..]),
        ("off", &["compile", "gpu", "readback", "upload"]),
    ] {
        let arguments = ["run", CASE, "--device", "cpu", "--tune", switch];
        let report = run(&folder, &[&arguments[..], &["--json"]].concat()).stdout;
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        let keys: Vec<_> = report["timing_ms"].as_object().unwrap().keys().collect();
        assert_eq!(keys, expected, "{switch}");
        let told = run(&folder, &arguments).stdout;
        assert_eq!(told.contains(" ms: tune "), switch == "on", "{told}");
    }
}
