//! Every kernel against the reference, on awkward shapes. Needs any adapter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use multihead::graph::{
    AppendKey, AppendRows, Columns, CopyStrided, Dropout, DropoutPattern, HeadColumns, KeyBand, Matmul, MergePartials,
    PartialAttention, ProductHeads, Scores, Softmax, TransposeHeads,
};
use multihead::kernels::{Tile, Tiles};
use multihead::{DType, Gpu, Graph, GraphBuilder, HostTensor, Inputs, Plan, PlanOptions, PlanSummary, Tensor, kernels};
use support::users::{users_buffer, words};
use support::{check_graph, compare, gpu, random};

/// (batch, group, rows, inner, cols): axes of 1, tile − 1, tile, tile + 1, primes.
const PRODUCTS: [[usize; 5]; 16] = [
    [1, 1, 1, 1, 1],
    [1, 1, 7, 3, 5],
    [1, 1, 64, 16, 64],
    [1, 1, 63, 15, 65],
    [1, 1, 65, 17, 63],
    [1, 1, 130, 33, 129],
    [1, 1, 1, 257, 1],
    [1, 1, 13, 64, 48],
    [1, 1, 8, 32, 4],
    [1, 1, 9, 36, 132],
    [6, 1, 5, 7, 11],
    [6, 3, 5, 8, 12],
    [4, 2, 33, 64, 31],
    [3, 1, 1, 80, 96],
    [2, 2, 17, 4, 4],
    [1, 1, 3, 2051, 6],
];

fn kernels_of(op: &str) -> Vec<&'static str> {
    let names: Vec<_> = kernels::all().filter(|kernel| kernel.op == op).map(|kernel| kernel.name).collect();
    assert!(!names.is_empty(), "no kernel computes {op}");
    names
}

fn product(axes: [usize; 5], transpose_rhs: bool, bias: bool) -> Graph {
    let [batch, group, rows, inner, cols] = axes;
    let mut builder = GraphBuilder::new();
    let lhs = builder.input("lhs", [batch, rows, inner], DType::F32).unwrap();
    let right = if transpose_rhs { [batch / group, cols, inner] } else { [batch / group, inner, cols] };
    let rhs = builder.input("rhs", right, DType::F32).unwrap();
    let bias = bias.then(|| builder.input("bias", [cols], DType::F32).unwrap());
    let op = Matmul { bias, transpose_rhs, group, ..Matmul::of(lhs, rhs) };
    let out = builder.matmul("out", op).unwrap();
    builder.finish(&[out])
}

#[test]
fn matmul() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(1);
    for kernel in kernels_of("matmul") {
        for axes in PRODUCTS {
            for (transpose_rhs, with_bias) in [(false, false), (true, true)] {
                let graph = product(axes, transpose_rhs, with_bias);
                let tensors: Vec<_> = graph
                    .values()
                    .take(2 + usize::from(with_bias))
                    .map(|(_, v)| (v.name.clone(), random(&mut rng, v.shape.clone())))
                    .collect();
                let inputs = tensors.iter().fold(Inputs::new(), |inputs, (name, tensor)| inputs.with(name, tensor));
                let about = format!("matmul {axes:?}, transposed {transpose_rhs}, bias {with_bias}");
                check_graph(&gpu, &graph, &Inputs::new(), &inputs, Some(kernel), &about);
            }
        }
    }
}

/// What the products of all tiles have in common: one kernel, the reference's answer, and each other's bits.
fn check_tiles(gpu: &Gpu, graph: &Graph, inputs: &Inputs<'_>, about: &str) {
    let of_tile = |tile| {
        let (preferred_kernels, tiles) = (vec!["matmul_tiled"], Tiles::all(tile));
        let options = PlanOptions { preferred_kernels, tiles, ..PlanOptions::default() };
        let plan = pollster::block_on(Plan::new(gpu, graph, &Inputs::new(), &options)).unwrap();
        pollster::block_on(plan.poison()).unwrap();
        let got = pollster::block_on(plan.run(inputs)).unwrap().outputs;
        compare(&got, graph, &Inputs::new(), inputs, &format!("{about}, tile {tile}"));
        let step = PlanSummary::with_options(graph, gpu.profile(), &options).unwrap().steps.remove(0);
        assert_eq!(step.variant, "matmul_tiled", "{about}");
        let ([rows, cols], [batches, all_rows, all_cols]) = (tile.sides(), step.shape);
        let grid = u32::try_from(batches * all_rows.div_ceil(rows) * all_cols.div_ceil(cols)).unwrap();
        assert_eq!(step.workgroups, [grid, 1, 1], "{about}, tile {tile}");
        got["out"].data().iter().map(|number| number.to_bits()).collect::<Vec<_>>()
    };
    let [first, others @ ..] = Tile::ALL.map(|tile| (tile, of_tile(tile)));
    for (tile, bits) in others {
        assert_eq!(bits, first.1, "{about}: tiles {tile} and {}", first.0);
    }
}

#[test]
fn matmul_has_the_same_bits_with_every_tile() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(30);
    for axes in PRODUCTS.into_iter().chain([[2, 1, 129, 40, 31], [1, 1, 31, 23, 257], [3, 3, 257, 19, 7]]) {
        for (transpose_rhs, with_bias) in [(false, true), (true, false)] {
            let graph = product(axes, transpose_rhs, with_bias);
            let tensors: Vec<_> = graph
                .values()
                .take(2 + usize::from(with_bias))
                .map(|(_, v)| (v.name.clone(), random(&mut rng, v.shape.clone())))
                .collect();
            let inputs = tensors.iter().fold(Inputs::new(), |inputs, (name, tensor)| inputs.with(name, tensor));
            check_tiles(&gpu, &graph, &inputs, &format!("{axes:?}, transposed {transpose_rhs}, bias {with_bias}"));
        }
    }
}

/// Hidden keys are left out, and an infinity that is seen shows, whatever the tile.
#[test]
fn matmul_that_skips_hidden_keys_has_the_same_bits_with_every_tile() {
    let (gpu, mut rng) = (gpu(), fastrand::Rng::with_seed(31));
    let [batch, rows, inner, cols] = [2, 67, 21, 35];
    let mut builder = GraphBuilder::new();
    let weights = builder.input("weights", [batch, rows, inner], DType::F32).unwrap();
    let values = builder.input("values", [batch, inner, cols], DType::F32).unwrap();
    let out = builder.matmul("out", Matmul { skip_hidden: true, ..Matmul::of(weights, values) }).unwrap();
    let graph = builder.finish(&[out]);
    let mut weights = random(&mut rng, [batch, rows, inner]).into_data();
    weights.iter_mut().step_by(inner).for_each(|weight| *weight = -0.0);
    let mut values = random(&mut rng, [batch, inner, cols]).into_data();
    values[..cols].fill(f32::INFINITY);
    values[5 * cols + 3] = f32::INFINITY;
    let weights = HostTensor::new([batch, rows, inner], weights).unwrap();
    let values = HostTensor::new([batch, inner, cols], values).unwrap();
    check_tiles(&gpu, &graph, &Inputs::new().with("weights", &weights).with("values", &values), "hidden keys");
}

/// A right operand of two axes: all leading axes of the left one are rows.
#[test]
fn matmul_with_one_right_matrix_for_all_batches() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(2);
    for kernel in kernels_of("matmul") {
        for [batch, length, inner, cols] in [[3, 5, 8, 12], [2, 33, 7, 9], [70, 1, 4, 4]] {
            let mut builder = GraphBuilder::new();
            let x = builder.input("x", [batch, length, inner], DType::F32).unwrap();
            let w = builder.parameter("W", [cols, inner]).unwrap();
            let b = builder.parameter("b", [cols]).unwrap();
            let y = builder.linear("y", x, w, Some(b)).unwrap();
            let graph = builder.finish(&[y]);
            let [x, w, b] =
                [random(&mut rng, [batch, length, inner]), random(&mut rng, [cols, inner]), random(&mut rng, [cols])];
            let parameters = Inputs::new().with("W", &w).with("b", &b);
            check_graph(&gpu, &graph, &parameters, &Inputs::new().with("x", &x), Some(kernel), "linear");
        }
    }
}

/// (B, L, ·) with heads from column `first` on → (B·H, L, d), element by element.
fn apart(tensor: &HostTensor, HeadColumns { first, num_heads, head_dim }: HeadColumns) -> HostTensor {
    let &[batch, length, width] = tensor.shape().axes() else { panic!("three axes") };
    let mut data = Vec::new();
    for (entry, head) in (0..batch).flat_map(|entry| (0..num_heads).map(move |head| (entry, head))) {
        for row in 0..length {
            let place = (entry * length + row) * width + first + head * head_dim;
            data.extend_from_slice(&tensor.data()[place..place + head_dim]);
        }
    }
    HostTensor::new([batch * num_heads, length, head_dim], data).unwrap()
}

/// A product of heads side by side gives what the product of the same matrices one after the other gives.
fn check_heads(gpu: &Gpu, kernel: &'static str, axes: [usize; 6], sides: usize, transpose_rhs: bool) {
    let mut rng = fastrand::Rng::with_seed(3);
    let [batch, num_heads, group, rows, inner, cols] = axes;
    let [of_lhs, of_rhs, of_out] = [1, 2, 4].map(|side| sides & side != 0);
    let right = if transpose_rhs { [cols, inner] } else { [inner, cols] };
    // Other columns stand before and behind.
    let columns = |num_heads, head_dim| HeadColumns { first: 4, num_heads, head_dim };
    let mut builder = GraphBuilder::new();
    let mut operand = |name: &str, num_heads: usize, [length, width]: [usize; 2], beside: bool| {
        let heads = columns(num_heads, width);
        let wide = random(&mut rng, [batch, length, 8 + num_heads * width]);
        let matrices = apart(&wide, heads);
        let given = if beside { wide } else { matrices.clone() };
        (builder.input(name, given.shape().clone(), DType::F32).unwrap(), beside.then_some(heads), given, matrices)
    };
    let (lhs, lhs_heads, left, left_matrices) = operand("lhs", num_heads, [rows, inner], of_lhs);
    let (rhs, rhs_heads, right, right_matrices) = operand("rhs", num_heads / group, right, of_rhs);
    let output = of_out.then_some(num_heads);
    let heads = ProductHeads { lhs: lhs_heads, rhs: rhs_heads, output };
    let op = Matmul { transpose_rhs, group, skip_hidden: !transpose_rhs, heads, ..Matmul::of(lhs, rhs) };
    let out = builder.matmul("out", op).unwrap();
    let graph = builder.finish(&[out]);
    let inputs = Inputs::new().with("lhs", &left).with("rhs", &right);
    let about = format!("{axes:?}, sides {sides:03b}, transposed {transpose_rhs}");
    check_graph(gpu, &graph, &Inputs::new(), &inputs, Some(kernel), &about);

    let plain = product([batch * num_heads, group, rows, inner, cols], transpose_rhs, false);
    let matrices = Inputs::new().with("lhs", &left_matrices).with("rhs", &right_matrices);
    let expected = &multihead::reference::interpret::<f32>(&plain, &Inputs::new(), &matrices).unwrap()["out"];
    let got = &multihead::reference::interpret::<f32>(&graph, &Inputs::new(), &inputs).unwrap()["out"];
    let got = if of_out { apart(got, HeadColumns { first: 0, num_heads, head_dim: cols }) } else { got.clone() };
    assert_eq!(&got, expected, "{about}");
}

#[test]
fn matmul_of_heads_side_by_side() {
    let devices = [gpu(), support::cramped_gpu(6_000)];
    for axes in
        [[1, 1, 1, 5, 4, 8], [2, 4, 2, 17, 8, 12], [3, 2, 1, 9, 7, 5], [2, 6, 3, 33, 12, 20], [1, 3, 1, 70, 4, 4]]
    {
        for sides in 0..8 {
            for transpose_rhs in [false, true] {
                for (gpu, kernel) in
                    devices.iter().flat_map(|gpu| kernels_of("matmul").into_iter().map(move |k| (gpu, k)))
                {
                    check_heads(gpu, kernel, axes, sides, transpose_rhs);
                }
            }
        }
    }
}

/// A hidden weight (−0) leaves its row out whatever is in it; a visible 0 does not.
#[test]
fn matmul_leaves_hidden_rows_out() {
    let gpu = gpu();
    for kernel in kernels_of("matmul") {
        for inner in [3, 4, 20] {
            let mut builder = GraphBuilder::new();
            let lhs = builder.input("lhs", [1, 2, inner], DType::F32).unwrap();
            let rhs = builder.input("rhs", [1, inner, 4], DType::F32).unwrap();
            let op = Matmul { skip_hidden: true, ..Matmul::of(lhs, rhs) };
            let out = builder.matmul("out", op).unwrap();
            let graph = builder.finish(&[out]);
            let mut weights = vec![0.5; 2 * inner];
            weights[1] = -0.0;
            weights[inner + 1] = 0.0;
            let mut values: Vec<f32> = (0..inner * 4).map(|i| i as f32).collect();
            values[4] = f32::NAN;
            values[5] = f32::INFINITY;
            let (lhs, rhs) =
                (HostTensor::new([1, 2, inner], weights).unwrap(), HostTensor::new([1, inner, 4], values).unwrap());
            let inputs = Inputs::new().with("lhs", &lhs).with("rhs", &rhs);
            check_graph(&gpu, &graph, &Inputs::new(), &inputs, Some(kernel), &format!("hidden rows, inner {inner}"));
        }
    }
}

/// What a softmax test varies.
struct Masked {
    axes: [usize; 4],
    extra_keys: usize,
    lens: Option<Vec<usize>>,
    mask: Option<Vec<usize>>,
    bias: Option<Vec<usize>>,
    band: KeyBand,
}

fn masked(axes: [usize; 4]) -> Masked {
    Masked { axes, extra_keys: 0, lens: None, mask: None, bias: None, band: KeyBand::ALL }
}

fn check_softmax(gpu: &Gpu, rng: &mut fastrand::Rng, case: &Masked, about: &str) {
    let [batch, heads, queries, keys] = case.axes;
    let mut builder = GraphBuilder::new();
    let scores = builder.input("scores", [batch * heads, queries, keys + case.extra_keys], DType::F32).unwrap();
    let lens = case.lens.clone().map(|shape| builder.input("valid_lens", shape, DType::U32).unwrap());
    let mask = case.mask.clone().map(|shape| builder.input("attend_mask", shape, DType::Bool).unwrap());
    let bias = case.bias.clone().map(|shape| builder.input("bias", shape, DType::F32).unwrap());
    let op = Softmax {
        scores,
        valid_lens: lens,
        attend_mask: mask,
        bias,
        num_heads: heads,
        scale: 0.7,
        band: case.band,
        extra_keys: case.extra_keys,
    };
    let weights = builder.softmax("weights", op).unwrap();
    let graph = builder.finish(&[weights]);
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    let scores = random(rng, [batch * heads, queries, keys + case.extra_keys]);
    let lens = case.lens.as_ref().map(|shape| {
        HostTensor::new(shape.clone(), (0..count(shape)).map(|_| rng.u32(0..=u32::try_from(keys).unwrap())).collect())
            .unwrap()
    });
    let mask = case
        .mask
        .as_ref()
        .map(|shape| HostTensor::new(shape.clone(), (0..count(shape)).map(|_| rng.u8(0..3) > 0).collect()).unwrap());
    let bias = case.bias.as_ref().map(|shape| {
        let element = |kind: u8| match kind {
            0 => f32::NEG_INFINITY,
            1 => f32::MIN,
            other => f32::from(other) - 5.0,
        };
        HostTensor::new(shape.clone(), (0..count(shape)).map(|_| element(rng.u8(0..10))).collect()).unwrap()
    });
    let mut inputs = Inputs::new().with("scores", &scores);
    if let Some(lens) = &lens {
        inputs = inputs.with("valid_lens", lens);
    }
    if let Some(mask) = &mask {
        inputs = inputs.with("attend_mask", mask);
    }
    if let Some(bias) = &bias {
        inputs = inputs.with("bias", bias);
    }
    for kernel in kernels_of("softmax") {
        check_graph(gpu, &graph, &Inputs::new(), &inputs, Some(kernel), &format!("softmax {:?} {about}", case.axes));
    }
}

/// Lengths in a user's buffer are checked by nobody.
#[test]
fn a_length_beyond_the_keys_hides_none_whatever_its_highest_bit() {
    let gpu = gpu();
    let lens = [0, 3, 9, 10, i32::MAX as u32, 1 << 31, u32::MAX];
    let mut rng = fastrand::Rng::with_seed(8);
    let mut builder = GraphBuilder::new();
    let scores = builder.input("scores", [lens.len(), 2, 9], DType::F32).unwrap();
    let valid_lens = Some(builder.input("valid_lens", [lens.len()], DType::U32).unwrap());
    let (band, none) = (KeyBand::ALL, None);
    let op =
        Softmax { scores, valid_lens, attend_mask: none, bias: none, num_heads: 1, scale: 1.0, band, extra_keys: 0 };
    let weights = builder.softmax("weights", op).unwrap();
    let graph = builder.finish(&[weights]);
    let (scores, lens) = (random(&mut rng, [lens.len(), 2, 9]), HostTensor::new([lens.len()], lens.into()).unwrap());
    let inputs = Inputs::new().with("scores", &scores).with("valid_lens", &lens);
    for kernel in kernels_of("softmax") {
        check_graph(&gpu, &graph, &Inputs::new(), &inputs, Some(kernel), "lengths beyond the keys");
    }
}

#[test]
fn softmax() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(3);
    for axes in [
        [1, 1, 1, 1],
        [1, 1, 5, 7],
        [2, 3, 4, 9],
        [3, 2, 65, 33],
        [1, 4, 3, 127],
        [1, 1, 2, 128],
        [2, 1, 1, 129],
        [1, 1, 3, 2051],
    ] {
        let [batch, heads, queries, keys] = axes;
        check_softmax(&gpu, &mut rng, &masked(axes), "alone");
        check_softmax(&gpu, &mut rng, &Masked { lens: Some(vec![batch]), ..masked(axes) }, "lens (B,)");
        check_softmax(&gpu, &mut rng, &Masked { lens: Some(vec![batch, queries]), ..masked(axes) }, "lens (B, Lq)");
        for shape in [
            vec![queries, keys],
            vec![batch, queries, keys],
            vec![batch, 1, queries, keys],
            vec![1, heads, queries, keys],
            vec![batch, heads, queries, keys],
        ] {
            check_softmax(
                &gpu,
                &mut rng,
                &Masked { mask: Some(shape.clone()), ..masked(axes) },
                &format!("mask {shape:?}"),
            );
            check_softmax(
                &gpu,
                &mut rng,
                &Masked { bias: Some(shape.clone()), ..masked(axes) },
                &format!("bias {shape:?}"),
            );
        }
        for (causal, offset, window) in [
            (true, 0, None),
            (true, -2, None),
            (true, 3, Some(2)),
            (false, 0, Some(1)),
            (false, 1, Some(4)),
            (true, i64::MIN, None),
        ] {
            let band = KeyBand::new(causal, offset, window);
            let all = Masked {
                extra_keys: 1,
                lens: Some(vec![batch]),
                mask: Some(vec![batch, 1, queries, keys]),
                bias: Some(vec![queries, keys]),
                band,
                ..masked(axes)
            };
            check_softmax(&gpu, &mut rng, &Masked { band, ..masked(axes) }, &format!("band {band}"));
            check_softmax(&gpu, &mut rng, &all, &format!("everything, band {band}"));
        }
    }
}

/// Hidden weights stay −0, visible ones are scaled or become +0, NaN shows: to the bit but for the product's rounding.
#[test]
fn dropout() {
    let devices = [gpu(), support::cramped_gpu(5_000)];
    let mut rng = fastrand::Rng::with_seed(9);
    for [batch, heads, queries, keys] in [[1, 1, 1, 1], [2, 3, 5, 7], [1, 2, 3, 128], [3, 1, 65, 33], [1, 1, 2, 1031]] {
        for p in [0.0, 0.2, 0.25, 1.0] {
            let mut builder = GraphBuilder::new();
            let weights = builder.input("weights", [batch * heads, queries, keys], DType::F32).unwrap();
            let pattern = builder.input("pattern", [DropoutPattern::WORDS], DType::U32).unwrap();
            let dropped = builder.dropout("out", Dropout { weights, pattern, num_heads: heads }).unwrap();
            let graph = builder.finish(&[dropped]);
            let element = |kind: u8| match kind {
                0 => -0.0,
                1 => f32::NAN,
                other => f32::from(other) / 256.0,
            };
            let data = (0..batch * heads * queries * keys).map(|_| element(rng.u8(..))).collect();
            let weights = HostTensor::new([batch * heads, queries, keys], data).unwrap();
            let pattern = DropoutPattern::new(p, rng.u64(..), rng.u64(..)).unwrap().words();
            let inputs = Inputs::new().with("weights", &weights).with("pattern", &pattern);
            let truth = multihead::reference::interpret::<f32>(&graph, &Inputs::new(), &inputs).unwrap();
            for gpu in &devices {
                let options = PlanOptions::default();
                let plan = pollster::block_on(Plan::new(gpu, &graph, &Inputs::new(), &options)).unwrap();
                pollster::block_on(plan.poison()).unwrap();
                let got = pollster::block_on(plan.run(&inputs)).unwrap().outputs.remove("out").unwrap();
                for (got, truth) in got.data().iter().zip(truth["out"].data()) {
                    let same = got.to_bits() == truth.to_bits() || (got.is_nan() && truth.is_nan());
                    assert!(same, "p {p}: {got} instead of {truth}");
                }
            }
        }
    }
}

#[test]
fn transpose_qkv_and_transpose_output_are_exact_and_each_others_inverse() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(4);
    for [batch, length, num_heads, head_dim] in
        [[1, 1, 1, 1], [2, 3, 4, 5], [3, 17, 1, 7], [1, 9, 12, 1], [2, 65, 3, 48], [5, 1, 2, 257]]
    {
        let mut builder = GraphBuilder::new();
        let input = builder.input("x", [batch, length, num_heads * head_dim], DType::F32).unwrap();
        let split = builder.transpose_qkv("split", TransposeHeads { input, num_heads }).unwrap();
        let joined = builder.transpose_output("joined", TransposeHeads { input: split, num_heads }).unwrap();
        let graph = builder.finish(&[split, joined]);
        let x = random(&mut rng, [batch, length, num_heads * head_dim]);
        let inputs = Inputs::new().with("x", &x);
        let plan = pollster::block_on(Plan::new(&gpu, &graph, &Inputs::new(), &PlanOptions::default())).unwrap();
        pollster::block_on(plan.poison()).unwrap();
        let got = pollster::block_on(plan.run(&inputs)).unwrap().outputs;
        let truth = multihead::reference::interpret::<f32>(&graph, &Inputs::new(), &inputs).unwrap();
        assert_eq!(got, truth);
        assert_eq!(got["joined"].data(), x.data());
    }
}

#[test]
fn append_key() {
    let gpu = gpu();
    let mut rng = fastrand::Rng::with_seed(5);
    for [batch, length, width] in [[1, 0, 3], [1, 1, 1], [3, 5, 7], [2, 64, 96]] {
        let mut builder = GraphBuilder::new();
        let input = builder.input("x", [batch, length, width], DType::F32).unwrap();
        let key = builder.parameter("key", [1, 1, width]).unwrap();
        let out = builder.append_key("out", AppendKey { input, key }).unwrap();
        let graph = builder.finish(&[out]);
        let (x, key) = (random(&mut rng, [batch, length, width]), random(&mut rng, [1, 1, width]));
        check_graph(&gpu, &graph, &Inputs::new().with("key", &key), &Inputs::new().with("x", &x), None, "append_key");
    }
}

/// What a test of parts varies: [B, Lq, Lk, H, G, d, dv, parts, keys of a tile].
const PARTS: [[usize; 9]; 5] = [
    [1, 1, 1, 1, 1, 4, 4, 1, 64],
    [2, 3, 130, 4, 2, 8, 12, 2, 64],
    [1, 5, 300, 10, 1, 12, 8, 2, 128],
    [3, 2, 63, 2, 2, 20, 260, 4, 64],
    [2, 1, 700, 8, 1, 4, 20, 5, 128],
];

#[test]
fn partial_attention_and_merge_partials() {
    let gpu = support::portable_gpu();
    let mut rng = fastrand::Rng::with_seed(10);
    // Nothing; lengths and a learned key; mask and bias; a cache; dropout and a learned key.
    let bands = [None, None, Some([40, 30]), Some([0, 90]), Some([90, 77])]
        .map(|band| band.map_or(KeyBand::ALL, |[o, w]| KeyBand::new(true, o, Some(w.unsigned_abs()))));
    for axes in PARTS {
        let [batch, queries, num_keys, num_heads, num_kv_heads, head_dim, value_dim, parts, keys] = axes;
        for (kind, band) in bands.into_iter().enumerate() {
            let mut builder = GraphBuilder::new();
            let extra_keys = usize::from(kind == 1 || kind == 4);
            let mut tensors = Vec::new();
            let mut input = |name: &'static str, shape: Vec<usize>, rng: &mut fastrand::Rng| {
                tensors.push((name, random(rng, shape.clone())));
                builder.input(name, shape, DType::F32).unwrap()
            };
            let widths = [num_heads * head_dim, num_kv_heads * head_dim, num_kv_heads * value_dim];
            let query = input("query", vec![batch, queries, widths[0]], &mut rng);
            let key = input("key", vec![batch, num_keys + extra_keys, widths[1]], &mut rng);
            let value = input("value", vec![batch, num_keys + extra_keys, widths[2]], &mut rng);
            let bias = (kind == 2).then(|| input("bias", vec![batch, num_heads, queries, num_keys], &mut rng));
            let most = u32::try_from(num_keys).unwrap();
            let lens = HostTensor::new([batch], (0..batch).map(|_| rng.u32(0..=most)).collect()).unwrap();
            let seen = (0..queries * num_keys).map(|_| rng.u8(0..3) > 0).collect();
            let seen = HostTensor::new([queries, num_keys], seen).unwrap();
            let of_entry = |_| {
                let before = rng.u32(0..=most);
                [before, rng.u32(0..=most - before)]
            };
            let lengths = HostTensor::new([batch, 2], (0..batch).flat_map(of_entry).collect()).unwrap();
            let valid_lens = (kind == 1).then(|| builder.input("valid_lens", [batch], DType::U32).unwrap());
            let attend_mask =
                (kind == 2).then(|| builder.input("attend_mask", [queries, num_keys], DType::Bool).unwrap());
            let cached = (kind == 3).then(|| builder.input("lengths", [batch, 2], DType::U32).unwrap());
            let dropout = (kind == 4).then(|| builder.input("dropout", [4], DType::U32).unwrap());
            let pattern = DropoutPattern::new(0.2, 5, 6).unwrap().words();
            let whole = |tensor, count| Columns { tensor, first: 0, count };
            let scores = Scores {
                query: whole(query, widths[0]),
                key: whole(key, widths[1]),
                valid_lens,
                attend_mask,
                bias,
                num_heads,
                num_kv_heads,
                scale: 0.4,
                band,
                extra_keys,
            };
            let value = whole(value, widths[2]);
            let op = PartialAttention { scores, value, value_dim, lengths: cached, dropout, parts, keys };
            let partials = builder.partial_attention("partials", op).unwrap();
            let merge = MergePartials { partials, num_heads, parts };
            let joined = builder.merge_partials("joined", merge).unwrap();
            let graph = builder.finish(&[partials, joined]);
            let mut inputs = tensors.iter().fold(Inputs::new(), |inputs, (name, tensor)| inputs.with(name, tensor));
            match kind {
                1 => inputs = inputs.with("valid_lens", &lens),
                2 => inputs = inputs.with("attend_mask", &seen),
                3 => inputs = inputs.with("lengths", &lengths),
                4 => inputs = inputs.with("dropout", &pattern),
                _ => {}
            }
            check_graph(&gpu, &graph, &Inputs::new(), &inputs, None, &format!("parts {axes:?}, kind {kind}"));
        }
    }
}

/// (B, capacity, cache width), new rows, heads, width of a head.
const APPENDED: [[usize; 5]; 4] = [[1, 1, 1, 1, 1], [3, 9, 4, 2, 7], [2, 40, 33, 3, 8], [5, 70, 2, 1, 5]];

/// A cache of bits in a buffer of a device's own, new rows appended; what is there then.
fn appended_on(gpu: &Gpu, graph: &Graph, kept: &[u8], inputs: &Inputs<'_>) -> Vec<u8> {
    let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::COPY_SRC;
    let buffer = users_buffer(gpu.device(), (kept.len() as u64).next_multiple_of(16), usage);
    gpu.queue().write_buffer(&buffer, 0, kept);
    let mut options = PlanOptions::default();
    options.tensors.insert("cache".into(), Tensor::new(&buffer));
    let plan = pollster::block_on(Plan::new(gpu, graph, &Inputs::new(), &options)).unwrap();
    pollster::block_on(plan.run(inputs)).unwrap();
    let after: Vec<u8> = words(gpu.device(), gpu.queue(), &buffer).iter().flat_map(|x| x.to_le_bytes()).collect();
    after[..kept.len()].to_vec()
}

/// New rows where the lengths say, zeros behind each head, and nothing else touched: to the bit, −0 too, in floats of 32
/// and of 16 bits.
#[test]
fn append_rows() {
    let devices = [gpu(), support::cramped_gpu(8_000)];
    let mut rng = fastrand::Rng::with_seed(11);
    for [batch, capacity, rows, heads, width] in APPENDED {
        for dtype in [DType::F32, DType::F16] {
            let padded = usize::next_multiple_of(width, 4);
            let mut builder = GraphBuilder::new();
            let cache = builder.input("cache", [batch, capacity, heads * padded], dtype).unwrap();
            let new = builder.input("new", [batch, rows, heads * width + 3], DType::F32).unwrap();
            let lengths = builder.input("lengths", [batch, 2], DType::U32).unwrap();
            let columns = Columns { tensor: new, first: 2, count: heads * width };
            let op = AppendRows { cache, rows: columns, lengths, num_heads: heads };
            builder.append_rows("out", op).unwrap();
            let other = CopyStrided { input: new, axes: [1; 4], from: [0; 4], to: [0; 4] };
            let other = builder.copy("other", other).unwrap();
            let graph = builder.finish(&[other]);
            let x = random(&mut rng, [batch, rows, heads * width + 3]);
            let numbers = x.data().iter().enumerate().map(|(i, &x)| if i % 5 == 0 { -0.0 } else { x });
            let x = HostTensor::new(x.shape().clone(), numbers.collect()).unwrap();
            let of_entry =
                |_| [rng.u32(0..=u32::try_from(capacity).unwrap()), rng.u32(0..=u32::try_from(rows).unwrap())];
            let lengths = HostTensor::new([batch, 2], (0..batch).flat_map(of_entry).collect()).unwrap();
            let stored = |x: f32| match dtype {
                DType::F16 => half::f16::from_f32(x).to_le_bytes().to_vec(),
                _ => x.to_le_bytes().to_vec(),
            };
            let bytes = stored(0.0).len();
            let kept = random(&mut rng, [batch, capacity, heads * padded]);
            let kept: Vec<u8> = kept.data().iter().flat_map(|&x| stored(x)).collect();
            let mut truth = kept.clone();
            for (entry, lens) in lengths.data().chunks(2).enumerate() {
                let [before, added] = [lens[0] as usize, lens[1] as usize];
                for row in 0..added.min(capacity - before) {
                    for column in 0..heads * padded {
                        let [head, inside] = [column / padded, column % padded];
                        let from = (entry * rows + row) * (heads * width + 3) + 2 + head * width + inside;
                        let number = stored(if inside < width { x.data()[from] } else { 0.0 });
                        let place = (((entry * capacity + before + row) * heads * padded) + column) * bytes;
                        truth[place..place + bytes].copy_from_slice(&number);
                    }
                }
            }
            let inputs = Inputs::new().with("new", &x).with("lengths", &lengths);
            for gpu in &devices {
                assert!(appended_on(gpu, &graph, &kept, &inputs) == truth, "{batch} {capacity} {rows} {heads} {dtype}");
            }
        }
    }
}

/// Axes, strides of the input and of the output.
const COPIES: [[[usize; 4]; 3]; 6] = [
    [[1, 1, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]],
    [[1, 2, 3, 5], [0, 40, 7, 1], [0, 15, 5, 1]],
    [[2, 3, 4, 5], [60, 20, 5, 1], [1, 2, 6, 24]],
    [[3, 5, 1, 7], [0, 7, 0, 1], [100, 9, 0, 1]],
    [[17, 1, 1, 65], [65, 0, 0, 1], [70, 0, 0, 1]],
    [[1, 1, 0, 3], [0, 0, 3, 1], [0, 0, 3, 1]],
];

#[test]
fn copy() {
    let devices = [gpu(), support::cramped_gpu(2_000)];
    let mut rng = fastrand::Rng::with_seed(6);
    for [axes, from, to] in COPIES {
        let mut builder = GraphBuilder::new();
        let input = builder.input("x", [1_200], DType::F32).unwrap();
        let out = builder.copy("out", CopyStrided { input, axes, from, to }).unwrap();
        let graph = builder.finish(&[out]);
        let x = random(&mut rng, [1_200]);
        let inputs = Inputs::new().with("x", &x);
        let written = |index: usize| {
            let places = (0..axes.iter().product::<usize>()).map(|place| {
                let [_, b, c, d] = axes;
                [place / (b * c * d), place / (c * d) % b, place / d % c, place % d]
                    .iter()
                    .zip(to)
                    .map(|(i, s)| i * s)
                    .sum::<usize>()
            });
            places.into_iter().any(|place| place == index)
        };
        for gpu in &devices {
            let options = PlanOptions::default();
            let plan = pollster::block_on(Plan::new(gpu, &graph, &Inputs::new(), &options)).unwrap();
            pollster::block_on(plan.poison()).unwrap();
            let got = pollster::block_on(plan.run(&inputs)).unwrap().outputs.remove("out").unwrap();
            let truth = multihead::reference::interpret::<f32>(&graph, &Inputs::new(), &inputs).unwrap();
            for (index, (got, truth)) in got.data().iter().zip(truth["out"].data()).enumerate() {
                let right = if written(index) { got.to_bits() == truth.to_bits() } else { got.is_nan() };
                assert!(right, "{axes:?} {from:?} {to:?} at {index}: {got} instead of {truth}");
            }
        }
    }
}
