//! `multihead check`: what passes, what fails, what cannot be used, and how the program says so.

use serde_json::Value;

use crate::cases::CaseFile;
use crate::program::{CASE, Folder};

/// Two queries that see one key each; the answer is [3, 5] and the weights are one.
fn sound() -> CaseFile {
    CaseFile::new(r#"{"num_heads":1}"#)
        .floats("query", &[2, 1, 1], &[1.0, 2.0])
        .floats("value", &[2, 1, 1], &[3.0, 5.0])
        .floats("expected.output", &[2, 1, 1], &[3.0, 5.0])
        .floats("expected.attention_weights", &[2, 1, 1, 1], &[1.0, 1.0])
}

/// A folder with a sound case `good`, a differing one `bad`, and one without an answer `mute`.
fn three() -> Folder {
    let folder = Folder::new();
    sound().write(folder.path("good"));
    sound().floats("expected.output", &[2, 1, 1], &[3.0, 5.1]).write(folder.path("bad"));
    sound().without("expected.output").without("expected.attention_weights").write(folder.path("mute"));
    folder
}

#[test]
fn the_worst_of_all_files_is_the_exit_code_and_all_are_tried() {
    let folder = three();
    for (files, code, lines, errors) in [
        (&["good"][..], 0, 1, 0),
        (&["good", "good"], 0, 2, 0),
        (&["bad", "good"], 1, 2, 0),
        (&["mute", "good", "bad"], 2, 2, 1),
        (&["missing", "bad", "mute", "good"], 2, 2, 2),
    ] {
        let ended = folder.on_cpu(&[&["check"], files].concat());
        let counted = (ended.code, ended.stdout.lines().count(), ended.stderr.lines().count());
        assert_eq!(counted, (Some(code), lines, errors), "{files:?}: {ended:?}");
    }
}

#[test]
fn json_has_a_line_for_every_file() {
    let folder = three();
    let ended = folder.on_cpu(&["check", "--json", "good", "mute", "bad", "missing"]);
    let lines: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ok: Vec<(&str, bool)> =
        lines.iter().map(|line| (line["case"].as_str().unwrap(), line["ok"].as_bool().unwrap())).collect();
    assert_eq!(ok, [("good", true), ("mute", false), ("bad", false), ("missing", false)]);
    let errors: Vec<&str> = lines.iter().filter_map(|line| line["error"].as_str()).collect();
    let on_stderr: Vec<&str> = ended.stderr.lines().map(|line| line.strip_prefix("error: ").unwrap()).collect();
    assert_eq!((ended.code, &errors), (Some(2), &on_stderr));
}

#[test]
fn a_line_of_json_has_the_keys_of_the_convention() {
    let line = three().on_cpu(&["check", "--json", "bad"]).stdout;
    insta::assert_snapshot!(line, @r#"{"case":"bad","ok":false,"max_error":0.09999990463256836,"worst":{"tensor":"output","index":[1,0,0],"got":5.0,"expected":5.099999904632568},"device":"cpu","fused":false}"#);
}

/// The line of a case that differs.
fn failure(case: &CaseFile) -> String {
    let folder = Folder::with_case(case);
    let ended = folder.on_cpu(&["check", CASE]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(1), ""), "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 1);
    ended.stdout
}

#[test]
fn a_sound_case_passes() {
    let folder = Folder::with_case(&sound());
    insta::assert_snapshot!(folder.on_cpu(&["check", CASE]).done(), @"ok    case.safetensors  max error 0.0e0, tolerance 1e-4");
}

#[test]
fn a_difference_is_named_with_its_place() {
    let output = |numbers: [f32; 2]| sound().floats("expected.output", &[2, 1, 1], &numbers);
    insta::assert_snapshot!(failure(&output([3.0, 5.1])), @"FAIL  case.safetensors  max error 1.0e-1, tolerance 1e-4; output[1, 0, 0] is 5, expected 5.099999904632568");
    insta::assert_snapshot!(failure(&output([f32::NAN, 5.0])), @"FAIL  case.safetensors  max error NaN, tolerance 1e-4; output[0, 0, 0] is 3, expected NaN");
    insta::assert_snapshot!(failure(&output([3.0, f32::INFINITY])), @"FAIL  case.safetensors  max error inf, tolerance 1e-4; output[1, 0, 0] is 5, expected inf");
    insta::assert_snapshot!(failure(&sound().floats("expected.attention_weights", &[2, 1, 1, 1], &[0.98, 1.0])), @"FAIL  case.safetensors  max error 2.0e-2, tolerance 1e-4; attention_weights[0, 0, 0, 0] is 1, expected 0.9800000190734863");
    let visible_nan = sound().floats("value", &[2, 1, 1], &[3.0, f32::NAN]);
    insta::assert_snapshot!(failure(&visible_nan), @"FAIL  case.safetensors  max error NaN, tolerance 1e-4; output[1, 0, 0] is NaN, expected 5");
}

#[test]
fn another_shape_is_named() {
    insta::assert_snapshot!(failure(&sound().floats("expected.output", &[1, 2, 1], &[3.0, 5.0])), @"FAIL  case.safetensors  max error inf, tolerance 1e-4; output has shape (2, 1, 1), expected (1, 2, 1)");
    insta::assert_snapshot!(failure(&sound().floats("expected.output", &[2], &[3.0, 5.0])), @"FAIL  case.safetensors  max error inf, tolerance 1e-4; output has shape (2, 1, 1), expected (2,)");
    insta::assert_snapshot!(failure(&sound().floats("expected.output", &[], &[3.0])), @"FAIL  case.safetensors  max error inf, tolerance 1e-4; output has shape (2, 1, 1), expected ()");
    insta::assert_snapshot!(failure(&sound().floats("expected.attention_weights", &[2, 1, 1], &[1.0, 1.0])), @"FAIL  case.safetensors  max error inf, tolerance 1e-4; attention_weights has shape (2, 1, 1, 1), expected (2, 1, 1)");
}

#[test]
fn weights_alone_are_an_answer() {
    let weights = sound().without("expected.output");
    let folder = Folder::with_case(&weights);
    folder.on_cpu(&["check", CASE]).done();
    weights.floats("expected.attention_weights", &[2, 1, 1, 1], &[1.0, 0.5]).write(folder.path(CASE));
    assert_eq!(folder.on_cpu(&["check", CASE]).code, Some(1));
}

#[test]
fn an_answer_of_nan_is_met_by_nan_only() {
    let answer = sound().floats("expected.output", &[2, 1, 1], &[3.0, f32::NAN]);
    assert!(failure(&answer).starts_with("FAIL"));
    Folder::with_case(&answer.floats("value", &[2, 1, 1], &[3.0, f32::NAN])).on_cpu(&["check", CASE]).done();
}
