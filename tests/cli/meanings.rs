//! conventions.md, corner by corner, through the program; every answer was worked out by hand.
//!
//! Most cases have queries of 0, so that every visible key weighs the same and the output is a mean of values.

use safetensors::Dtype;

use crate::cases::CaseFile;
use crate::program::{CASE, Folder};

const NAN: f32 = f32::NAN;
const INF: f32 = f32::INFINITY;

/// A case with its answer.
struct Meaning {
    about: &'static str,
    case: CaseFile,
}

/// One head of width 1; queries of 0 and keys of 0, one for each value.
fn means(settings: &str, num_queries: usize, values: &[f32]) -> CaseFile {
    let num_keys = values.len();
    CaseFile::new(&format!(r#"{{"num_heads":1,"tolerance":1e-6{settings}}}"#))
        .floats("query", &[1, num_queries, 1], &vec![0.0; num_queries])
        .floats("key", &[1, num_keys, 1], &vec![0.0; num_keys])
        .floats("value", &[1, num_keys, 1], values)
}

/// The same with projections that change nothing.
fn projected(case: CaseFile) -> CaseFile {
    let names = ["W_q.weight", "W_k.weight", "W_v.weight", "W_o.weight"];
    names.into_iter().fold(case, |case, name| case.floats(name, &[1, 1], &[1.0]))
}

/// With an answer (1, n, 1).
fn gives(about: &'static str, case: CaseFile, output: &[f32]) -> Meaning {
    Meaning { about, case: case.floats("expected.output", &[1, output.len(), 1], output) }
}

fn bands() -> Vec<Meaning> {
    let values = [100.0, 50.0, 1.0, 2.0, 6.0, 200.0];
    vec![
        gives("a window at an offset", means(r#","window":2,"query_offset":3"#, 1, &values), &[3.0]),
        gives(
            "a causal window at an offset",
            means(r#","window":2,"query_offset":3,"causal":true"#, 1, &values),
            &[1.5],
        ),
        gives("a window before all keys", means(r#","window":2,"query_offset":-2"#, 1, &values), &[0.0]),
        gives("a window that touches the first key", means(r#","window":3,"query_offset":-2"#, 1, &values), &[100.0]),
        gives(
            "a negative offset",
            means(r#","causal":true,"query_offset":-2"#, 4, &[4.0, 6.0, 7.0, 8.0]),
            &[0.0, 0.0, 4.0, 5.0],
        ),
        gives(
            "the lowest offset",
            means(r#","causal":true,"query_offset":-9223372036854775808"#, 2, &[4.0, 6.0]),
            &[0.0, 0.0],
        ),
        gives(
            "the highest offset",
            means(r#","causal":true,"query_offset":9223372036854775807"#, 2, &[4.0, 6.0]),
            &[5.0, 5.0],
        ),
        gives("the widest window", means(r#","window":18446744073709551615"#, 2, &[4.0, 6.0]), &[5.0, 5.0]),
        gives("an offset alone hides nothing", means(r#","query_offset":-5"#, 1, &[4.0, 6.0]), &[5.0]),
    ]
}

fn scores() -> Vec<Meaning> {
    let logarithms = || {
        // exp(1 · ln 3) : exp(1 · 0) = 3 : 1
        means("", 1, &[0.0, 4.0]).floats("query", &[1, 1, 1], &[1.0]).floats("key", &[1, 2, 1], &[0.0, 3_f32.ln()])
    };
    let scaled = |scale: &str| {
        logarithms().metadata("attention", &format!(r#"{{"num_heads":1,"tolerance":1e-6,"scale":{scale}}}"#))
    };
    vec![
        gives("three to one", logarithms(), &[3.0]),
        gives("a scale of zero makes all keys alike", scaled("0"), &[2.0]),
        gives("a negative scale turns the order round", scaled("-1"), &[1.0]),
        gives(
            "doubles are computed as floats",
            logarithms().doubles("query", &[1, 1, 1], &[1.0]).doubles("key", &[1, 2, 1], &[0.0, 3_f64.ln()]).doubles(
                "value",
                &[1, 2, 1],
                &[0.0, 4.0],
            ),
            &[3.0],
        ),
        gives("a bias is added", means("", 1, &[0.0, 4.0]).floats("bias", &[1, 2], &[0.0, 3_f32.ln()]), &[3.0]),
        gives(
            "a finite bias of doubles never hides",
            means("", 2, &[1.0, 3.0]).doubles("bias", &[2, 2], &[-1e300, -1e300, -1e300, f64::NEG_INFINITY]),
            &[2.0, 1.0],
        ),
        gives(
            "a bias of minus infinity hides",
            means("", 2, &[1.0, 3.0]).floats("bias", &[2, 2], &[-INF, 0.0, -INF, -INF]),
            &[3.0, 0.0],
        ),
    ]
}

fn lengths_and_heads() -> Vec<Meaning> {
    let grouped = CaseFile::new(r#"{"num_heads":4,"num_kv_heads":2,"tolerance":1e-6}"#)
        .floats("query", &[1, 1, 4], &[0.0; 4])
        .floats("key", &[1, 2, 2], &[0.0; 4])
        .floats("value", &[1, 2, 2], &[1.0, 10.0, 3.0, 30.0])
        .floats("expected.output", &[1, 1, 4], &[2.0, 2.0, 20.0, 20.0])
        .floats("expected.attention_weights", &[1, 4, 1, 2], &[0.5; 8]);
    vec![
        gives(
            "a length for every query",
            means("", 3, &[4.0, 6.0]).integers("valid_lens", &[1, 3], &[0, 1, 2]),
            &[0.0, 4.0, 5.0],
        ),
        gives(
            "a length for every batch entry, as bytes",
            means("", 2, &[4.0, 6.0]).stored("valid_lens", Dtype::U8, &[1], vec![1]),
            &[4.0, 4.0],
        ),
        gives(
            "the intersection of all that is given",
            means(r#","causal":true,"query_offset":2,"window":3"#, 1, &[64.0, 32.0, 16.0, 8.0])
                .integers("valid_lens", &[1], &[2])
                .flags("attend_mask", &[1, 4], &[0, 1, 1, 1]),
            &[32.0],
        ),
        Meaning { about: "neighbouring heads share a key/value head", case: grouped },
    ]
}

/// Two batch entries, two heads, one query, two keys; the value of entry b, key j and head h is 1 + 4·b + 2·j + h.
fn four_heads() -> CaseFile {
    CaseFile::new(r#"{"num_heads":2,"tolerance":1e-6}"#)
        .floats("query", &[2, 1, 2], &[0.0; 4])
        .floats("key", &[2, 2, 2], &[0.0; 8])
        .floats("value", &[2, 2, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
}

fn mask_shapes() -> Vec<Meaning> {
    let mut meanings = Vec::new();
    // Once as truth values, once as bytes, once as a bias.
    let mut add = |about, shape: &[usize], flags: &[u8], output: [f32; 4]| {
        let biases: Vec<f32> = flags.iter().map(|&flag| if flag == 1 { 0.0 } else { -INF }).collect();
        let cases = [
            four_heads().flags("attend_mask", shape, flags),
            four_heads().stored("attend_mask", Dtype::U8, shape, flags.to_vec()),
            four_heads().floats("bias", shape, &biases),
        ];
        let answered = cases.map(|case| case.floats("expected.output", &[2, 1, 2], &output));
        meanings.extend(answered.map(|case| Meaning { about, case }));
    };
    add("a mask (Lq, Lk)", &[1, 2], &[1, 0], [1.0, 2.0, 5.0, 6.0]);
    add("a mask (B, Lq, Lk)", &[2, 1, 2], &[1, 0, 0, 1], [1.0, 2.0, 7.0, 8.0]);
    add("a mask (B, 1, Lq, Lk)", &[2, 1, 1, 2], &[1, 0, 0, 1], [1.0, 2.0, 7.0, 8.0]);
    add("a mask (1, H, Lq, Lk)", &[1, 2, 1, 2], &[1, 0, 0, 1], [1.0, 4.0, 5.0, 8.0]);
    add("a mask (1, 1, Lq, Lk)", &[1, 1, 1, 2], &[0, 1], [3.0, 4.0, 7.0, 8.0]);
    add("a mask (B, H, Lq, Lk)", &[2, 2, 1, 2], &[1, 0, 0, 1, 1, 1, 0, 0], [1.0, 4.0, 6.0, 0.0]);
    meanings
}

/// One more key of score 0 and value 10, which nothing hides.
fn extra_key() -> Vec<Meaning> {
    let extra = |settings: &str| {
        projected(means(settings, 1, &[2.0, 4.0])).floats("bias_k", &[1, 1, 1], &[0.0]).floats(
            "bias_v",
            &[1, 1, 1],
            &[10.0],
        )
    };
    let meaning = |about, case: CaseFile, output: f32, weights: [f32; 3]| {
        gives(about, case.floats("expected.attention_weights", &[1, 1, 1, 3], &weights), &[output])
    };
    let third = 1.0 / 3.0;
    vec![
        meaning("an extra key beside all", extra(""), 16.0 / 3.0, [third; 3]),
        meaning("an extra key and a mask", extra("").flags("attend_mask", &[1, 2], &[1, 0]), 6.0, [0.5, 0.0, 0.5]),
        meaning("an extra key and lengths of 0", extra("").integers("valid_lens", &[1], &[0]), 10.0, [0.0, 0.0, 1.0]),
        meaning("an extra key and a bias", extra("").floats("bias", &[1, 2], &[-INF; 2]), 10.0, [0.0, 0.0, 1.0]),
        meaning("an extra key after the causal edge", extra(r#","causal":true"#), 6.0, [0.5, 0.0, 0.5]),
        meaning("an extra key outside the window", extra(r#","window":1,"query_offset":1"#), 7.0, [0.0, 0.5, 0.5]),
    ]
}

/// The second of three keys is hidden, and its row is not a number.
fn hidden_rows() -> Vec<Meaning> {
    let mut meanings = Vec::new();
    for poison in [NAN, INF, -INF] {
        let poisoned =
            |settings: &str| means(settings, 1, &[2.0, poison, 4.0]).floats("key", &[1, 3, 1], &[0.0, poison, 0.0]);
        let last =
            |settings: &str| means(settings, 1, &[2.0, 4.0, poison]).floats("key", &[1, 3, 1], &[0.0, 0.0, poison]);
        for wrap in [|case| case, projected] {
            meanings.extend([
                gives("masked", wrap(poisoned("").flags("attend_mask", &[1, 3], &[1, 0, 1])), &[3.0]),
                gives("biased away", wrap(poisoned("").floats("bias", &[1, 3], &[0.0, -INF, 0.0])), &[3.0]),
                gives("beyond the length", wrap(last("").integers("valid_lens", &[1], &[2])), &[3.0]),
                gives("in the future", wrap(last(r#","causal":true,"query_offset":1"#)), &[3.0]),
                gives("outside the window", wrap(last(r#","window":2"#)), &[3.0]),
                gives("all hidden", wrap(poisoned("").integers("valid_lens", &[1], &[0])), &[0.0]),
            ]);
        }
    }
    meanings
}

fn empty() -> Vec<Meaning> {
    let sized = |batch: usize, num_queries: usize, num_keys: usize| {
        CaseFile::new(r#"{"num_heads":2,"tolerance":1e-6}"#)
            .random("query", &[batch, num_queries, 4])
            .random("key", &[batch, num_keys, 4])
            .projections("", [[4, 4]; 4])
            .floats("W_o.bias", &[4], &[1.0, 2.0, 3.0, 4.0])
    };
    let meaning =
        |about, [batch, num_queries, num_keys]: [usize; 3], output: &[f32]| Meaning {
            about,
            case: sized(batch, num_queries, num_keys)
                .floats("expected.output", &[batch, num_queries, 4], output)
                .floats("expected.attention_weights", &[batch, 2, num_queries, num_keys], &[]),
        };
    vec![
        meaning("no batch entries", [0, 2, 3], &[]),
        meaning("no queries", [2, 0, 3], &[]),
        meaning("no keys", [1, 2, 0], &[1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 3.0, 4.0]),
        meaning("nothing at all", [0, 0, 0], &[]),
    ]
}

fn all_meanings() -> Vec<Meaning> {
    [bands(), scores(), lengths_and_heads(), mask_shapes(), extra_key(), hidden_rows(), empty()]
        .into_iter()
        .flatten()
        .collect()
}

/// Checks all cases in one process; the failing lines, by what they are about.
fn failing(meanings: &[Meaning], device: &str) -> Vec<String> {
    let folder = Folder::new();
    let names: Vec<String> = (0..meanings.len()).map(|index| format!("{index}.safetensors")).collect();
    for (name, meaning) in names.iter().zip(meanings) {
        meaning.case.write(folder.path(name));
    }
    let arguments = ["check", "--device", device].into_iter().chain(names.iter().map(String::as_str));
    let ended = folder.run(arguments);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(lines.len(), meanings.len(), "{ended:?}");
    let marked = lines.iter().zip(meanings).filter(|(line, _)| line.starts_with("FAIL"));
    let failing: Vec<String> = marked.map(|(line, meaning)| format!("{}: {line}", meaning.about)).collect();
    assert_eq!(ended.code, Some(i32::from(!failing.is_empty())), "{ended:?}");
    failing
}

#[test]
fn the_built_in_path_gives_every_answer() {
    assert_eq!(failing(&all_meanings(), "cpu"), [""; 0]);
}

#[test]
fn the_default_adapter_gives_every_answer() {
    assert_eq!(failing(&all_meanings(), "auto"), [""; 0]);
}

/// The negative control: each of these cases notices another answer.
#[test]
fn every_case_notices_another_answer() {
    let mut meanings = all_meanings();
    meanings.retain(|meaning| !meaning.case.numbers("expected.output").is_empty());
    for Meaning { case, .. } in &mut meanings {
        let mut output = case.numbers("expected.output");
        output[0] += 0.02;
        let shape = Folder::with_case(case).output(&[]).shape().axes().to_vec();
        *case = case.clone().floats("expected.output", &shape, &output);
    }
    assert_eq!(failing(&meanings, "cpu").len(), meanings.len());
}

#[test]
fn hidden_rows_stay_hidden_under_weights_of_another_file() {
    let folder = Folder::with_case(
        &means("", 1, &[2.0, NAN, 4.0])
            .floats("key", &[1, 3, 1], &[0.0, INF, 0.0])
            .flags("attend_mask", &[1, 3], &[1, 0, 1])
            .floats("expected.output", &[1, 1, 1], &[3.0]),
    );
    projected(CaseFile::without_settings()).write(folder.path("weights"));
    let arguments = ["check", CASE, "--weights", "weights"];
    assert!(folder.on_cpu(&arguments).done().starts_with("ok"));
    assert_eq!(folder.run(arguments).code, Some(0));
}

#[test]
fn what_is_not_a_number_in_a_visible_row_shows() {
    // exp(−200) is 0 in 32 bits, and 0 · ∞ is no number.
    let underflowing = |value: f32| {
        means("", 1, &[2.0, value]).floats("query", &[1, 1, 1], &[1.0]).floats("key", &[1, 2, 1], &[0.0, -200.0])
    };
    let cases = [
        underflowing(INF),
        underflowing(NAN),
        means("", 1, &[2.0, INF]),
        means("", 1, &[2.0, 4.0]).floats("key", &[1, 2, 1], &[0.0, NAN]),
        means(r#","scale":0"#, 1, &[2.0, 4.0]).floats("query", &[1, 1, 1], &[INF]),
        means("", 1, &[2.0, 4.0]).floats("bias", &[1, 2], &[0.0, NAN]),
        means("", 1, &[2.0, 4.0]).floats("bias", &[1, 2], &[0.0, INF]),
    ];
    for case in cases {
        let folder = Folder::with_case(&case);
        for wrapped in [case.clone(), projected(case)] {
            wrapped.write(folder.path(CASE));
            let output = folder.output(&[]);
            assert!(!output.data()[0].is_finite(), "{:?} from {wrapped:?}", output.data());
        }
    }
    let finite = Folder::with_case(&underflowing(3.0)).output(&[]);
    assert_eq!(finite.data(), [2.0]);
}

#[test]
fn finite_values_whose_sum_is_finite_stay_finite() {
    let folder = Folder::with_case(&means("", 1, &[2.0, 4.0]).doubles("bias", &[1, 2], &[1e300, 1e300]));
    assert_eq!(folder.output(&[]).data(), [3.0]);
}
