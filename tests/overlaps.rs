//! The user's tensors on each other in one buffer: refused, or computed right. Needs any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use std::collections::BTreeMap;

use multihead::graph::{Source, Value};
use multihead::{
    AttentionInputs, DType, Error, Gpu, Graph, GraphBuilder, HostTensor, Inputs, Mask, Plan, PlanOptions, Tensor,
    reference,
};
use support::layers::Spec;
use support::users::{users_buffer, words};
use support::{first_difference, gpu, random};
use wgpu::BufferUsages as Usage;

const USAGE: Usage = Usage::STORAGE.union(Usage::COPY_DST).union(Usage::COPY_SRC);

/// Places of tensors in one buffer, by name: byte offset and strides.
type Places<'a> = [(&'a str, u64, Option<Vec<usize>>)];

/// Where in the buffer each element of a value lies, in words.
fn words_of(value: &Value, offset: u64, strides: Option<&Vec<usize>>) -> Vec<usize> {
    let axes = value.shape.axes();
    let dense: Vec<usize> = (0..axes.len()).map(|axis| axes[axis + 1..].iter().product()).collect();
    let first = vec![usize::try_from(offset).unwrap() / 4];
    let steps = axes.iter().zip(strides.unwrap_or(&dense));
    steps.fold(first, |places, (&axis, &stride)| {
        places.iter().flat_map(|place| (0..axis).map(move |index| place + index * stride)).collect()
    })
}

/// Compiles a graph of 32-bit floats with some of its tensors in one buffer, writes those that are given, runs, and
/// holds every output against the reference.
fn compute(gpu: &Gpu, graph: &Graph, given: &BTreeMap<String, HostTensor>, places: &Places<'_>) -> Result<(), Error> {
    let buffer = users_buffer(gpu.device(), 1 << 14, USAGE);
    let value_of = |name: &str| graph.values().find(|(_, value)| value.name == name).unwrap().1;
    let mut in_buffer = vec![-7.0_f32; 1 << 12];
    let mut tensors = BTreeMap::new();
    for (name, offset, strides) in places {
        let tensor = Tensor::new(&buffer).at(*offset);
        let tensor = strides.iter().fold(tensor, |tensor, strides| tensor.with_strides(strides.clone()));
        tensors.insert((*name).to_owned(), tensor);
        if let Some(given) = given.get(*name) {
            let places = words_of(value_of(name), *offset, strides.as_ref());
            places.into_iter().zip(given.data()).for_each(|(place, number)| in_buffer[place] = *number);
        }
    }
    gpu.queue().write_buffer(&buffer, 0, bytemuck::cast_slice(&in_buffer));
    let all = |source: Source| {
        let names = graph.sources(source).map(|(_, value)| value.name.as_str());
        names.map(|name| (name, &given[name])).collect::<Vec<_>>()
    };
    let elsewhere = |source| {
        let all = all(source).into_iter().filter(|(name, _)| !tensors.contains_key(*name));
        all.fold(Inputs::new(), |inputs, (name, tensor)| inputs.with(name, tensor))
    };
    let options = PlanOptions { tensors: tensors.clone(), ..PlanOptions::default() };
    let plan = pollster::block_on(Plan::new(gpu, graph, &elsewhere(Source::Parameter), &options))?;
    let mut got = pollster::block_on(plan.run(&elsewhere(Source::Input)))?.outputs;
    let written = words(gpu.device(), gpu.queue(), &buffer);
    for (name, offset, strides) in places {
        let (id, value) = graph.values().find(|(_, value)| value.name == *name).unwrap();
        if graph.outputs().contains(&id) {
            let places = words_of(value, *offset, strides.as_ref());
            let data = places.iter().map(|&place| written[place]).collect();
            got.insert((*name).to_owned(), HostTensor::new(value.shape.clone(), data).unwrap());
        }
    }
    let given =
        |source| all(source).into_iter().fold(Inputs::new(), |inputs, (name, tensor)| inputs.with(name, tensor));
    support::compare(&got, graph, &given(Source::Parameter), &given(Source::Input), &format!("{places:?}"));
    Ok(())
}

/// `early` = x·Aᵀ, then `middle` = early·Bᵀ, `late` = z·Cᵀ; all but `middle` are outputs, and so is the input `kept`.
fn chained() -> (Graph, BTreeMap<String, HostTensor>) {
    let mut rng = fastrand::Rng::with_seed(61);
    let mut given = BTreeMap::new();
    let mut builder = GraphBuilder::new();
    let shape = [8, 8];
    let mut value = |builder: &mut GraphBuilder, name: &str, is_parameter: bool| {
        given.insert(name.to_owned(), random(&mut rng, shape));
        if is_parameter { builder.parameter(name, shape) } else { builder.input(name, shape, DType::F32) }.unwrap()
    };
    let [x, z, kept] = ["x", "z", "kept"].map(|name| value(&mut builder, name, false));
    let [a, b, c] = ["A", "B", "C"].map(|name| value(&mut builder, name, true));
    let early = builder.linear("early", x, a, None).unwrap();
    let middle = builder.linear("middle", early, b, None).unwrap();
    let late = builder.linear("late", z, c, None).unwrap();
    let last = builder.linear("last", middle, kept, None).unwrap();
    (builder.finish(&[early, late, last, kept]), given)
}

/// Every pair of tensors, on each other wholly, by half, by one element, and side by side.
#[test]
fn every_pair_of_tensors_is_refused_or_computed_right() {
    let gpu = gpu();
    let (graph, given) = chained();
    let names = ["x", "z", "kept", "A", "B", "C", "early", "late", "last"];
    let mut allowed = Vec::new();
    for (index, one) in names.iter().enumerate() {
        for other in &names[..index] {
            for offset in [0, 128, 252] {
                if given.contains_key(*one) && given.contains_key(*other) {
                    continue; // both are only read: whatever is there is right, but not two different numbers
                }
                match compute(&gpu, &graph, &given, &[(other, 0, None), (one, offset, None)]) {
                    Ok(()) => allowed.push(format!("{one} on {other}")),
                    Err(error) => {
                        let told = error.to_string();
                        assert!(matches!(error, Error::Invalid(_)), "{error}");
                        assert!(told.contains(one) && told.contains(other) && told.contains("bytes"), "{error}");
                    }
                }
            }
        }
    }
    allowed.dedup();
    assert_eq!(allowed, ["late on x", "last on x", "last on z"], "in place where nobody reads any more");
}

#[test]
fn what_is_refused_is_told_with_names_bytes_and_reason() {
    let gpu = gpu();
    let (graph, given) = chained();
    let refusal = |places: &Places<'_>| compute(&gpu, &graph, &given, places).unwrap_err();
    insta::assert_snapshot!(refusal(&[("early", 0, None), ("late", 64, None)]), @"early at bytes 0..256 and late at bytes 64..320 lie on each other in one buffer, but both are written; give each a place of its own");
    insta::assert_snapshot!(refusal(&[("early", 0, None), ("z", 252, None)]), @"early at bytes 0..256 and z at bytes 252..508 lie on each other in one buffer, but z is needed after early is written; give each a place of its own");
    insta::assert_snapshot!(refusal(&[("late", 0, None), ("A", 0, None)]), @"A at bytes 0..256 and late at bytes 0..256 lie on each other in one buffer, but A is read by every run and late written by each; give each a place of its own");
    insta::assert_snapshot!(refusal(&[("last", 4, None), ("kept", 0, None)]), @"kept at bytes 0..256 and last at bytes 4..260 lie on each other in one buffer, but kept is needed after last is written; give each a place of its own");
    insta::assert_snapshot!(refusal(&[("late", 0, Some(vec![16, 1])), ("last", 28, Some(vec![16, 1]))]), @"last at bytes 28..508 and late at bytes 0..480 lie on each other in one buffer, but both are written; give each a place of its own");
}

/// Rows of one tensor between the rows of another: their reaches meet, their elements do not.
#[test]
fn tensors_between_each_others_rows_do_not_lie_on_each_other() {
    let gpu = gpu();
    let (graph, given) = chained();
    let rows = |offset: u64| (offset * 4, Some(vec![32, 1]));
    let [(early, strides), (late, _), (x, _), (z, _)] = [0, 8, 16, 24].map(rows);
    let places = [("early", early), ("late", late), ("x", x), ("z", z)].map(|(name, at)| (name, at, strides.clone()));
    compute(&gpu, &graph, &given, &places).unwrap();
    let columns = |offset: u64| (offset * 4, Some(vec![1, 32]));
    let places = [("early", columns(0)), ("last", columns(8))].map(|(name, (at, strides))| (name, at, strides));
    compute(&gpu, &graph, &given, &places).unwrap();
    compute(&gpu, &graph, &given, &[("early", 0, Some(vec![1, 32])), ("late", 28, Some(vec![1, 32]))]).unwrap_err();
}

/// Self-attention in place: the output is where the query was.
#[test]
fn the_output_may_take_the_querys_place() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(62);
    let layer = Spec::new(2, 5, 5, 2, 4).layer(&mut rng);
    let inputs = AttentionInputs {
        mask: Mask { causal: true, ..Mask::default() },
        ..AttentionInputs::self_attention(random(&mut rng, [2, 5, 8]))
    };
    let buffer = users_buffer(gpu.device(), 320, USAGE);
    gpu.queue().write_buffer(&buffer, 0, bytemuck::cast_slice(inputs.query.data()));
    let tensors = ["query", "output"].map(|name| (name.to_owned(), Tensor::new(&buffer))).into();
    let options = PlanOptions { tensors, ..PlanOptions::default() };
    let plan = pollster::block_on(layer.plan(&gpu, &inputs.call_shape(), false, &options)).unwrap();
    pollster::block_on(plan.run(&Inputs::new())).unwrap();
    let got = words(gpu.device(), gpu.queue(), &buffer);
    let (truth, naive) = (layer.reference::<f64>(&inputs).unwrap(), layer.reference::<f32>(&inputs).unwrap());
    assert_eq!(first_difference(&got, truth[0].data(), naive[0].data()), None);
}

/// An input that is also an output stays where the user has it, with strides as without.
#[test]
fn an_input_that_is_an_output_keeps_its_place_and_its_name() {
    let gpu = gpu();
    let (graph, given) = chained();
    for strides in [None, Some(vec![16, 1]), Some(vec![1, 8])] {
        compute(&gpu, &graph, &given, &[("kept", 12, strides)]).unwrap();
    }
    let names: Vec<_> = reference::interpret::<f64>(
        &graph,
        &["A", "B", "C"].iter().fold(Inputs::new(), |inputs, name| inputs.with(name, &given[*name])),
        &["x", "z", "kept"].iter().fold(Inputs::new(), |inputs, name| inputs.with(name, &given[*name])),
    )
    .unwrap()
    .into_keys()
    .collect();
    assert_eq!(names, ["early", "kept", "last", "late"]);
}
