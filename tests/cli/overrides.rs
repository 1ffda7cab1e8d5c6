//! A flag does what the field of the same name in the file does.

use crate::cases::CaseFile;
use crate::program::{CASE, Folder};

/// Self-attention of 4 queries over a width of 4, without projections.
fn plain(settings: &str) -> CaseFile {
    CaseFile::new(settings).random("query", &[1, 4, 4])
}

/// The flag on the file without the field, and the field without the flag, give the same bits, and other ones than
/// neither.
fn agree(flag: &[&str], settings: &str, with_field: &str) {
    let said = Folder::with_case(&plain(with_field)).output_bytes(&[]);
    let folder = Folder::with_case(&plain(settings));
    assert_eq!(folder.output_bytes(flag), said, "{flag:?} is not {with_field}");
    assert_ne!(folder.output_bytes(&[]), said, "{flag:?} changes nothing");
}

#[test]
fn every_setting_of_the_call_can_be_overridden() {
    let two = r#"{"num_heads":2}"#;
    agree(&["--num-heads", "2"], r#"{"num_heads":1}"#, two);
    agree(&["--causal"], two, r#"{"num_heads":2,"causal":true}"#);
    agree(&["--causal=true"], two, r#"{"num_heads":2,"causal":true}"#);
    agree(&["--causal=false"], r#"{"num_heads":2,"causal":true}"#, two);
    agree(&["--window", "2"], two, r#"{"num_heads":2,"window":2}"#);
    agree(&["--scale", "-0.25"], two, r#"{"num_heads":2,"scale":-0.25}"#);
    agree(&["--scale=.5"], two, r#"{"num_heads":2,"scale":0.5}"#);
    agree(&["--scale", "0"], two, r#"{"num_heads":2,"scale":0}"#);
    let causal = r#"{"num_heads":2,"causal":true,"query_offset":1}"#;
    agree(&["--query-offset", "-2"], causal, r#"{"num_heads":2,"causal":true,"query_offset":-2}"#);
    agree(&["--query-offset=0"], causal, r#"{"num_heads":2,"causal":true}"#);
}

#[test]
fn a_flag_stands_in_for_a_field_that_is_missing_or_wrong() {
    let case = CaseFile::new("{}").random("query", &[1, 4, 4]).random("key", &[1, 4, 2]);
    let folder = Folder::with_case(&case);
    let flags = ["--num-heads", "2", "--num-kv-heads", "1"];
    let said = Folder::with_case(&case.clone().metadata("attention", r#"{"num_heads":2,"num_kv_heads":1}"#));
    assert_eq!(folder.output_bytes(&flags), said.output_bytes(&[]));
    assert_eq!(folder.on_cpu(&["run", CASE, "--num-heads", "2"]).code, Some(2));
    let narrow = Folder::with_case(&plain(r#"{"num_heads":2,"head_dim":3}"#));
    assert_eq!(narrow.on_cpu(&["run", CASE]).code, Some(2));
    narrow.on_cpu(&["run", CASE, "--head-dim", "2"]).done();
}

#[test]
fn a_flag_overrides_dropout_and_the_seed_has_nothing_to_do_without_it() {
    let folder = Folder::with_case(&plain(r#"{"num_heads":2,"dropout":0.5,"seed":7}"#));
    let trained = folder.output_bytes(&[]);
    assert_eq!(trained, folder.output_bytes(&["--seed", "7"]));
    assert_ne!(trained, folder.output_bytes(&["--seed", "8"]));
    assert_ne!(trained, folder.output_bytes(&["--dropout", "0.25"]));
    let evaluated = folder.output_bytes(&["--dropout", "0"]);
    assert_ne!(trained, evaluated);
    assert_eq!(evaluated, folder.output_bytes(&["--dropout", "0", "--seed", "18446744073709551615"]));
    assert_eq!(evaluated, Folder::with_case(&plain(r#"{"num_heads":2,"dropout":0}"#)).output_bytes(&[]));
}

#[test]
fn a_flag_overrides_the_tolerance() {
    let case = CaseFile::new(r#"{"num_heads":1,"tolerance":0.001}"#).floats("query", &[1, 1, 1], &[1.0]).floats(
        "expected.output",
        &[1, 1, 1],
        &[1.02],
    );
    let folder = Folder::with_case(&case);
    assert_eq!(folder.on_cpu(&["check", CASE]).code, Some(1));
    assert_eq!(folder.on_cpu(&["check", CASE, "--tolerance", "0.009"]).code, Some(1));
    assert!(folder.on_cpu(&["check", CASE, "--tolerance", "0.01"]).done().contains("tolerance 1e-2"));
}

#[test]
fn every_choice_of_kernel_gives_the_same_on_the_cpu() {
    let folder = Folder::with_case(&plain(r#"{"num_heads":2}"#));
    let [on, off, auto] = ["on", "off", "auto"].map(|fused| folder.output_bytes(&["--fused", fused]));
    assert_eq!((&on, &off), (&off, &auto));
}

/// The same four projections of width 4 in every layout, under a prefix.
fn layouts(prefix: &str) -> Vec<(&'static str, CaseFile)> {
    let ours = CaseFile::without_settings().projections("", [[4, 4]; 4]);
    let [q, k, v, o] = ["W_q.weight", "W_k.weight", "W_v.weight", "W_o.weight"].map(|name| ours.numbers(name));
    let stacked = [q.clone(), k.clone(), v.clone()].concat();
    let separate = |names: [&str; 4]| {
        let matrices = names.into_iter().zip([&q, &k, &v, &o]);
        let file = CaseFile::without_settings().random(&format!("{prefix}LayerNorm.weight"), &[4]);
        matrices.fold(file, |file, (name, matrix)| file.floats(&format!("{prefix}{name}"), &[4, 4], matrix))
    };
    let one = |[inputs, output]: [&str; 2], shape: &[usize], stack: &[f32], o: &[f32]| {
        CaseFile::without_settings().floats(&format!("{prefix}{inputs}"), shape, stack).floats(
            &format!("{prefix}{output}"),
            &[4, 4],
            o,
        )
    };
    let transposed = |matrix: &[f32], rows: usize| -> Vec<f32> {
        (0..4 * rows).map(|index| matrix[index % rows * 4 + index / rows]).collect()
    };
    let under = |stem: &str, names: [&str; 4]| names.map(|name| format!("{stem}.{name}.weight"));
    let bert = under("attention", ["self.query", "self.key", "self.value", "output.dense"]);
    let llama = under("self_attn", ["q_proj", "k_proj", "v_proj", "o_proj"]);
    vec![
        ("D2L", separate(["W_q.weight", "W_k.weight", "W_v.weight", "W_o.weight"])),
        ("PyTorch", one(["in_proj_weight", "out_proj.weight"], &[12, 4], &stacked, &o)),
        ("PyTorch apart", separate(["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"])),
        ("BERT", separate(bert.each_ref().map(String::as_str))),
        ("Llama", separate(llama.each_ref().map(String::as_str))),
        (
            "GPT-2",
            one(["attn.c_attn.weight", "attn.c_proj.weight"], &[4, 12], &transposed(&stacked, 12), &transposed(&o, 4)),
        ),
    ]
}

#[test]
fn weights_of_another_file_are_taken_in_every_layout() {
    let settings = r#"{"num_heads":2}"#;
    let said = Folder::with_case(&plain(settings).projections("", [[4, 4]; 4])).output_bytes(&[]);
    let folder = Folder::with_case(&plain(settings));
    assert_ne!(folder.output_bytes(&[]), said);
    for prefix in ["", "model.layers.0."] {
        for (layout, file) in layouts(prefix) {
            file.write(folder.path("weights"));
            let got = folder.output_bytes(&["--weights", "weights", "--prefix", prefix]);
            assert_eq!(got, said, "{layout} under {prefix:?}");
        }
    }
}

#[test]
fn the_prefix_chooses_the_layer() {
    let folder = Folder::with_case(&plain(r#"{"num_heads":2,"prefix":"a."}"#).projections("a.", [[4, 4]; 4]));
    let both = CaseFile::without_settings().projections("a.", [[4, 4]; 4]).projections("b.", [[4, 4]; 4]);
    both.write(folder.path("weights"));
    let own = folder.output_bytes(&[]);
    assert_eq!(folder.output_bytes(&["--weights", "weights"]), own);
    let other = folder.output_bytes(&["--weights", "weights", "--prefix", "b"]);
    assert_ne!(other, own);
    let said = plain(r#"{"num_heads":2,"prefix":"b."}"#).projections("b.", [[4, 4]; 4]);
    assert_eq!(other, Folder::with_case(&said).output_bytes(&[]));
}
