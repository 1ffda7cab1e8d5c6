//! `multihead experiment` and `multihead heads`.

use serde_json::Value;

use crate::cases::CaseFile;
use crate::program::{CASE, Folder, Sentences};

const LAYERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/heads/minilm_heads.safetensors");
const LAYER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/minilm_trophy_layer1.safetensors");

fn json(arguments: &[&str], device: &str) -> Value {
    let folder = Folder::new();
    let ended = folder.run(arguments.iter().copied().chain(["--json", "--device", device]));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stdout.lines().count(), 1);
    serde_json::from_str(&ended.stdout).unwrap()
}

fn rows(report: &Value) -> &[Value] {
    report["rows"].as_array().unwrap()
}

#[test]
fn copy_both_reports_the_rows_of_the_issue() {
    for device in ["cpu", "auto"] {
        let report = json(&["experiment", "copy-both"], device);
        let heads: Vec<u64> = rows(&report).iter().map(|row| row["heads"].as_u64().unwrap()).collect();
        assert_eq!(heads, [1, 1, 1, 1, 2, 2]);
        assert_eq!(rows(&report)[0]["weights"], serde_json::json!([[0.5, 0.5]]));
        for row in &rows(&report)[..4] {
            assert!((0.706..=0.707).contains(&row["relative_error"].as_f64().unwrap()), "{row}");
        }
        for row in &rows(&report)[4..] {
            assert!(row["relative_error"].as_f64().unwrap() < 1e-5, "{row}");
        }
        assert_eq!(report["seed"].as_u64(), Some(0));
    }
}

#[test]
fn heads_are_free_reports_the_rows_of_the_issue() {
    for device in ["cpu", "auto"] {
        let report = json(&["experiment", "heads-are-free", "--tokens", "8", "--runs", "2"], device);
        assert_eq!(rows(&report).len(), 4);
        for (row, heads) in rows(&report).iter().zip([1, 2, 4, 8]) {
            assert_eq!((row["num_hiddens"].as_u64(), row["heads"].as_u64()), (Some(256), Some(heads)));
            assert_eq!(row["parameters"].as_u64(), Some(262_144));
            assert_eq!(row["flops"].as_u64(), Some(8 * 8 * 256 * 256 + 4 * 8 * 8 * 256));
            assert!(row["median_ms"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn heads_reports_every_head_of_every_layer() {
    for device in ["cpu", "auto"] {
        let report = json(&["heads", LAYERS], device);
        let layers = report["layers"].as_array().unwrap();
        let heads: Vec<&Value> = layers.iter().flat_map(|layer| layer["heads"].as_array().unwrap()).collect();
        assert_eq!((layers.len(), heads.len()), (6, 72));
        for head in heads {
            assert_eq!(head["relations"].as_array().unwrap().len(), 3, "a score for every relation");
            assert!(head["without"]["relative"].as_f64().unwrap() > 0.0);
        }
        assert_eq!(report["relations"].as_array().unwrap().len(), 3);
    }
}

#[test]
fn pictures_and_pages_are_written_whole_and_said() {
    let folder = Folder::new();
    let runs: [&[&str]; 7] = [
        &["experiment", "copy-both", "--samples", "4096"],
        &["experiment", "shapes"],
        &["experiment", "heads-are-free", "--runs", "0"],
        &["experiment", "alignment"],
        &["experiment", "self-and-cross"],
        &["experiment", "grouped-query", LAYER],
        &["heads", LAYER],
    ];
    for (index, arguments) in runs.into_iter().enumerate() {
        let [png, svg, html] = ["png", "svg", "html"].map(|kind| format!("{index}.{kind}"));
        let told = folder.on_cpu(&[arguments, &["--picture", &png, "--html", &html]].concat()).done();
        assert!(told.ends_with(&format!("wrote {png}\nwrote {html}\n")), "{told}");
        folder.on_cpu(&[arguments, &["--picture", &svg, "--theme", "dark", "--json"]].concat()).done();
        assert!(std::fs::read(folder.path(&png)).unwrap().starts_with(b"\x89PNG"));
        assert!(std::fs::read_to_string(folder.path(&svg)).unwrap().contains("#0f1319"), "dark");
        let page = std::fs::read_to_string(folder.path(&html)).unwrap();
        assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
        assert!(
            !page.contains("https://")
                && page.matches("http://").count() == page.matches("http://www.w3.org/2000/svg").count()
        );
    }
    assert_eq!(folder.listing().len(), 3 * runs.len());
}

#[test]
fn what_an_experiment_cannot_use_is_refused_in_one_sentence() {
    let folder = Folder::new();
    let mut sentences = Sentences::default();
    let long = "x".repeat(10_000);
    let mut refused = |what: &str, arguments: &[&str]| {
        sentences.refused(what, &folder, &[&["experiment"], arguments].concat());
    };
    refused("an unknown experiment", &["copy-bth"]);
    refused("an empty word", &["alignment", "--query", ""]);
    refused("a word of spaces", &["alignment", "--key", "  "]);
    refused("10,000 letters", &["alignment", "--query", &long]);
    refused("no embedding", &["alignment", "--embedding-dim", "0"]);
    refused("a sharpness that overflows", &["alignment", "--sharpness", "1e9"]);
    refused("a sharpness that is no number", &["alignment", "--sharpness", "NaN"]);
    refused("no words", &["self-and-cross", "--query", " "]);
    refused("10,000 words", &["self-and-cross", "--key", &"a ".repeat(10_000)]);
    refused("no samples", &["copy-both", "--samples", "0"]);
    refused("values without numbers", &["copy-both", "--value-dim", "0"]);
    refused("too many samples", &["copy-both", "--samples", "99999999999"]);
    refused("heads that do not divide the width", &["shapes", "--num-heads", "7"]);
    refused("no heads", &["shapes", "--num-heads", "0"]);
    refused("a width that no memory holds", &["heads-are-free", "--num-hiddens", "99999999999"]);
    refused("a width that three heads do not divide", &["heads-are-free", "--heads", "3"]);
    refused("a width that is no number", &["heads-are-free", "--num-hiddens", "many"]);
    refused("no such case", &["grouped-query", "missing.safetensors"]);
    refused("no case", &["grouped-query"]);
    refused("an unknown picture format", &["shapes", "--picture", "a.jpg"]);
    refused("colours of no picture", &["shapes", "--theme", "dark"]);
    refused("a page by another name", &["shapes", "--html", "a.txt"]);
    refused("a missing folder", &["shapes", "--html", "none/a.html"]);
    insta::assert_snapshot!(sentences);
}

#[test]
fn what_heads_cannot_use_is_refused_in_one_sentence() {
    let folder = Folder::new();
    CaseFile::new(r#"{"num_heads":2}"#).random("query", &[1, 3, 4]).write(folder.path(CASE));
    for name in ["case.svg", "case.html"] {
        std::fs::copy(folder.path(CASE), folder.path(name)).unwrap();
    }
    let nothing = CaseFile::new(r#"{"num_heads":2}"#).random("query", &[1, 3, 4]).integers("valid_lens", &[1], &[0]);
    nothing.write(folder.path("nothing.safetensors"));
    let few = CaseFile::new(r#"{"num_heads":2}"#).random("query", &[1, 3, 4]).metadata("tokens", r#"[["a","b"]]"#);
    few.write(folder.path("few_tokens.safetensors"));
    let layers = || CaseFile::new(r#"{"num_heads":2,"num_layers":1}"#).metadata("sentences", "[]");
    layers().metadata("tokens", "[]").write(folder.path("no_sentence.safetensors"));
    layers().write(folder.path("no_tokens.safetensors"));
    let one = layers().metadata("tokens", r#"[["a","b"]]"#);
    one.clone().projections("encoder.layer.0.", [[4, 4]; 4]).write(folder.path("no_hidden.safetensors"));
    one.projections("encoder.layer.0.", [[4, 4]; 4])
        .random("sentence.0.layer.0.hidden", &[1, 3, 4])
        .write(folder.path("other_length.safetensors"));
    let mut sentences = Sentences::default();
    let mut refused = |what: &str, arguments: &[&str]| sentences.refused(what, &folder, arguments);
    refused("no such case", &["heads", "missing.safetensors"]);
    refused("no case", &["heads"]);
    refused("one good case and a missing one", &["heads", CASE, "missing.safetensors"]);
    refused("a case without a query to count", &["heads", "nothing.safetensors"]);
    refused("a query without a token", &["heads", "few_tokens.safetensors"]);
    refused("layers without sentences", &["heads", "no_sentence.safetensors"]);
    refused("layers without tokens", &["heads", "no_tokens.safetensors"]);
    refused("layers without hidden states", &["heads", "no_hidden.safetensors"]);
    refused("hidden states of another length", &["heads", "other_length.safetensors"]);
    refused("the case as a picture", &["heads", "case.svg", "--picture", "case.svg"]);
    refused("the case as a page", &["heads", "case.html", "--html", "./case.html"]);
    refused("a tolerance of nothing that is compared", &["heads", CASE, "--tolerance", "1"]);
    refused("pooling without weights", &["experiment", "grouped-query", CASE]);
    insta::assert_snapshot!(sentences);
}

/// Without an output projection and without tokens there is less to say, and it is said.
#[test]
fn a_case_of_core_attention_has_heads_too() {
    let folder = Folder::new();
    CaseFile::new(r#"{"num_heads":2}"#).random("query", &[2, 3, 4]).write(folder.path(CASE));
    let report = json(&["heads", folder.path(CASE).to_str().unwrap()], "cpu");
    let layer = &report["layers"][0];
    assert_eq!(layer["has_output_projection"], false);
    assert_eq!(layer["heads"][0]["share_on_separator"], Value::Null);
    assert_eq!(report["relations"], serde_json::json!([]));
    let squares: f64 = (0..2).map(|head| layer["heads"][head]["without"]["relative"].as_f64().unwrap().powi(2)).sum();
    assert!((squares - 1.0).abs() < 1e-6, "heads side by side share no number: {squares}");
}
