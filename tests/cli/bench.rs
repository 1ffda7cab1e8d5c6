//! `multihead bench`: verified figures, one object a line.

use serde_json::Value;

use crate::program::Folder;

#[test]
fn a_scenario_reports_the_keys_of_the_convention_and_is_right() {
    let folder = Folder::new();
    let stdout = folder.run(["bench", "--only", "L", "--json"]).done();
    let line: Value = serde_json::from_str(&stdout).unwrap();
    let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = [
        "allowed_error",
        "cold_ms",
        "device",
        "dispatches",
        "gflops",
        "max_error",
        "median_ms",
        "peak_bytes",
        "record_us",
        "scenario",
        "spread_ms",
        "variant",
        "with_io_ms",
    ];
    assert_eq!(keys, expected);
    assert_eq!(line["scenario"], "L");
    // Infinities and NaN are null in JSON.
    assert!(line["max_error"].as_f64().is_some_and(|error| error < 1e-5), "{line}");
    assert!(line["max_error"].as_f64() <= line["allowed_error"].as_f64(), "{line}");
    assert!(line["median_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_first_result_of_a_process_is_of_one_scenario() {
    let folder = Folder::new();
    let stdout = folder.run(["bench", "--only", "L", "--once", "--json"]).done();
    let line: Value = serde_json::from_str(&stdout).unwrap();
    let keys: Vec<&str> = line.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["allowed_error", "device", "first_ms", "max_error", "scenario"]);
    assert!(line["first_ms"].as_f64().unwrap() > 0.0 && line["max_error"].as_f64().unwrap() < 1e-5, "{line}");
    insta::assert_snapshot!(folder.run(["bench", "--only", "H", "--once"]).sentence(2), @"--once is about the first result of a process, so about one scenario, not 7; name it with --only");
}

/// A peer that answers with zeros, and one whose answer is no number: a row that failed, and the command too.
#[test]
#[cfg(unix)]
fn a_peer_that_computes_wrongly_fails_the_command() {
    let folder = Folder::new();
    for (wrong, max_error) in [(0.0, true), (f32::NAN, false)] {
        let zeros = multihead::HostTensor::new([1, 8, 64], vec![wrong; 512]).unwrap();
        multihead::io::write_tensors(folder.path("wrong"), &[("output", &zeros)], &[]).unwrap();
        let script = r#"read question; answer=${question##*:\"}; cp wrong "${answer%%\"*}"; echo '"ready"'; read rest"#;
        std::fs::write(folder.path("peer.sh"), script).unwrap();
        let ended = folder.run(["bench", "--only", "L", "--json", "--peer", "zeros=sh peer.sh"]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let line: Value = serde_json::from_str(&ended.stdout).unwrap();
        let said = &line["peers"]["zeros"]["wrong"];
        assert_eq!(said["max_error"].is_f64(), max_error, "{line}");
        assert!(said["allowed_error"].as_f64().unwrap() < 1e-5, "{line}");
    }
}

#[test]
fn a_peer_that_ends_is_a_sentence() {
    let folder = Folder::new();
    let sentence = folder.run(["bench", "--only", "L", "--json", "--peer", "short=cargo --version"]).sentence(2);
    assert!(sentence.contains("the peer short"), "{sentence}");
}

#[test]
fn a_scenario_that_does_not_exist_and_the_cpu_are_refused() {
    let folder = Folder::new();
    insta::assert_snapshot!(folder.run(["bench", "--only", "Z"]).sentence(2), @r#"there is no scenario "Z"; there are P1, P2, P3, C/full, C/causal, H/1, H/2, H/4, H/8, H/16, H/32, H/64, X, G/uncached, L, W, G, matmul/512, matmul/1024, M"#);
    insta::assert_snapshot!(folder.run(["bench", "--device", "cpu"]).sentence(2), @"bench times a GPU's kernels; name an adapter with --device, `multihead devices` lists them");
}
