//! `multihead run --profile`: what each dispatch took, as a table, as JSON, as a trace.

use serde_json::Value;

use crate::cases::CaseFile;
use crate::program::{CASE, Folder};

fn folder() -> Folder {
    Folder::with_case(&CaseFile::new(r#"{"num_heads":2}"#).random("query", &[1, 3, 4]))
}

#[test]
fn a_profile_is_a_table_with_a_line_for_each_dispatch() {
    let told = folder().on_cpu(&["run", CASE, "--profile"]).done();
    let (_, profile) = told.split_once("\nprofile     wall time, each dispatch alone\n\n").unwrap();
    let first_words: Vec<Vec<&str>> = profile.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(first_words[0], ["op", "kernel", "output", "ms"]);
    assert_eq!(first_words[1], ["1", "transpose_qkv", "reference", "q_heads"]);
    assert_eq!((first_words.len(), first_words[8][0]), (9, "all"), "{told}");
    assert!(profile.lines().skip(1).take(7).all(|line| line.ends_with('%')), "{told}");
}

#[test]
fn a_profile_is_part_of_the_json() {
    let folder = folder();
    let report: Value = serde_json::from_str(&folder.on_cpu(&["run", CASE, "--profile", "--json"]).done()).unwrap();
    let profile = &report["profile"];
    assert_eq!(profile["clock"], "host");
    let steps = profile["steps"].as_array().unwrap();
    assert_eq!(Some(steps.len() as u64), report["dispatches"].as_u64());
    let sum = |key: &str| steps.iter().map(|step| step[key].as_f64().unwrap()).sum::<f64>();
    assert!((sum("share") - 1.0).abs() < 1e-9 && (sum("ms") - profile["total_ms"].as_f64().unwrap()).abs() < 1e-6);
    let without: Value = serde_json::from_str(&folder.on_cpu(&["run", CASE, "--json"]).done()).unwrap();
    assert!(without.get("profile").is_none());
}

#[test]
fn a_trace_is_a_file_of_events() {
    let folder = folder();
    let told = folder.on_cpu(&["run", CASE, "--profile-trace", "trace.json"]).done();
    assert!(told.contains("wrote       trace.json\n") && !told.contains("nothing was written"), "{told}");
    let trace: Value = serde_json::from_slice(&std::fs::read(folder.path("trace.json")).unwrap()).unwrap();
    assert_eq!(trace["traceEvents"].as_array().unwrap().len(), 8, "a name and seven nodes");
    // As every file that a run writes, it is checked before anything is computed.
    let refused = folder.on_cpu(&["run", CASE, "--profile-trace", CASE]);
    assert_eq!(refused.sentence(2), "case.safetensors: the trace would replace the case; give it another path");
}
