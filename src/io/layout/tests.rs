use super::*;
use crate::attention::Linear;
use crate::io::write::TensorFile;
use crate::shape::{HostTensor, Shape};

/// Numbers that differ from place to place and from tensor to tensor.
fn tensor<const RANK: usize>(seed: u32, shape: [usize; RANK]) -> HostTensor {
    let shape = Shape::from(shape);
    let len = shape.checked_len().unwrap();
    let numbers = (0..len).map(|index| seed as f32 * 1000.0 + index as f32);
    HostTensor::new(shape, numbers.collect()).unwrap()
}

fn linear(seed: u32, rows: usize, cols: usize) -> Linear {
    Linear { weight: tensor(seed, [rows, cols]), bias: Some(tensor(seed + 1, [rows])) }
}

/// E = 4, all widths equal.
fn square() -> Weights {
    Weights {
        w_q: linear(10, 4, 4),
        w_k: linear(20, 4, 4),
        w_v: linear(30, 4, 4),
        w_o: linear(40, 4, 4),
        bias_k: None,
        bias_v: None,
    }
}

/// Rows of `top` above rows of `bottom`.
fn stacked(parts: [&HostTensor; 3]) -> HostTensor {
    let mut axes = parts[0].shape().axes().to_vec();
    axes[0] = parts.iter().map(|part| part.shape().axes()[0]).sum();
    HostTensor::new(Shape::new(axes), parts.iter().flat_map(|part| part.data().to_vec()).collect()).unwrap()
}

/// Written the obvious way, unlike the code under test.
fn transposed(matrix: &HostTensor) -> HostTensor {
    let &[rows, cols] = matrix.shape().axes() else { panic!("a matrix") };
    let mut numbers = vec![0.0; rows * cols];
    for row in 0..rows {
        for col in 0..cols {
            numbers[col * rows + row] = matrix.data()[row * cols + col];
        }
    }
    HostTensor::new([cols, rows], numbers).unwrap()
}

fn file(tensors: &[(String, HostTensor)]) -> Vec<u8> {
    let tensors = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor.into()));
    let mut bytes = Vec::new();
    TensorFile::new(tensors.collect(), &[]).unwrap().write(&mut bytes).unwrap();
    bytes
}

/// The tensors that `layout` stores for these weights, under `prefix`.
fn stored(layout: &Layout, weights: &Weights, prefix: &str) -> Vec<(String, HostTensor)> {
    let Weights { w_q, w_k, w_v, w_o, bias_k, bias_v } = weights;
    let inputs = [w_q, w_k, w_v];
    let mut members: Vec<(&str, HostTensor)> = Vec::new();
    let orient = |weight: &HostTensor| match layout.storage {
        Storage::OutIn => weight.clone(),
        Storage::InOut => transposed(weight),
    };
    match &layout.weights {
        Parts::Stacked(name) => members.push((name, orient(&stacked(inputs.map(|linear| &linear.weight))))),
        Parts::Separate(names) => {
            members.extend(names.iter().zip(inputs).map(|(&name, linear)| (name, orient(&linear.weight))));
        }
    }
    match &layout.biases {
        Parts::Stacked(name) => {
            if inputs.iter().all(|linear| linear.bias.is_some()) {
                members.push((name, stacked(inputs.map(|linear| linear.bias.as_ref().unwrap()))));
            }
        }
        Parts::Separate(names) => {
            let biases = names.iter().zip(inputs).filter_map(|(&name, linear)| Some((name, linear.bias.clone()?)));
            members.extend(biases);
        }
    }
    let [output_weight, output_bias] = layout.output;
    members.push((output_weight, orient(&w_o.weight)));
    members.extend(w_o.bias.clone().map(|bias| (output_bias, bias)));
    members.extend(bias_k.clone().map(|extra| ("bias_k", extra)));
    members.extend(bias_v.clone().map(|extra| ("bias_v", extra)));
    members.into_iter().map(|(name, tensor)| (format!("{prefix}{name}"), tensor)).collect()
}

fn layout(name: &str) -> &'static Layout {
    LAYOUTS.iter().find(|layout| layout.name == name).expect("such a layout")
}

fn read(tensors: &[(String, HostTensor)], prefix: &str) -> Result<Weights, Error> {
    Archive::from_bytes(&file(tensors)).unwrap().weights(prefix)
}

fn refusal(tensors: &[(String, HostTensor)], prefix: &str) -> String {
    read(tensors, prefix).expect_err("these weights should be refused").to_string()
}

fn without(tensors: &[(String, HostTensor)], name: &str) -> Vec<(String, HostTensor)> {
    let kept: Vec<_> = tensors.iter().filter(|(other, _)| other != name).cloned().collect();
    assert_eq!(kept.len() + 1, tensors.len(), "{name}");
    kept
}

fn with(tensors: &[(String, HostTensor)], name: &str, tensor: HostTensor) -> Vec<(String, HostTensor)> {
    let mut tensors: Vec<_> = tensors.iter().filter(|(other, _)| other != name).cloned().collect();
    tensors.push((name.into(), tensor));
    tensors
}

#[test]
fn every_layout_reads_as_the_same_weights() {
    let mut bare = square();
    for linear in [&mut bare.w_q, &mut bare.w_k, &mut bare.w_v, &mut bare.w_o] {
        linear.bias = None;
    }
    for layout in &LAYOUTS {
        for (prefix, written) in [("", ""), ("h.0.", "h.0."), ("h.0.", "h.0")] {
            for weights in [&square(), &bare] {
                let mut tensors = stored(layout, weights, prefix);
                tensors.push((format!("{prefix}LayerNorm.weight"), tensor(0, [4])));
                assert_eq!(&read(&tensors, written).unwrap(), weights, "{}", layout.name);
            }
        }
    }
}

#[test]
fn widths_may_differ_where_the_layout_can_say_so() {
    let mut weights = square();
    weights.w_k = linear(50, 6, 10);
    weights.w_v = linear(60, 2, 7);
    weights.w_o = linear(70, 4, 2);
    for name in ["D2L", "PyTorch (kdim, vdim)", "BERT", "Llama"] {
        let tensors = stored(layout(name), &weights, "");
        assert_eq!(read(&tensors, "").unwrap(), weights, "{name}");
    }
}

#[test]
fn the_extra_key_comes_with_its_value() {
    let weights = Weights { bias_k: Some(tensor(1, [1, 1, 4])), bias_v: Some(tensor(2, [1, 1, 4])), ..square() };
    for name in ["D2L", "PyTorch", "PyTorch (kdim, vdim)"] {
        let tensors = stored(layout(name), &weights, "");
        assert_eq!(read(&tensors, "").unwrap(), weights, "{name}");
    }
    let tensors = stored(layout("PyTorch"), &weights, "");
    insta::assert_snapshot!(refusal(&without(&tensors, "bias_v"), ""), @"");
    insta::assert_snapshot!(refusal(&with(&tensors, "bias_k", tensor(0, [4])), ""), @"");
}

#[test]
fn single_biases_are_read_where_the_layout_has_them() {
    let mut qwen = square();
    qwen.w_o.bias = None;
    assert_eq!(read(&stored(layout("Llama"), &qwen, ""), "").unwrap(), qwen);
    let mut mixed = square();
    mixed.w_k.bias = None;
    assert_eq!(read(&stored(layout("D2L"), &mixed, ""), "").unwrap(), mixed);
    insta::assert_snapshot!(refusal(&stored(layout("Llama"), &mixed, ""), ""), @"");
}

#[test]
fn a_missing_member_is_named_with_what_was_found() {
    for layout in &LAYOUTS {
        let tensors = stored(layout, &square(), "l.");
        for member in layout.required() {
            let name = format!("l.{member}");
            let sentence = refusal(&without(&tensors, &name), "l.");
            assert!(sentence.contains(&format!("\"{name}\" of the {} layout is missing", layout.name)), "{sentence}");
        }
    }
    let torch = stored(layout("PyTorch"), &square(), "");
    insta::assert_snapshot!(refusal(&without(&torch, "in_proj_bias"), ""), @"");
    insta::assert_snapshot!(refusal(&without(&torch, "in_proj_weight"), ""), @"");
    let bert = stored(layout("BERT"), &square(), "l.");
    insta::assert_snapshot!(refusal(&without(&bert, "l.attention.output.dense.bias"), "l."), @"");
    insta::assert_snapshot!(refusal(&bert[..1], "l."), @"");
}

#[test]
fn a_misspelt_member_stands_beside_the_missing_one() {
    let tensors = stored(layout("D2L"), &square(), "l.");
    let misspelt = with(&without(&tensors, "l.W_k.weight"), "l.W_k.wieght", tensor(0, [4, 4]));
    insta::assert_snapshot!(refusal(&misspelt, "l."), @"");
}

#[test]
fn two_layouts_are_refused() {
    let both = |left: &str, right: &str| {
        let mut tensors = stored(layout(left), &square(), "");
        for (name, tensor) in stored(layout(right), &square(), "") {
            tensors = with(&tensors, &name, tensor);
        }
        refusal(&tensors, "")
    };
    insta::assert_snapshot!(both("D2L", "GPT-2"), @"");
    insta::assert_snapshot!(both("PyTorch", "PyTorch (kdim, vdim)"), @"");
    let mixed = with(&stored(layout("D2L"), &square(), ""), "out_proj.weight", tensor(0, [4, 4]));
    insta::assert_snapshot!(refusal(&mixed, ""), @"");
}

#[test]
fn shapes_that_do_not_belong_together_are_refused() {
    let torch = stored(layout("PyTorch"), &square(), "");
    insta::assert_snapshot!(refusal(&with(&torch, "in_proj_weight", tensor(0, [13, 4])), ""), @"");
    insta::assert_snapshot!(refusal(&with(&torch, "in_proj_weight", tensor(0, [12])), ""), @"");
    insta::assert_snapshot!(refusal(&with(&torch, "in_proj_bias", tensor(0, [11])), ""), @"");
    insta::assert_snapshot!(refusal(&with(&torch, "in_proj_bias", tensor(0, [12, 1])), ""), @"");
    insta::assert_snapshot!(refusal(&with(&torch, "out_proj.bias", tensor(0, [5])), ""), @"");
    let gpt = stored(layout("GPT-2"), &square(), "");
    insta::assert_snapshot!(refusal(&with(&gpt, "attn.c_attn.weight", tensor(0, [4, 13])), ""), @"");
    insta::assert_snapshot!(refusal(&with(&gpt, "attn.c_proj.weight", tensor(0, [4, 4, 1])), ""), @"");
    insta::assert_snapshot!(refusal(&with(&gpt, "attn.c_attn.bias", tensor(0, [4])), ""), @"");
}

#[test]
fn empty_weights_with_absurd_axes_are_walked_over_at_once() {
    let absurd = HostTensor::new([0, 3 << 50], vec![]).unwrap();
    let gpt = stored(layout("GPT-2"), &square(), "");
    let tensors = with(&without(&gpt, "attn.c_attn.bias"), "attn.c_attn.weight", absurd);
    let weights = read(&without(&tensors, "attn.c_proj.bias"), "").unwrap();
    assert_eq!(weights.w_v.weight.shape(), &[1 << 50, 0]);
}

#[test]
fn prefixes_without_weights_are_refused_with_those_that_have_some() {
    let mut tensors = stored(layout("BERT"), &square(), "encoder.layer.0.");
    tensors.extend(stored(layout("BERT"), &square(), "encoder.layer.10."));
    tensors.push(("encoder.layer.0.output.dense.weight".into(), tensor(0, [4])));
    insta::assert_snapshot!(refusal(&tensors, "encoder.layer.1"), @"");
    insta::assert_snapshot!(refusal(&tensors, "layers.10."), @"");
    insta::assert_snapshot!(refusal(&tensors, "0123"), @"");
    insta::assert_snapshot!(refusal(&tensors, "encoder.layer.0.output"), @"");
    let lonely = [("norm.weight".to_owned(), tensor(0, [4]))];
    insta::assert_snapshot!(refusal(&lonely, ""), @"");
    insta::assert_snapshot!(refusal(&lonely, "h.0."), @"");
    insta::assert_snapshot!(refusal(&tensors, "").replace(&"\"encoder.layer.0.attention".repeat(1), "…"), @"");
}

#[test]
fn a_layer_inside_a_transformer_is_reached_by_its_prefix() {
    let tensors = stored(layout("PyTorch"), &square(), "layers.0.self_attn.");
    assert_eq!(read(&tensors, "layers.0.self_attn").unwrap(), square());
    insta::assert_snapshot!(refusal(&tensors, "layers.0."), @"");
}

#[test]
fn weights_are_read_from_a_file_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    std::fs::write(&path, file(&stored(layout("Llama"), &square(), "m."))).unwrap();
    assert_eq!(weights_from_file(&path, "m").unwrap(), square());
    let sentence = weights_from_file(&path, "n").unwrap_err().to_string();
    assert!(sentence.ends_with(r#"model.safetensors: unknown weight prefix "n."; did you mean "m."?"#), "{sentence}");
}
