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
    // Beyond the yardstick it would be infinite, which JSON has as null.
    assert!(line["max_error"].as_f64().is_some_and(|error| error < 1e-5), "{line}");
    assert!(line["median_ms"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_scenario_that_does_not_exist_and_the_cpu_are_refused() {
    let folder = Folder::new();
    insta::assert_snapshot!(folder.run(["bench", "--only", "Z"]).sentence(2), @r#"there is no scenario "Z"; there are P1, P2, P3, C/full, C/causal, H/1, H/2, H/4, H/8, H/16, H/32, H/64, X, G/uncached, L, W, G, matmul/512, matmul/1024, M"#);
    insta::assert_snapshot!(folder.run(["bench", "--device", "cpu"]).sentence(2), @"bench times a GPU's kernels; name an adapter with --device, `multihead devices` lists them");
}
