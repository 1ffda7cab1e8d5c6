use super::*;
use crate::attention::Linear;
use crate::attention::{Mask, Training};
use crate::io::tensor_file::{Numbers, TensorFile};
use crate::shape::Shape;

fn tensor<const RANK: usize>(shape: [usize; RANK]) -> HostTensor {
    let shape = Shape::from(shape);
    let len = shape.checked_len().unwrap();
    HostTensor::new(shape, (0..len).map(|index| index as f32 - 1.5).collect()).unwrap()
}

fn file(tensors: &[(&str, HostTensor)], metadata: &[(&str, &str)]) -> Vec<u8> {
    let tensors = tensors.iter().map(|(name, tensor)| (*name, Numbers::Floats(tensor)));
    let mut bytes = Vec::new();
    TensorFile::new(tensors.collect(), metadata).unwrap().write(&mut bytes).unwrap();
    bytes
}

fn read(tensors: &[(&str, HostTensor)], attention: &str) -> Result<Case, Error> {
    Case::from_bytes(&file(tensors, &[("attention", attention)]), &CaseOptions::default())
}

fn refusal(tensors: &[(&str, HostTensor)], attention: &str) -> String {
    read(tensors, attention).expect_err("this case should be refused").to_string()
}

fn query() -> (&'static str, HostTensor) {
    ("query", tensor([1, 2, 4]))
}

fn d2l(prefix: &str) -> Vec<(String, HostTensor)> {
    ["W_q", "W_k", "W_v", "W_o"].map(|name| (format!("{prefix}{name}.weight"), tensor([4, 4]))).to_vec()
}

/// A case with everything in it.
fn full() -> Case {
    let linear = || Linear { weight: tensor([4, 4]), bias: None };
    Case {
        about: Some("all of it".into()),
        tokens: Some(vec![vec!["[CLS]".into(), "\"ü\"\n".into()]]),
        settings: Settings::from_json(
            r#"{"num_heads":2,"num_kv_heads":2,"head_dim":2,"causal":true,"query_offset":-1,"window":3,"scale":0.3,"prefix":"a.b","tolerance":0.01,"dropout":0.5,"seed":9}"#,
        )
        .unwrap(),
        inputs: AttentionInputs {
            query: tensor([1, 2, 4]),
            key: Some(tensor([1, 3, 4])),
            value: Some(tensor([1, 3, 4])),
            mask: Mask {
                valid_lens: Some(HostTensor::new([1], vec![2]).unwrap()),
                attend_mask: Some(HostTensor::new([2, 3], vec![true, false, true, true, true, false]).unwrap()),
                bias: Some(HostTensor::new([2, 1], vec![f32::NEG_INFINITY, f32::MIN]).unwrap()),
                causal: true,
                query_offset: -1,
                window: Some(3),
            },
            training: Some(Training { dropout: 0.5, seed: 9, ..Training::default() }),
        },
        weights: Some(Weights {
            w_q: linear(),
            w_k: Linear { bias: Some(tensor([4])), ..linear() },
            w_v: linear(),
            w_o: linear(),
            bias_k: Some(tensor([1, 1, 4])),
            bias_v: Some(tensor([1, 1, 4])),
        }),
        expected: Expected { output: Some(tensor([1, 2, 4])), attention_weights: Some(tensor([1, 2, 2, 4])) },
    }
}

#[test]
fn a_full_case_comes_back_the_same() {
    let case = full();
    let again = Case::from_bytes(&case.to_bytes().unwrap(), &CaseOptions::default()).unwrap();
    assert_eq!(again, case);
    assert_eq!(case.to_bytes().unwrap(), again.to_bytes().unwrap());
}

#[test]
fn what_is_written_is_what_the_mask_says() {
    let mut case = full();
    case.inputs.mask = Mask { causal: false, query_offset: 5, window: None, ..Mask::default() };
    case.weights = None;
    let again = Case::from_bytes(&case.to_bytes().unwrap(), &CaseOptions::default()).unwrap();
    assert_eq!(again.inputs, case.inputs);
    assert_eq!(again.settings.prefix, None);
    case.inputs.mask.window = Some(0);
    insta::assert_snapshot!(case.to_bytes().unwrap_err(), @"window is 0, but must be a whole number between 1 and 18446744073709551615");
}

#[test]
fn the_least_case_is_core_self_attention() {
    let case = read(&[query()], r#"{"num_heads": 2}"#).unwrap();
    assert_eq!((&case.inputs.key, &case.inputs.value, &case.weights), (&None, &None, &None));
    assert_eq!(case.inputs.mask, Mask::default());
    assert_eq!(case.config().unwrap(), AttentionConfig::new(2));
    assert!((case.tolerance() - 1e-4).abs() < 1e-12);
    assert_eq!((case.about, case.tokens, case.expected), (None, None, Expected::default()));
}

#[test]
fn what_is_missing_is_named() {
    insta::assert_snapshot!(refusal(&[], r#"{"num_heads": 2}"#), @r#"tensor "query" is missing; a case file needs one of shape (B, Lq, E)"#);
    let bare = file(&[query()], &[("format", "pt")]);
    insta::assert_snapshot!(Case::from_bytes(&bare, &CaseOptions::default()).unwrap_err(), @r#"metadata `attention` is missing; a case file has JSON there, at least {"num_heads": 8} with its own number of heads"#);
    insta::assert_snapshot!(read(&[query()], "{}").unwrap().config().unwrap_err(), @"`num_heads` in the metadata `attention` is missing; add it to the file or use --num-heads");
}

#[test]
fn ranks_other_than_three_are_refused() {
    insta::assert_snapshot!(refusal(&[("query", tensor([2, 4]))], "{}"), @"query has shape (2, 4), but should have 3 axes, (B, Lq, E)");
    insta::assert_snapshot!(refusal(&[query(), ("key", tensor([1, 1, 2, 4]))], "{}"), @"key has shape (1, 1, 2, 4), but should have 3 axes, (B, Lk, key width)");
    insta::assert_snapshot!(refusal(&[query(), ("value", tensor([4]))], "{}"), @"value has shape (4,), but should have 3 axes, (B, Lk, value width)");
}

#[test]
fn a_tensor_that_nothing_knows_is_refused_with_the_closest() {
    let with = |name: &str, attention: &str| refusal(&[query(), (name, tensor([1]))], attention);
    insta::assert_snapshot!(with("attend_maks", "{}"), @r#"unknown tensor "attend_maks"; did you mean "attend_mask"?"#);
    insta::assert_snapshot!(with("mask", "{}"), @r#"unknown tensor "mask"; did you mean "attend_mask"?"#);
    insta::assert_snapshot!(with("expected.outptu", "{}"), @r#"unknown tensor "expected.outptu"; did you mean "expected.output"?"#);
    insta::assert_snapshot!(with("W_q.wieght", "{}"), @r#"unknown tensor "W_q.wieght"; did you mean "W_q.weight"?"#);
    insta::assert_snapshot!(with("LayerNorm.weight", "{}"), @r#"unknown tensor "LayerNorm.weight"; did you mean "W_q.weight"?"#);
    insta::assert_snapshot!(with("a\nb", "{}"), @r#"unknown tensor "a\nb"; did you mean "value"?"#);
}

#[test]
fn under_a_prefix_other_tensors_are_ignored_and_elsewhere_they_are_not() {
    let mut tensors = d2l("l.0.");
    tensors.push(("l.0.LayerNorm.weight".into(), tensor([4])));
    let mut all: Vec<(&str, HostTensor)> =
        tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    all.push(query());
    let attention = r#"{"num_heads": 2, "prefix": "l.0."}"#;
    assert!(read(&all, attention).unwrap().weights.is_some());
    insta::assert_snapshot!(refusal(&all, r#"{"num_heads": 2}"#), @r#"tensor "l.0.W_k.weight" is a weight under "l.0."; set `prefix` in the metadata `attention` to "l.0.", or remove it"#);
    insta::assert_snapshot!(refusal(&all, r#"{"num_heads": 2, "prefix": "l.1"}"#), @r#"tensor "l.0.W_k.weight" is a weight, but not under the prefix "l.1."; set `prefix` to "l.0.", or remove it"#);
    for (name, shape) in [("W_q.bias", [4]), ("attend_maks", [4]), ("l.00.norm", [4])] {
        all.push((name, tensor(shape)));
        let sentence = refusal(&all, attention);
        assert!(sentence.contains(&format!("\"{name}\"")), "{sentence}");
        all.pop();
    }
    all.push(("W_q.bias", tensor([4])));
    insta::assert_snapshot!(refusal(&all, attention), @r#"tensor "W_q.bias" is a weight, but not under the prefix "l.0."; leave `prefix` out, or remove the tensor"#);
}

#[test]
fn a_prefix_where_there_are_no_weights_is_refused() {
    insta::assert_snapshot!(refusal(&[query()], r#"{"prefix": "l.0."}"#), @r#"a known weight layout under the prefix "l.0." is missing; found nothing: leave `prefix` out for attention without projections"#);
}

#[test]
fn half_a_layout_is_no_core_attention() {
    insta::assert_snapshot!(refusal(&[query(), ("W_q.weight", tensor([4, 4]))], "{}"), @r#"each of "W_k.weight", "W_v.weight", "W_o.weight" of the D2L layout is missing; found "W_q.weight""#);
    insta::assert_snapshot!(refusal(&[query(), ("bias_k", tensor([1, 1, 4]))], "{}"), @r#"each of "W_q.weight", "W_k.weight", "W_v.weight", "W_o.weight", "bias_v" of the D2L layout is missing; found "bias_k""#);
}

#[test]
fn tokens_are_lists_of_lists_of_strings() {
    let with = |tokens: &str| {
        let bytes = file(&[query()], &[("attention", "{}"), ("tokens", tokens)]);
        Case::from_bytes(&bytes, &CaseOptions::default())
    };
    assert_eq!(with(r#"[["a"], []]"#).unwrap().tokens, Some(vec![vec!["a".to_owned()], vec![]]));
    insta::assert_snapshot!(with(r#"["a", "b"]"#).unwrap_err(), @r#"metadata `tokens` should be a JSON list of lists of strings, one list for each batch entry: invalid type: string "a", expected a sequence at line 1 column 4"#);
    insta::assert_snapshot!(with("").unwrap_err(), @"metadata `tokens` should be a JSON list of lists of strings, one list for each batch entry: EOF while parsing a value at line 1 column 0");
}

#[test]
fn flags_override_the_file_and_are_checked() {
    let bytes = file(&[query()], &[("attention", r#"{"num_heads": 2, "causal": true}"#)]);
    let with = |overrides| Case::from_bytes(&bytes, &CaseOptions { overrides, weights: None });
    let flags = Settings { num_heads: Some(4), causal: Some(false), window: Some(2), ..Settings::default() };
    let case = with(flags).unwrap();
    assert_eq!(case.config().unwrap().num_heads, 4);
    assert_eq!((case.inputs.mask.causal, case.inputs.mask.window), (false, Some(2)));
    insta::assert_snapshot!(with(Settings { window: Some(0), ..Settings::default() }).unwrap_err(), @"window is 0, but must be a whole number between 1 and 18446744073709551615");
}

#[test]
fn a_weights_file_wins_and_its_faults_carry_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let weights = folder.path().join("weights.safetensors");
    let other = d2l("l.7.");
    let other: Vec<(&str, HostTensor)> = other.iter().map(|(name, tensor)| (name.as_str(), tensor.clone())).collect();
    std::fs::write(&weights, file(&other, &[])).unwrap();
    // The case's own weights, half of them only, are not read.
    let own = file(&[query(), ("W_q.weight", tensor([9, 9]))], &[("attention", "{}")]);
    let with = |prefix: &str| {
        let overrides = Settings { prefix: Some(prefix.into()), ..Settings::default() };
        Case::from_bytes(&own, &CaseOptions { overrides, weights: Some(weights.clone()) })
    };
    assert_eq!(with("l.7").unwrap().weights.unwrap().w_q.weight, tensor([4, 4]));
    let sentence = with("l.8").unwrap_err().to_string();
    let sentence = sentence.replace(&folder.path().display().to_string(), "FOLDER");
    insta::assert_snapshot!(sentence, @r#"FOLDER/weights.safetensors: unknown weight prefix "l.8."; did you mean "l.7."?"#);
}

#[test]
fn faults_of_the_case_carry_its_name_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("case.safetensors");
    std::fs::write(&path, file(&[], &[("attention", "{}")])).unwrap();
    let sentence = Case::open(&path, &CaseOptions::default()).unwrap_err().to_string();
    let sentence = sentence.replace(&folder.path().display().to_string(), "FOLDER");
    insta::assert_snapshot!(sentence, @r#"FOLDER/case.safetensors: tensor "query" is missing; a case file needs one of shape (B, Lq, E)"#);
}

/// A file has no room for another step than the first, nor for weights after dropout.
#[test]
fn training_that_a_file_cannot_say_is_refused() {
    let mut case = full();
    for (step, returns_dropped) in [(1, false), (0, true)] {
        case.inputs.training = Some(Training { dropout: 0.5, seed: 9, step, returns_dropped });
        let refused = case.to_bytes().unwrap_err().to_string();
        assert!(refused.starts_with("a case file says what step 0 of training gives"), "{refused}");
    }
    // A probability of 0 is evaluation.
    case.inputs.training = None;
    case.settings.dropout = Some(0.0);
    assert_eq!(Case::from_bytes(&case.to_bytes().unwrap(), &CaseOptions::default()).unwrap(), case);
}
