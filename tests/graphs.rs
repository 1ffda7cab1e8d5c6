//! Graphs that a caller gets wrong: an error with the names, never a panic. Needs no device.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

use std::sync::Arc;

use multihead::graph::{
    AppendKey, CopyStrided, Custom, CustomKernel, HeadColumns, KeyBand, Matmul, ProductHeads, Softmax, TransposeHeads,
    ValueId,
};
use multihead::{DType, DeviceProfile, Error, GraphBuilder, Inputs, PlanSummary, reference};

/// Every way to add a node, with an operand to choose; the others are right.
type AddNode = fn(&mut GraphBuilder, [ValueId; 3], ValueId) -> Result<ValueId, Error>;

fn softmax(scores: ValueId) -> Softmax {
    let (band, none) = (KeyBand::ALL, None);
    Softmax { scores, valid_lens: none, attend_mask: none, bias: none, num_heads: 1, scale: 1.0, band, extra_keys: 0 }
}

fn matmul(lhs: ValueId, rhs: ValueId) -> Matmul {
    Matmul { transpose_rhs: true, ..Matmul::of(lhs, rhs) }
}

fn custom(inputs: Vec<ValueId>) -> Custom {
    let (params, workgroups) = (Vec::new(), [1, 1, 1]);
    let kernel = CustomKernel { name: "theirs".into(), wgsl: String::new(), params, workgroups, cpu: None };
    Custom { kernel: Arc::new(kernel), inputs }
}

/// Right operands: (1, 4, 4), (4, 4) and (1, 1, 4).
const NODES: [(&str, AddNode); 17] = [
    ("linear x", |builder, [_, w, _], id| builder.linear("out", id, w, None)),
    ("linear weight", |builder, [x, _, _], id| builder.linear("out", x, id, None)),
    ("linear bias", |builder, [x, w, _], id| builder.linear("out", x, w, Some(id))),
    ("matmul lhs", |builder, [_, w, _], id| builder.matmul("out", matmul(id, w))),
    ("matmul rhs", |builder, [x, _, _], id| builder.matmul("out", matmul(x, id))),
    ("matmul bias", |builder, [x, w, _], id| builder.matmul("out", Matmul { bias: Some(id), ..matmul(x, w) })),
    ("softmax scores", |builder, _, id| builder.softmax("out", softmax(id))),
    ("softmax lens", |builder, [x, ..], id| builder.softmax("out", Softmax { valid_lens: Some(id), ..softmax(x) })),
    ("softmax mask", |builder, [x, ..], id| builder.softmax("out", Softmax { attend_mask: Some(id), ..softmax(x) })),
    ("softmax bias", |builder, [x, ..], id| builder.softmax("out", Softmax { bias: Some(id), ..softmax(x) })),
    ("transpose_qkv", |builder, _, input| builder.transpose_qkv("out", TransposeHeads { input, num_heads: 1 })),
    ("transpose_output", |builder, _, input| builder.transpose_output("out", TransposeHeads { input, num_heads: 1 })),
    ("append_key input", |builder, [_, _, key], input| builder.append_key("out", AppendKey { input, key })),
    ("append_key key", |builder, [input, ..], key| builder.append_key("out", AppendKey { input, key })),
    ("copy", |builder, _, input| {
        builder.copy("out", CopyStrided { input, axes: [1, 1, 1, 2], from: [0, 0, 0, 1], to: [0, 0, 0, 1] })
    }),
    ("custom first", |builder, [x, ..], id| builder.custom("out", custom(vec![id, x]), [4])),
    ("custom last", |builder, [x, ..], id| builder.custom("out", custom(vec![x, id]), [4])),
];

fn operands(builder: &mut GraphBuilder) -> [ValueId; 3] {
    let shapes: [(&str, &[usize]); 3] = [("x", &[1, 4, 4]), ("W", &[4, 4]), ("key", &[1, 1, 4])];
    shapes.map(|(name, shape)| builder.input(name, shape.to_vec(), DType::F32).unwrap())
}

/// Heads side by side are matrices of a batch: columns that are not there, and one matrix for all, are refused.
#[test]
fn heads_side_by_side_must_be_there() {
    let columns = |first, num_heads, head_dim| Some(HeadColumns { first, num_heads, head_dim });
    let with = |lhs, rhs, output| ProductHeads { lhs, rhs, output };
    let add = |heads: ProductHeads, rhs_axes: &[usize]| {
        let mut builder = GraphBuilder::new();
        let lhs = builder.input("lhs", [2, 3, 8], DType::F32).unwrap();
        let rhs = builder.input("rhs", rhs_axes.to_vec(), DType::F32).unwrap();
        builder.matmul("out", Matmul { heads, ..Matmul::of(lhs, rhs) })
    };
    assert!(add(with(columns(0, 2, 4), columns(0, 2, 3), Some(2)), &[2, 4, 6]).is_ok());
    for (heads, rhs) in [
        (with(columns(1, 2, 4), columns(0, 2, 3), None), vec![2, 4, 6]),
        (with(columns(0, 0, 4), columns(0, 2, 3), None), vec![2, 4, 6]),
        (with(columns(0, 2, usize::MAX), columns(0, 2, 3), None), vec![2, 4, 6]),
        (with(columns(usize::MAX, 2, 4), columns(0, 2, 3), None), vec![2, 4, 6]),
        (with(columns(0, 2, 4), columns(0, 3, 2), None), vec![2, 4, 6]),
        (with(columns(0, 2, 4), columns(0, 2, 3), Some(3)), vec![2, 4, 6]),
        (with(columns(0, 2, 4), columns(0, 2, 3), Some(0)), vec![2, 4, 6]),
        (with(columns(0, 2, 4), None, None), vec![4, 6]),
        (with(None, None, Some(2)), vec![8, 6]),
    ] {
        let error = add(heads, &rhs).unwrap_err();
        assert!(matches!(error, Error::WrongShape { .. } | Error::Invalid(_)), "{heads:?}: {error}");
    }
}

#[test]
fn a_value_of_another_graph_is_refused_by_every_node() {
    let mut other = GraphBuilder::new();
    let foreign = (0..9).map(|index| other.input(&format!("foreign {index}"), [1, 4, 4], DType::F32).unwrap()).last();
    for (what, add) in NODES {
        let mut builder = GraphBuilder::new();
        let own = operands(&mut builder);
        let error = add(&mut builder, own, foreign.unwrap()).unwrap_err();
        assert!(matches!(error, Error::Invalid(_)) && error.to_string().contains("another graph"), "{what}: {error}");
    }
    let mut builder = GraphBuilder::new();
    operands(&mut builder);
    let graph = builder.finish(&[foreign.unwrap()]);
    let planned = PlanSummary::new(&graph, &DeviceProfile::portable()).unwrap_err();
    insta::assert_snapshot!(planned, @"an output is value 8 of a graph that has 3; the value is of another graph");
    let x = multihead::HostTensor::new([1, 4, 4], vec![0.0; 16]).unwrap();
    let w = multihead::HostTensor::new([4, 4], vec![0.0; 16]).unwrap();
    let key = multihead::HostTensor::new([1, 1, 4], vec![0.0; 4]).unwrap();
    let inputs = Inputs::new().with("x", &x).with("W", &w).with("key", &key);
    assert!(matches!(reference::interpret::<f32>(&graph, &Inputs::new(), &inputs), Err(Error::Invalid(_))));
    assert!(graph.to_string().contains("key"), "it prints nevertheless");
}

#[test]
fn a_value_of_another_type_is_refused_by_every_node() {
    for (what, add) in NODES {
        let right = match what {
            "softmax lens" => DType::U32,
            "softmax mask" => DType::Bool,
            _ => DType::F32,
        };
        for dtype in [DType::F32, DType::U32, DType::Bool].into_iter().filter(|&dtype| dtype != right) {
            let mut builder = GraphBuilder::new();
            let own = operands(&mut builder);
            let typed = builder.input("typed", [1, 4, 4], dtype).unwrap();
            let error = add(&mut builder, own, typed).unwrap_err();
            let expected = format!("out would read typed as {right}, but typed is {dtype}");
            assert_eq!(error.to_string(), expected, "{what}");
        }
    }
}

#[test]
fn an_output_is_given_once_and_is_floats() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", [2], DType::F32).unwrap();
    let graph = builder.finish(&[x, x]);
    let given = multihead::HostTensor::new([2], vec![1.0, 2.0]).unwrap();
    let outputs = reference::interpret::<f32>(&graph, &Inputs::new(), &Inputs::new().with("x", &given)).unwrap();
    assert_eq!(outputs["x"], given);
    for dtype in [DType::U32, DType::Bool] {
        let mut builder = GraphBuilder::new();
        let lens = builder.input("lens", [2], dtype).unwrap();
        let error = PlanSummary::new(&builder.finish(&[lens]), &DeviceProfile::portable()).unwrap_err();
        assert_eq!(error.to_string(), format!("the output lens is {dtype}, but outputs are 32-bit floats"));
    }
}

/// Sizes that are no axes, so that no shape is wrong.
#[test]
fn numbers_that_no_op_has_are_refused() {
    let huge = [0, 1 << 30, 1 << 40, usize::MAX];
    for group in huge {
        let mut builder = GraphBuilder::new();
        let [x, w, _] = operands(&mut builder);
        let error = builder.matmul("out", Matmul { group, ..matmul(x, w) }).unwrap_err();
        assert!(matches!(error, Error::OutOfRange { .. }), "{group}: {error}");
    }
    for num_heads in huge {
        let mut builder = GraphBuilder::new();
        let [input, ..] = operands(&mut builder);
        assert!(builder.transpose_qkv("split", TransposeHeads { input, num_heads }).is_err(), "{num_heads}");
        assert!(builder.transpose_output("joined", TransposeHeads { input, num_heads }).is_err(), "{num_heads}");
        assert!(builder.softmax("weights", Softmax { num_heads, ..softmax(input) }).is_err(), "{num_heads}");
        let extra = Softmax { extra_keys: num_heads, ..softmax(input) };
        assert_eq!(builder.softmax("extra", extra).is_ok(), num_heads == 0, "{num_heads}");
    }
    for axes in [[1, 1, 1 << 40, 1 << 40], [1, 1, usize::MAX, 1], [1 << 30, 1, 1, 1], [usize::MAX; 4]] {
        let mut builder = GraphBuilder::new();
        let [input, ..] = operands(&mut builder);
        for (from, to) in [([0; 4], [0; 4]), ([0; 4], [usize::MAX; 4]), ([usize::MAX; 4], [0; 4])] {
            assert!(builder.copy("out", CopyStrided { input, axes, from, to }).is_err(), "{axes:?}");
        }
    }
}
