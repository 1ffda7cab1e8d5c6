//! Files are not trusted: whatever the bytes are, reading them gives a case or a sentence, never a panic.

use std::path::PathBuf;

use multihead::io::Archive;
use multihead::{Case, CaseOptions, Settings};
use proptest::prelude::*;
use proptest::sample::Index;

/// Small case files of every kind: masks, lengths, biases, prefixes, half floats, empty tensors.
const SMALL_CASES: [&str; 9] = [
    "r01_empty_row",
    "r04_valid_len_zero",
    "r08_bias_minus_inf",
    "r27_f16_raw_dot_overflow",
    "r54_no_keys",
    "mask_3d_u8",
    "lens_i32",
    "kdim_vdim",
    "torch_bias_kv",
];

fn case_bytes(name: &str) -> Vec<u8> {
    let path = PathBuf::from("tests/cases").join(format!("{name}.safetensors"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Reads, and holds whatever comes back to what every reading promises.
fn read(bytes: &[u8]) -> Result<Case, String> {
    let result = Case::from_bytes(bytes, &CaseOptions::default());
    if Archive::from_bytes(bytes).is_ok() {
        let other = safetensors::SafeTensors::deserialize(bytes);
        assert!(other.is_ok(), "only this reader accepts the file: {other:?}");
    }
    result.map_err(|error| {
        let sentence = error.to_string();
        assert!(!sentence.contains('\n'), "two lines: {sentence}");
        assert!(sentence.len() < 10_000, "{} bytes of error", sentence.len());
        sentence
    })
}

/// A file of this header and data.
fn file(header: &[u8], data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header, data].concat()
}

fn header_and_data(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (length, rest) = bytes.split_first_chunk().expect("a case has a header");
    let length = u64::from_le_bytes(*length);
    rest.split_at(usize::try_from(length).expect("small"))
}

fn small_case() -> impl Strategy<Value = Vec<u8>> {
    prop::sample::select(&SMALL_CASES[..]).prop_map(case_bytes)
}

/// Text that a header is made of, to be put where it does not belong.
fn fragment() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        "\"",
        ",",
        ":",
        "-",
        "0",
        "9",
        "1e400",
        "18446744073709551615",
        "null",
        "true",
        "\\",
        "\\u0000",
        "\u{fffd}",
        "\"query\":",
        "\"__metadata__\":{}",
        "\"shape\":[0]",
        "F64",
        "BOOL",
        "F4",
        "I64",
        "-1",
        "4294967296",
        "\"data_offsets\":[0,0]",
    ])
}

/// A header of plausible tensors with implausible numbers.
fn header() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["query", "key", "bias", "valid_lens", "W_q.weight", "attend_maks", "a.b"]);
    let dtype = prop::sample::select(vec!["F32", "F16", "BOOL", "I64", "U64", "F4", "C64", "X1"]);
    let number = prop_oneof![0_u64..5, Just(u64::MAX), Just(1 << 32), Just(1 << 62)];
    let tensor = (name, dtype, prop::collection::vec(number.clone(), 0..5), number.clone(), number);
    prop::collection::vec(tensor, 0..5).prop_map(|tensors| {
        let entries = tensors.iter().map(|(name, dtype, shape, begin, end)| {
            format!(r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#)
        });
        format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
    })
}

/// A header whose offsets are right, of tensors of all types and small shapes.
fn sound_file() -> impl Strategy<Value = Vec<u8>> {
    let name = prop::sample::select(vec![
        "query",
        "key",
        "value",
        "bias",
        "valid_lens",
        "attend_mask",
        "expected.output",
        "W_q.weight",
        "W_q.bias",
        "W_k.weight",
        "W_v.weight",
        "W_o.weight",
        "in_proj_weight",
        "in_proj_bias",
        "out_proj.weight",
        "bias_k",
        "attn.c_attn.weight",
        "attn.c_proj.weight",
        "attn.c_attn.bias",
        "attn.c_proj.bias",
    ]);
    let types = [("F32", 4), ("F16", 2), ("BF16", 2), ("F64", 8), ("BOOL", 1), ("U8", 1), ("I64", 8), ("U64", 8)];
    let axis = prop_oneof![4 => 0_u64..7, 1 => Just(1_u64 << 55)];
    let shape = prop::collection::vec(axis, 0..5);
    let tensors = prop::collection::btree_map(name, (prop::sample::select(types.to_vec()), shape), 0..9);
    (tensors, any::<u8>(), any::<bool>()).prop_map(|(tensors, fill, causal)| {
        let mut header = format!(r#"{{"__metadata__":{{"attention":"{{\"num_heads\":2,\"causal\":{causal}}}"}}"#);
        let mut begin = 0;
        for (name, ((dtype, width), shape)) in tensors {
            let product = shape.iter().try_fold(1_u64, |product, &axis| product.checked_mul(axis));
            let end = begin + product.filter(|&count| count < 10_000).unwrap_or(0) * width;
            header += &format!(r#","{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#);
            begin = end;
        }
        header.push('}');
        file(header.as_bytes(), &vec![fill; usize::try_from(begin).expect("small")])
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_bytes_are_no_case(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(&bytes).is_err());
    }

    #[test]
    fn random_headers_do_not_panic(text in ".{0,200}", data in prop::collection::vec(any::<u8>(), 0..40)) {
        prop_assert!(read(&file(text.as_bytes(), &data)).is_err());
    }

    #[test]
    fn implausible_headers_do_not_panic(header in header(), data in prop::collection::vec(any::<u8>(), 0..64)) {
        // Without metadata none of them is a case.
        prop_assert!(read(&file(header.as_bytes(), &data)).is_err());
    }

    #[test]
    fn sound_files_of_any_tensors_do_not_panic(bytes in sound_file()) {
        if let Ok(case) = read(&bytes) {
            let again = Case::from_bytes(&case.to_bytes().unwrap(), &CaseOptions::default()).unwrap();
            prop_assert_eq!(again.inputs.query.shape(), case.inputs.query.shape());
            prop_assert_eq!(again.weights.is_some(), case.weights.is_some());
        }
    }

    #[test]
    fn flipped_bits_do_not_panic(
        bytes in small_case(),
        flips in prop::collection::vec((any::<Index>(), 0..8_u32), 1..4),
    ) {
        let mut bytes = bytes;
        for (place, bit) in flips {
            // Most of a file is data, where a flip changes only a number; the header is what is interesting.
            let end = bytes.len().min(700);
            bytes[place.index(end)] ^= 1 << bit;
        }
        let _ = read(&bytes);
    }

    #[test]
    fn mutated_headers_do_not_panic(
        bytes in small_case(),
        place in any::<Index>(),
        removed in 0..20_usize,
        inserted in prop::collection::vec(fragment(), 0..4),
    ) {
        let (header, data) = header_and_data(&bytes);
        let begin = place.index(header.len());
        let end = (begin + removed).min(header.len());
        let header = [&header[..begin], inserted.concat().as_bytes(), &header[end..]].concat();
        let _ = read(&file(&header, data));
    }

    #[test]
    fn a_file_cut_anywhere_or_with_a_tail_is_refused(bytes in small_case(), place in any::<Index>(), tail in 1..20_usize) {
        let kept = place.index(bytes.len());
        prop_assert!(read(&bytes[..kept]).is_err(), "{kept} of {} bytes were accepted", bytes.len());
        let longer = [bytes, vec![0; tail]].concat();
        prop_assert!(read(&longer).is_err(), "{tail} more bytes were accepted");
    }

    #[test]
    fn random_settings_do_not_panic(text in ".{0,100}") {
        let _ = Settings::from_json(&text);
    }

    #[test]
    fn settings_of_random_values_do_not_panic(
        field in prop::sample::select(vec!["num_heads", "window", "scale", "query_offset", "prefix", "seed", "dropout"]),
        value in prop_oneof![any::<f64>().prop_map(|x| format!("{x:e}")), any::<i128>().prop_map(|x| x.to_string()), ".{0,20}"],
    ) {
        if let Ok(settings) = Settings::from_json(&format!("{{\"{field}\": {value}}}")) {
            let json = settings.to_json().expect("what was read should be writable");
            prop_assert_eq!(Settings::from_json(&json).expect("and readable"), settings);
        }
    }
}

#[test]
fn the_untouched_files_are_read() {
    for name in SMALL_CASES {
        read(&case_bytes(name)).unwrap_or_else(|sentence| panic!("{name}: {sentence}"));
    }
}

#[test]
fn names_of_megabytes_give_a_short_sentence_soon() {
    let name = "q".repeat(3_000_000);
    let header = format!(
        r#"{{"__metadata__":{{"attention":"{{\"num_heads\":1}}"}},"{name}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}}}"#
    );
    assert!(read(&file(header.as_bytes(), &[])).unwrap_err().contains("unknown tensor"));
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for open in ["[", "{\"a\":"] {
        let deep = open.repeat(200_000);
        assert!(read(&file(deep.as_bytes(), &[])).is_err());
        assert!(Settings::from_json(&deep).is_err());
        let inside = format!("{{\"query\":{deep}");
        assert!(read(&file(inside.as_bytes(), &[])).is_err());
    }
}
