//! Tensors of the wrong shape, type, name or value.

use safetensors::Dtype;

use crate::cases::CaseFile;
use crate::program::{CASE, Folder, Sentences};

/// B 2, Lq 3, Lk 5, E 4, H 2.
fn cross() -> CaseFile {
    CaseFile::new(r#"{"num_heads":2}"#)
        .random("query", &[2, 3, 4])
        .random("key", &[2, 5, 4])
        .random("value", &[2, 5, 4])
}

fn projected() -> CaseFile {
    cross().projections("", [[4, 4]; 4])
}

#[test]
fn sequences_that_do_not_fit_each_other_are_refused() {
    let mut sentences = Sentences::default();
    sentences.case("no query", &cross().without("query"));
    sentences.case("a query of two axes", &cross().random("query", &[3, 4]));
    sentences.case("K and V of other lengths", &cross().random("value", &[2, 6, 4]));
    sentences.case("Q and K of other batches", &cross().random("query", &[3, 3, 4]));
    sentences.case("K and V of other batches", &cross().random("value", &[1, 5, 4]));
    sentences.case("a key of another width", &cross().random("key", &[2, 5, 6]));
    sentences.case("a value of odd width", &cross().random("value", &[2, 5, 5]));
    sentences.case("a value of width 0", &cross().random("value", &[2, 5, 0]));
    sentences.case("a query of integers", &cross().integers("query", &[2, 3, 4], &[0; 24]));
    sentences.case("a key of flags", &cross().flags("key", &[2, 5, 4], &[0; 40]));
    sentences.case("an answer of integers", &cross().integers("expected.output", &[2, 3, 4], &[0; 24]));
    sentences.case("an axis too long", &CaseFile::new(r#"{"num_heads":1}"#).random("query", &[0, 1 << 40, 1]));
    insta::assert_snapshot!(sentences);
}

/// Tensors without elements may claim any axes in a file of 500 bytes; nothing may be allocated for what follows.
#[test]
fn sizes_beyond_any_device_are_refused_before_anything_is_allocated() {
    let vast = |query: &[usize], key: &[usize]| {
        CaseFile::new(r#"{"num_heads":2}"#)
            .random("query", query)
            .random("key", key)
            .projections("", [[4, 0], [4, 0], [4, 0], [0, 4]])
    };
    for case in [vast(&[1, 1 << 29, 0], &[1, 1 << 29, 0]), vast(&[1 << 29, 3, 0], &[1 << 29, 0, 0])] {
        for command in ["run", "plan"] {
            Folder::with_case(&case).on_cpu(&[command, CASE]).sentence(2);
        }
    }
    Folder::with_case(&vast(&[1, 3, 0], &[1, 2, 0])).on_cpu(&["run", CASE]).sentence(2);
    let many_rows = CaseFile::new(r#"{"num_heads":536870912}"#).random("query", &[1, 1, 0]);
    let many_rows = many_rows.projections("", [[1 << 29, 0], [1 << 29, 0], [1 << 29, 0], [0, 1 << 29]]);
    Folder::with_case(&many_rows).on_cpu(&["run", CASE]).sentence(2);
}

#[test]
fn weights_that_do_not_fit_are_refused_with_both_shapes() {
    let mut sentences = Sentences::default();
    sentences.case("W_q takes another width", &projected().random("W_q.weight", &[4, 6]));
    sentences.case("W_k takes another width", &projected().random("W_k.weight", &[4, 6]));
    sentences.case("W_v takes another width", &projected().random("W_v.weight", &[4, 6]));
    sentences.case("W_o takes another width", &projected().random("W_o.weight", &[4, 6]));
    sentences.case("W_o gives another width", &projected().random("W_o.weight", &[6, 4]));
    sentences.case("W_q of one axis", &projected().random("W_q.weight", &[16]));
    sentences.case("W_q without rows", &projected().random("W_q.weight", &[0, 4]));
    sentences.case("a bias of another length", &projected().random("W_k.bias", &[3]));
    sentences.case("a bias of two axes", &projected().random("W_o.bias", &[1, 4]));
    sentences.case("bias_k without bias_v", &projected().random("bias_k", &[1, 1, 4]));
    let extra = projected().random("bias_k", &[1, 1, 4]);
    sentences.case("bias_v of another width", &extra.random("bias_v", &[1, 1, 6]));
    sentences.case("integers", &projected().integers("W_q.weight", &[4, 4], &[0; 16]));
    insta::assert_snapshot!(sentences);
}

#[test]
fn layouts_that_are_two_or_half_are_refused() {
    let mut sentences = Sentences::default();
    sentences.case("two layouts", &projected().random("in_proj_weight", &[12, 4]).random("out_proj.weight", &[4, 4]));
    sentences.case("a missing member", &projected().without("W_v.weight"));
    sentences.case("a misspelt member", &projected().without("W_v.weight").random("W_v.wieght", &[4, 4]));
    sentences.case("weights under a prefix nobody named", &cross().projections("encoder.", [[4, 4]; 4]));
    let elsewhere = cross().metadata("attention", r#"{"num_heads":2,"prefix":"encoder.1."}"#);
    sentences.case("weights under another prefix", &elsewhere.clone().projections("encoder.0.", [[4, 4]; 4]));
    sentences.case("a prefix without weights", &elsewhere);
    insta::assert_snapshot!(sentences);
}

#[test]
fn masks_of_unknown_shape_or_type_are_refused() {
    let mut sentences = Sentences::default();
    for (what, shape) in [
        ("(Lk,)", &[5][..]),
        ("(Lk, Lq)", &[5, 3]),
        ("(1, Lk)", &[1, 5]),
        ("(1, Lq, Lk)", &[1, 3, 5]),
        ("(H, Lq, Lk), H ≠ B", &[4, 3, 5]),
        ("(B, H, 1, Lk)", &[2, 2, 1, 5]),
        ("(H', H, Lq, Lk)", &[2, 3, 3, 5]),
        ("five axes", &[1, 2, 2, 3, 5]),
        ("a scalar", &[]),
    ] {
        let flags = vec![1; shape.iter().product()];
        sentences.case(&format!("a mask {what}"), &cross().flags("attend_mask", shape, &flags));
        sentences.case(&format!("a bias {what}"), &cross().random("bias", shape));
    }
    sentences.case("a mask of floats", &cross().random("attend_mask", &[3, 5]));
    sentences.case("a mask of 64-bit integers", &cross().integers("attend_mask", &[3, 5], &[1; 15]));
    sentences.case("a mask of bytes beyond 1", &cross().stored("attend_mask", Dtype::U8, &[3, 5], (0..15).collect()));
    sentences.case("a bias of flags", &cross().flags("bias", &[3, 5], &[1; 15]));
    insta::assert_snapshot!(sentences);
}

#[test]
fn lengths_of_unknown_shape_type_or_range_are_refused() {
    let mut sentences = Sentences::default();
    sentences.case("a scalar", &cross().integers("valid_lens", &[], &[1]));
    sentences.case("(Lq,)", &cross().integers("valid_lens", &[3], &[1; 3]));
    sentences.case("(B, H)", &cross().integers("valid_lens", &[2, 2], &[1; 4]));
    sentences.case("(B, 1)", &cross().integers("valid_lens", &[2, 1], &[1; 2]));
    sentences.case("(B·H,)", &cross().integers("valid_lens", &[4], &[1; 4]));
    sentences.case("floats", &cross().random("valid_lens", &[2]));
    sentences.case("flags", &cross().flags("valid_lens", &[2], &[1; 2]));
    sentences.case("above Lk", &cross().integers("valid_lens", &[2], &[5, 6]));
    sentences.case("below 0", &cross().integers("valid_lens", &[2], &[-1, 0]));
    sentences.case("above Lk, for a query", &cross().integers("valid_lens", &[2, 3], &[0, 1, 2, 3, 99, 5]));
    sentences.case("the largest", &cross().integers("valid_lens", &[2], &[0, i64::MAX]));
    let largest = [0, u64::MAX].iter().flat_map(|n| n.to_le_bytes()).collect();
    sentences.case("the largest, unsigned", &cross().stored("valid_lens", Dtype::U64, &[2], largest));
    let low = [0_i8, -128].iter().flat_map(|n| n.to_le_bytes()).collect();
    sentences.case("the lowest byte", &cross().stored("valid_lens", Dtype::I8, &[2], low));
    insta::assert_snapshot!(sentences);
}

#[test]
fn names_that_nothing_knows_are_refused_with_the_closest() {
    let mut sentences = Sentences::default();
    for name in
        ["attend_maks", "attention_mask", "Query", "valid_len", "expected.outputs", "W_q", "x", "a\nb\u{1b}[31m"]
    {
        sentences.case(&format!("{name:?}"), &cross().random(name, &[1]));
    }
    insta::assert_snapshot!(sentences);
}

#[test]
fn faults_of_a_weights_file_name_that_file() {
    let folder = Folder::with_case(&cross());
    let mut sentences = Sentences::default();
    let mut weights = |what: &str, file: &CaseFile, more: &[&str]| {
        file.write(folder.path("weights"));
        let arguments = [&["run", CASE, "-o", "out", "--weights", "weights"], more].concat();
        sentences.refused(what, &folder, &arguments);
    };
    let layer = || CaseFile::without_settings().projections("layers.0.", [[4, 4]; 4]);
    weights("no prefix", &layer(), &[]);
    weights("another prefix", &layer(), &["--prefix", "layers.1"]);
    weights("a missing member", &layer().without("layers.0.W_o.weight"), &["--prefix", "layers.0"]);
    weights("no layer", &CaseFile::without_settings().random("norm", &[4]), &[]);
    weights("another width", &CaseFile::without_settings().projections("", [[6, 6]; 4]), &[]);
    weights(
        "other heads",
        &CaseFile::without_settings().projections("", [[6, 4], [6, 4], [6, 4], [4, 6]]),
        &["--num-heads", "4"],
    );
    insta::assert_snapshot!(sentences);
}
