//! The golden case files and the model layer that ship with the project are read.

use std::path::{Path, PathBuf};

use multihead::io::Archive;
use multihead::{Case, CaseOptions, Settings};

const MINILM: &str = "examples/data/minilm_trophy_layer1.safetensors";

fn golden_files() -> Vec<PathBuf> {
    let folder = std::fs::read_dir("tests/cases").expect("tests/cases should be there");
    let mut files: Vec<PathBuf> = folder.map(|entry| entry.expect("a readable entry").path()).collect();
    files.push(MINILM.into());
    files.sort();
    files
}

fn open(path: &Path) -> Case {
    Case::open(path, &CaseOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn every_golden_file_is_read_and_comes_back_from_what_is_written() {
    let files = golden_files();
    assert_eq!(files.len(), 62);
    for path in files {
        let case = open(&path);
        assert!(case.config().unwrap().num_heads >= 1, "{}", path.display());
        assert!(case.about.is_some() && case.expected.output.is_some());
        let bytes = case.to_bytes().unwrap();
        safetensors::SafeTensors::deserialize(&bytes).expect("another reader should agree");
        let again = Case::from_bytes(&bytes, &CaseOptions::default()).unwrap();
        // `{:?}` leaves the numbers out; NaN would make equal cases unequal.
        let holds_nan = |case: &Case| case.inputs.value.as_ref().is_some_and(|v| v.data().iter().any(|x| x.is_nan()));
        if holds_nan(&case) {
            assert!(holds_nan(&again));
            assert_eq!(format!("{again:?}"), format!("{case:?}"), "{}", path.display());
        } else {
            assert_eq!(again, case, "{}", path.display());
        }
    }
}

#[test]
fn files_read_from_disk_and_from_memory_are_equal() {
    let bytes = std::fs::read(MINILM).unwrap();
    let options = CaseOptions::default();
    assert_eq!(Case::from_bytes(&bytes, &options).unwrap(), open(MINILM.as_ref()));
}

#[test]
fn a_real_layer_has_its_tokens_weights_and_tolerance() {
    let case = open(MINILM.as_ref());
    let tokens = case.tokens.as_ref().unwrap();
    assert_eq!(tokens[0][..3], ["[CLS]", "the", "trophy"]);
    let weights = case.weights.as_ref().unwrap();
    assert_eq!(weights.w_q.weight.shape(), &[384, 384]);
    assert_eq!(weights.w_o.bias.as_ref().unwrap().shape(), &[384]);
    assert!((case.tolerance() - 0.002).abs() < 1e-12);
    assert!((open("tests/cases/one_head.safetensors".as_ref()).tolerance() - 1e-4).abs() < 1e-12);
}

#[test]
fn the_weights_of_a_separate_file_win() {
    let with_weights = CaseOptions {
        weights: Some(MINILM.into()),
        overrides: Settings { prefix: Some("encoder.layer.1".into()), ..Settings::default() },
    };
    let case = Case::open("tests/cases/bert_layer.safetensors", &with_weights).unwrap();
    assert_eq!(case.weights.as_ref(), open(MINILM.as_ref()).weights.as_ref());
    let own = open("tests/cases/bert_layer.safetensors".as_ref());
    assert_ne!(case.weights, own.weights);
    assert_eq!(case.inputs, own.inputs);
}

#[cfg(unix)]
#[test]
fn a_case_can_come_through_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let writer = std::thread::spawn({
        let pipe = pipe.clone();
        move || std::fs::write(pipe, std::fs::read(MINILM).unwrap())
    });
    let case = open(&pipe);
    writer.join().unwrap().unwrap();
    assert_eq!(case, open(MINILM.as_ref()));
}

#[test]
fn a_file_written_for_a_bug_report_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.safetensors");
    let case = open(MINILM.as_ref());
    case.write(&path).unwrap();
    assert_eq!(open(&path), case);
    let names: Vec<String> = Archive::open(&path).unwrap().names().map(str::to_owned).collect();
    assert!(names.contains(&"encoder.layer.1.W_q.weight".to_owned()), "{names:?}");
}
