//! `multihead decode`: rows one by one against one shot.

use serde_json::Value;

use crate::cases::CaseFile;
use crate::program::{CASE, Folder};

fn causal() -> Folder {
    Folder::with_case(
        &CaseFile::new(r#"{"num_heads":4,"num_kv_heads":2,"causal":true}"#)
            .random("query", &[2, 7, 16])
            .random("key", &[2, 7, 8])
            .random("value", &[2, 7, 8]),
    )
}

#[test]
fn every_row_is_fed_and_the_answer_is_that_of_one_shot() {
    let told = causal().on_cpu(&["decode", CASE]).done();
    let words: Vec<&str> = told.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert_eq!(words, ["device", "cache", "steps", "work", "time", "ok"], "{told}");
    // Two heads of 4 words for keys and as many for values.
    assert!(told.contains("64 bytes for each token as f32, 896 in all\n"), "{told}");
    assert!(told.contains("7 of one row, after 0 in one chunk\n"), "{told}");
}

#[test]
fn what_is_told_is_json_too() {
    let folder = causal();
    let report =
        folder.on_cpu(&["decode", CASE, "--steps", "3", "--storage", "f16", "--tolerance", "0.01", "--json"]).done();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!((&report["steps"], &report["rows_before"]), (&3.into(), &4.into()));
    assert_eq!((&report["bytes_per_token"], &report["cache_bytes"]), (&32.into(), &448.into()));
    assert_eq!((&report["storage"], &report["ok"]), (&"f16".into(), &true.into()));
    assert!(report["ms_per_step"].as_f64().unwrap() > 0.0 && report["dispatches_per_step"].as_u64().unwrap() >= 4);
    // Halves are not f32: what they lose shows, and fails where it is not allowed.
    assert!(report["max_error"].as_f64().unwrap() > 1e-5, "{report}");
    // What halves may lose is added to the tolerance, unless one is asked for.
    let report: Value =
        serde_json::from_str(&folder.on_cpu(&["decode", CASE, "--storage", "f16", "--json"]).done()).unwrap();
    assert!(report["ok"].as_bool().unwrap() && report["tolerance"].as_f64().unwrap() > 1e-4, "{report}");
    let strict = folder.on_cpu(&["decode", CASE, "--storage", "f16", "--tolerance", "1e-7"]);
    assert_eq!(strict.code, Some(1), "{}", strict.stdout);
    assert!(strict.stdout.contains("FAIL  "), "{}", strict.stdout);
}

/// Four keys before the first query: they are cached, and asked for nothing.
#[test]
fn queries_may_be_the_last_of_the_rows() {
    let case = CaseFile::new(r#"{"num_heads":2,"causal":true,"query_offset":4,"window":3}"#);
    let folder = Folder::with_case(&case.random("query", &[1, 3, 6]).random("key", &[1, 7, 6]));
    let told = folder.on_cpu(&["decode", CASE, "--steps", "2"]).done();
    assert!(told.contains("2 of one row, after 5 in one chunk\n"), "{told}");
    let told = folder.run(["decode", CASE]).done();
    assert!(told.contains("ok  "), "{told}");
}

/// Two of the masks that rows by position do not have.
fn masked() -> String {
    let case = CaseFile::new(r#"{"num_heads":2,"causal":true}"#).random("query", &[1, 3, 4]).random("bias", &[3, 3]);
    Folder::with_case(&case).on_cpu(&["decode", CASE, "--dropout", "0.5", "--seed", "1"]).sentence(2)
}

/// The steps are computed as the flags say, not only the answer that they are held against.
#[test]
fn flags_of_computing_reach_the_steps() {
    let weights = ["W_q", "W_k", "W_v", "W_o"].map(|name| format!("{name}.weight"));
    let case = CaseFile::new(r#"{"num_heads":2,"causal":true}"#).random("query", &[1, 3, 8]);
    let folder = Folder::with_case(&weights.into_iter().fold(case, |case, name| case.random(&name, &[8, 8])));
    let dispatches = |rewrite| {
        let report = folder.run(["decode", CASE, "--json", "--rewrite", rewrite]).done();
        let report: Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["ok"], true, "{report}");
        report["dispatches_per_step"].as_u64().unwrap()
    };
    assert_eq!(dispatches("off"), dispatches("on") + 2, "three projections instead of one");
}

#[test]
fn what_cannot_come_row_by_row_is_refused() {
    let plain = Folder::with_case(&CaseFile::new(r#"{"num_heads":2}"#).random("query", &[1, 3, 4]));
    let mut sentences = vec![plain.on_cpu(&["decode", CASE]).sentence(2)];
    sentences.push(plain.on_cpu(&["decode", CASE, "--causal", "--query-offset", "1"]).sentence(2));
    sentences.push(plain.on_cpu(&["decode", CASE, "--causal", "--steps", "4"]).sentence(2));
    sentences.push(plain.on_cpu(&["decode", CASE, "--causal", "--steps", "0"]).sentence(2));
    sentences.push(plain.on_cpu(&["decode", CASE, "--causal", "--steps", "99999999999999999999"]).sentence(2));
    sentences.push(plain.on_cpu(&["decode", CASE, "--causal", "--steps", "x"]).sentence(2));
    sentences.push(plain.on_cpu(&["decode", CASE, "--causal", "--dropout", "0.5", "--seed", "1"]).sentence(2));
    let rows = |queries: usize, keys: usize| {
        let case = CaseFile::new(r#"{"num_heads":2,"causal":true,"query_offset":-2}"#);
        let folder = Folder::with_case(&case.random("query", &[1, queries, 4]).random("key", &[1, keys, 4]));
        folder.on_cpu(&["decode", CASE]).sentence(2)
    };
    sentences.push(rows(3, 1));
    sentences.push(rows(0, 0));
    sentences.push(masked());
    insta::assert_snapshot!(sentences.join("\n"));
}
