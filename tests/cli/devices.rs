//! On the default adapter, which must exist; and what happens where none does.

use serde_json::Value;

use crate::cases::CaseFile;
#[cfg(target_os = "linux")]
use crate::program::Ended;
use crate::program::{CASE, Folder};

fn case() -> CaseFile {
    CaseFile::new(r#"{"num_heads":1}"#)
        .floats("query", &[1, 2, 1], &[0.0; 2])
        .floats("value", &[1, 2, 1], &[1.0, 3.0])
        .floats("expected.output", &[1, 2, 1], &[2.0, 2.0])
}

/// Runs the program where the Vulkan loader finds no driver.
#[cfg(target_os = "linux")]
fn without_drivers(folder: &Folder, arguments: &[&str]) -> Ended {
    let mut command = folder.command(arguments);
    command.env("VK_DRIVER_FILES", "/nowhere").env("VK_ICD_FILENAMES", "/nowhere");
    Ended::of(&command.output().unwrap())
}

#[test]
fn every_adapter_is_listed_in_json() {
    let ended = Folder::new().run(["devices", "--json"]);
    assert_eq!(ended.code, Some(0));
    assert!(!ended.stdout.is_empty(), "these tests need an adapter: {ended:?}");
    for line in ended.stdout.lines() {
        let adapter: Value = serde_json::from_str(line).unwrap();
        let keys: Vec<&String> = adapter.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["backend", "driver", "features", "limits", "name", "subgroup", "type"]);
        assert_eq!(adapter["subgroup"].as_array().unwrap().len(), 2);
    }
}

#[test]
fn every_adapter_is_listed_for_a_reader() {
    let folder = Folder::new();
    let adapters = folder.run(["devices", "--json"]).stdout;
    let told = folder.run(["devices"]).stdout;
    for line in adapters.lines() {
        let adapter: Value = serde_json::from_str(line).unwrap();
        assert!(told.contains(adapter["name"].as_str().unwrap()), "{told}");
    }
    assert!(told.ends_with("\ncpu\n  built in, always there: --device cpu\n"), "{told}");
}

#[test]
fn the_default_adapter_computes_and_is_named() {
    let folder = Folder::with_case(&case());
    let report: Value = serde_json::from_str(&folder.run(["run", CASE, "--json"]).stdout).unwrap();
    let name = report["device"].as_str().unwrap();
    assert_ne!(name, "cpu", "these tests need an adapter");
    assert_eq!(folder.run(["check", CASE, "--device", name]).code, Some(0));
    assert_eq!(folder.run(["check", CASE, "--device", &name.to_uppercase()]).code, Some(0));
    let wrong = Folder::with_case(&case().floats("expected.output", &[1, 2, 1], &[2.0, 2.04]));
    assert_eq!(wrong.run(["check", CASE]).code, Some(1));
}

#[test]
fn every_choice_of_kernel_is_accepted() {
    let weights = case().floats("expected.attention_weights", &[1, 1, 2, 2], &[0.5; 4]);
    let folder = Folder::with_case(&weights);
    for fused in ["on", "off", "auto"] {
        assert_eq!(folder.run(["check", CASE, "--fused", fused]).code, Some(0), "{fused}");
    }
}

#[test]
fn an_adapter_that_does_not_exist_is_exit_code_3() {
    let folder = Folder::with_case(&case());
    for command in ["run", "check", "plan"] {
        let ended = folder.run([command, CASE, "--device", "no-such-adapter"]);
        let lines: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("no-such-adapter")).collect();
        assert_eq!((ended.code, lines.len(), ended.stdout.as_str()), (Some(3), 1, ""), "{ended:?}");
        assert!(lines[0].starts_with("error: no usable GPU adapter named \"no-such-adapter\": found \""), "{lines:?}");
        assert!(lines[0].ends_with("or compute on the CPU with --device cpu"), "{lines:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn without_a_driver_the_cpu_computes_and_says_so() {
    let folder = Folder::with_case(&case());
    for command in ["run", "check"] {
        let ended = without_drivers(&folder, &[command, CASE, "--json"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(report["device"], "cpu");
        insta::allow_duplicates! { insta::assert_snapshot!(ended.stderr, @"warning: no usable GPU adapter: none was found; computing on the CPU"); }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn without_a_driver_a_named_adapter_is_refused() {
    let folder = Folder::with_case(&case());
    insta::assert_snapshot!(without_drivers(&folder, &["run", CASE, "--device", "llvmpipe"]).sentence(3), @r#"no usable GPU adapter named "llvmpipe": none was found; install a driver (Debian, Ubuntu: apt-get install mesa-vulkan-drivers libvulkan1), or compute on the CPU with --device cpu"#);
    insta::assert_snapshot!(without_drivers(&folder, &["devices"]).done(), @r#"
No GPU adapter was found (Debian, Ubuntu: apt-get install mesa-vulkan-drivers libvulkan1).
cpu
  built in, always there: --device cpu
"#);
    assert_eq!(without_drivers(&folder, &["devices", "--json"]).done(), "");
}

#[test]
fn bad_input_is_bad_input_on_an_adapter_too() {
    let folder = Folder::with_case(&case().integers("valid_lens", &[1], &[3]));
    let before = folder.listing();
    for command in ["run", "check", "plan"] {
        let ended = folder.run([command, CASE]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{command}: {ended:?}");
    }
    assert_eq!(folder.listing(), before);
}
