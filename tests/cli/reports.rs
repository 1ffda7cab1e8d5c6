//! What `run` and `plan` tell and write when all goes well.

use multihead::io::Archive;
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use crate::cases::CaseFile;
use crate::program::{CASE, Folder};

fn golden(name: &str) -> String {
    format!("{}/tests/cases/{name}.safetensors", env!("CARGO_MANIFEST_DIR"))
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// The one JSON object on stdout.
fn object(stdout: &str) -> Value {
    assert_eq!(stdout.lines().count(), 1, "{stdout}");
    serde_json::from_str(stdout).unwrap()
}

fn small() -> CaseFile {
    CaseFile::new(r#"{"num_heads":2}"#).random("query", &[1, 3, 4]).metadata("tokens", r#"[["a","b","c"]]"#)
}

#[test]
fn a_run_reports_the_keys_of_the_convention() {
    let folder = Folder::new();
    let report = object(&folder.on_cpu(&["run", &golden("causal_33"), "--json", "-o", "out"]).done());
    assert_eq!(keys(&report), ["device", "dispatches", "max_error", "output", "timing_ms"]);
    assert_eq!(keys(&report["output"]), ["file", "shape"]);
    assert_eq!(keys(&report["timing_ms"]), ["compile", "gpu", "readback", "upload"]);
    assert_eq!((&report["device"], &report["output"]["file"]), (&"cpu".into(), &"out".into()));
    assert!(report["max_error"].as_f64().unwrap() < 1e-3);
    let without_answer = Folder::with_case(&small());
    let report = object(&without_answer.on_cpu(&["run", CASE, "--json"]).done());
    assert_eq!(keys(&report), ["device", "dispatches", "output", "timing_ms"]);
    assert_eq!(report["output"], serde_json::json!({"file": null, "shape": [1, 3, 4]}));
}

#[test]
fn a_run_tells_a_reader_what_it_did() {
    let folder = Folder::with_case(&small());
    let without_times = |arguments: &[&str]| {
        let told = folder.on_cpu(arguments).done();
        let lines: Vec<&str> = told.lines().filter(|line| !line.starts_with("time ")).collect();
        assert_eq!(lines.len() + 1, told.lines().count(), "one line about time: {told}");
        lines.join("\n")
    };
    insta::assert_snapshot!(without_times(&["run", CASE]), @r#"
device      cpu
dispatches  7
output      (1, 3, 4)
nothing was written; -o OUT.safetensors keeps the output, --maps PICTURE.png draws the heads
"#);
    insta::assert_snapshot!(without_times(&["run", CASE, "-o", "out", "--maps", "maps.svg"]), @r#"
device      cpu
dispatches  7
output      (1, 3, 4)
wrote       out
wrote       maps.svg
"#);
    let expects_more = small().random("expected.output", &[1, 4, 4]);
    expects_more.write(folder.path(CASE));
    assert!(without_times(&["run", CASE]).contains("max error   none: expected.output has shape (1, 4, 4)\n"));
}

#[test]
fn the_output_file_holds_the_answer_as_32_bit_floats() {
    let folder = Folder::new();
    for name in ["f16_weights", "llama_gqa_8_2", "torch_bias_kv", "valid_lens_per_query"] {
        for device in ["cpu", "auto"] {
            let case = golden(name);
            let ended = folder.run(["run", &case, "-o", "out", "--device", device]);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let bytes = std::fs::read(folder.path("out")).unwrap();
            let tensors = SafeTensors::deserialize(&bytes).unwrap();
            assert_eq!(tensors.names(), ["output"]);
            assert_eq!(tensors.tensor("output").unwrap().dtype(), Dtype::F32);
            let expected = Archive::open(&case).unwrap().tensor("expected.output").unwrap();
            let got = Archive::from_bytes(&bytes).unwrap().tensor("output").unwrap();
            assert_eq!(got.shape(), expected.shape());
            let close = |(got, expected): (&f32, &f32)| (got - expected).abs() <= 1e-3 * (1.0 + expected.abs());
            assert!(got.data().iter().zip(expected.data()).all(close), "{name} on {device}");
        }
    }
}

/// What is written can be put into a case as its answer, and then it passes.
#[test]
fn what_run_writes_check_confirms() {
    let folder = Folder::with_case(&small());
    folder.on_cpu(&["run", CASE, "-o", "out", "--with-weights"]).done();
    let written = Archive::open(folder.path("out")).unwrap();
    assert_eq!(written.names().collect::<Vec<_>>(), ["attention_weights", "output"]);
    let mut answered = small();
    for name in ["output", "attention_weights"] {
        let tensor = written.tensor(name).unwrap();
        answered = answered.floats(&format!("expected.{name}"), tensor.shape().axes(), tensor.data());
    }
    answered.write(folder.path(CASE));
    assert!(folder.on_cpu(&["check", CASE, "--tolerance", "0"]).done().contains("max error 0.0e0"));
    assert_eq!(folder.on_cpu(&["check", CASE, "--tolerance", "0", "--causal"]).code, Some(1));
    for row in written.tensor("attention_weights").unwrap().data().chunks(3) {
        assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6);
    }
}

#[test]
fn a_second_run_replaces_the_file_with_the_same_bytes() {
    let folder = Folder::with_case(&small());
    let first = folder.output_bytes(&["--with-weights"]);
    assert_eq!(folder.output_bytes(&["--with-weights"]), first);
    assert_ne!(folder.output_bytes(&[]), first);
    assert_eq!(folder.listing().len(), 2);
}

#[test]
fn pictures_are_drawn_in_both_formats() {
    let folder = Folder::with_case(&small());
    folder.on_cpu(&["run", CASE, "--maps", "maps.png"]).done();
    folder.on_cpu(&["run", CASE, "--maps", "maps.SVG", "--json"]).done();
    assert!(std::fs::read(folder.path("maps.png")).unwrap().starts_with(b"\x89PNG"));
    assert!(std::fs::read_to_string(folder.path("maps.SVG")).unwrap().starts_with("<svg"));
    assert_eq!(folder.listing().len(), 3);
}

#[test]
fn a_plan_reports_the_keys_of_the_convention() {
    let folder = Folder::with_case(&small().projections("", [[4, 4]; 4]));
    for device in ["cpu", "auto"] {
        let plan = object(&folder.run(["plan", CASE, "--json", "--device", device]).stdout);
        assert_eq!(keys(&plan), ["bytes", "flops", "parameters", "peak_bytes", "profile", "steps"]);
        assert_eq!(plan["parameters"].as_u64(), Some(64));
        let fused = object(&folder.run(["plan", CASE, "--json", "--device", device, "--fused", "on"]).stdout);
        assert_eq!(fused["steps"].as_array().unwrap().len(), 3);
        let without = object(&folder.run(["plan", CASE, "--json", "--device", device, "--rewrite", "off"]).stdout);
        assert_eq!(without["steps"].as_array().unwrap().len(), 11);
        for step in plan["steps"].as_array().unwrap() {
            assert_eq!(keys(step), ["inputs", "op", "output", "shape", "variant", "workgroups"]);
        }
    }
    assert_eq!(folder.listing().len(), 1);
}

#[test]
fn a_plan_tells_a_reader_what_would_be_done() {
    let folder = Folder::with_case(&small().projections("", [[4, 4]; 4]));
    insta::assert_snapshot!(folder.on_cpu(&["plan", CASE]).done());
    assert_ne!(folder.on_cpu(&["plan", CASE]).stdout, folder.on_cpu(&["plan", CASE, "--with-weights"]).stdout);
}

/// Names come from files and command lines, and may turn the text around or move the cursor.
#[cfg(unix)]
#[test]
fn no_name_steers_the_terminal() {
    const NAME: &str = "a\u{202e}b\u{1b}[2J\n\u{200b}c";
    const SHOWN: &str = "a\\u{202e}b\\u{1b}[2J\\n\\u{200b}c";
    let harmless = |text: &str| {
        text.chars().all(|letter| letter == '\n' || multihead::io::printable(&letter.to_string()).starts_with(letter))
    };
    let folder = Folder::with_case(&small());
    let path = format!("{NAME}.safetensors");
    small().floats("expected.output", &[1, 3, 4], &[9.0; 12]).write(folder.path(&path));
    let odd = small().floats(&format!("query{NAME}"), &[1], &[0.0]).floats("key", &[1], &[0.0]);
    odd.write(folder.path("odd.safetensors"));
    let commands: [&[&str]; 7] = [
        &["run", "odd.safetensors"],
        &["check", &path],
        &["check", &path, "--json"],
        &["run", CASE, "-o", NAME],
        &["run", CASE, "-o", NAME, "--json"],
        &["run", NAME],
        &["run", CASE, "--prefix", NAME],
    ];
    for command in commands {
        let ended = folder.on_cpu(command);
        assert!(harmless(&ended.stdout) && harmless(&ended.stderr), "{command:?}: {ended:?}");
        let shown = ended.stdout.contains(SHOWN) || ended.stderr.contains(SHOWN);
        let as_json = ended.stdout.contains("a\\u202eb\\u001b[2J\\n\\u200bc");
        let quiet = command.contains(&"--prefix");
        assert!(shown || as_json || quiet, "{command:?} names nothing: {ended:?}");
    }
}
