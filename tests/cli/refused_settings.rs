//! Settings in the file that cannot be, alone or with the tensors beside them.

use crate::cases::CaseFile;
use crate::program::Sentences;

/// Self-attention over a width of 12.
fn twelve(settings: &str) -> CaseFile {
    CaseFile::new(settings).random("query", &[1, 2, 12])
}

#[test]
fn head_counts_that_do_not_fit_are_refused() {
    let mut sentences = Sentences::default();
    let projections = [[12, 12]; 4];
    sentences.case("E by H", &twelve(r#"{"num_heads":5}"#));
    sentences.case("rows of W_q by H", &twelve(r#"{"num_heads":5}"#).projections("", projections));
    sentences.case("H by G", &twelve(r#"{"num_heads":6,"num_kv_heads":4}"#));
    sentences.case("H by G, with weights", &twelve(r#"{"num_heads":6,"num_kv_heads":4}"#).projections("", projections));
    sentences.case(
        "rows of W_k by d",
        &twelve(r#"{"num_heads":2}"#).projections("", [[12, 12], [8, 12], [8, 12], [12, 12]]),
    );
    sentences.case(
        "H by rows of W_k / d",
        &twelve(r#"{"num_heads":3}"#).projections("", [[12, 12], [8, 12], [8, 12], [12, 12]]),
    );
    sentences.case(
        "rows of W_v by G",
        &twelve(r#"{"num_heads":3}"#).projections("", [[12, 12], [12, 12], [8, 12], [12, 8]]),
    );
    sentences.case(
        "another G than the weights",
        &twelve(r#"{"num_heads":6,"num_kv_heads":3}"#).projections("", projections),
    );
    sentences
        .case("another d than the weights", &twelve(r#"{"num_heads":6,"head_dim":3}"#).projections("", projections));
    sentences.case("another d than E / H", &twelve(r#"{"num_heads":6,"head_dim":3}"#));
    sentences.case("more heads than channels", &twelve(r#"{"num_heads":24}"#));
    sentences.case("a width of 0", &CaseFile::new(r#"{"num_heads":3}"#).random("query", &[1, 2, 0]));
    insta::assert_snapshot!(sentences);
}

#[test]
fn values_that_no_setting_has_are_refused() {
    let mut sentences = Sentences::default();
    for setting in [
        r#""num_heads":0"#,
        r#""num_heads":-4"#,
        r#""num_heads":4.5"#,
        r#""num_heads":"4""#,
        r#""num_heads":4294967295"#,
        r#""num_heads":4294967296"#,
        r#""num_heads":18446744073709551616"#,
        r#""num_heads":1e300"#,
    ] {
        sentences.case(setting, &twelve(&format!("{{{setting}}}")));
    }
    for setting in [
        r#""num_kv_heads":0"#,
        r#""num_kv_heads":-1"#,
        r#""num_kv_heads":4294967295"#,
        r#""head_dim":0"#,
        r#""head_dim":-3"#,
        r#""head_dim":4294967295"#,
        r#""window":0"#,
        r#""window":-1"#,
        r#""window":2.5"#,
        r#""causal":1"#,
        r#""query_offset":0.5"#,
        r#""query_offset":9223372036854775808"#,
        r#""scale":"half""#,
        r#""scale":1e39"#,
        r#""scale":1e999"#,
        r#""scale":NaN"#,
        r#""tolerance":-1"#,
        r#""tolerance":1e999"#,
        r#""dropout":-0.5"#,
        r#""dropout":1.5"#,
        r#""seed":-1"#,
        r#""prefix":3"#,
    ] {
        sentences.case(setting, &twelve(&format!(r#"{{"num_heads":4,{setting}}}"#)));
    }
    insta::assert_snapshot!(sentences);
}

#[test]
fn metadata_that_says_nothing_or_something_unknown_is_refused() {
    let mut sentences = Sentences::default();
    sentences.case("no settings", &CaseFile::without_settings().random("query", &[1, 2, 12]));
    sentences.case("no num_heads", &twelve("{}"));
    sentences.case("null for num_heads", &twelve(r#"{"num_heads":null}"#));
    sentences.case("no JSON", &twelve("num_heads = 4"));
    sentences.case("a list", &twelve("[4]"));
    sentences.case("an unknown field", &twelve(r#"{"num_heads":4,"casual":true}"#));
    sentences.case("a field of other libraries", &twelve(r#"{"n_head":4}"#));
    sentences.case("a field like nothing known", &twelve(r#"{"num_heads":4,"7":1}"#));
    sentences.case("a field twice", &twelve(r#"{"num_heads":4,"num_heads":2}"#));
    sentences.case("a misspelt key of the metadata", &twelve("{}").metadata("atention", r#"{"num_heads":4}"#));
    sentences.case("misspelt tokens", &twelve(r#"{"num_heads":4}"#).metadata("token", r#"[["a"]]"#));
    sentences.case("tokens that are no list of lists", &twelve(r#"{"num_heads":4}"#).metadata("tokens", r#"["a"]"#));
    sentences.case("dropout", &twelve(r#"{"num_heads":4,"dropout":0.1}"#));
    insta::assert_snapshot!(sentences);
}
