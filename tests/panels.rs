//! Products by panels of the right operand: sizes around every edge of a panel and of a tile, and what lies beyond the edges.
//! Needs any adapter; on llvmpipe alone is the kernel taken.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use multihead::graph::{HeadColumns, Matmul, ProductHeads};
use multihead::{DType, Gpu, Graph, GraphBuilder, HostTensor, Inputs, Plan, PlanOptions, PlanSummary};
use support::{check_graph, cramped_gpu, first_difference, gpu, random};

const PANELS: &str = "matmul_panels";

/// Steps along K: one texel, a lane less than all, all, one more; the same for a panel; several, and an uneven last one.
const INNER: [usize; 10] = [4, 28, 32, 36, 252, 256, 260, 512, 768, 1028];

/// Rows and columns: one, a tile less one, a tile, one more, several that are dealt out evenly.
const ROWS: [usize; 8] = [1, 3, 31, 63, 64, 65, 130, 17];
const COLS: [usize; 5] = [4, 12, 16, 20, 64];

fn options() -> PlanOptions {
    PlanOptions { preferred_kernels: vec![PANELS], ..PlanOptions::default() }
}

/// The kernels of a graph's steps.
fn variants(gpu: &Gpu, graph: &Graph, options: &PlanOptions) -> Vec<String> {
    let summary = PlanSummary::with_options(graph, gpu.profile(), options).unwrap();
    summary.steps.into_iter().map(|step| step.variant).collect()
}

/// Whether the adapter is the one that the kernel is for.
fn is_meant(gpu: &Gpu) -> bool {
    gpu.profile().name.starts_with("llvmpipe")
}

/// Holds a graph of products against the reference, computed by panels wherever that is possible at all.
fn check(gpu: &Gpu, graph: &Graph, tensors: &[(&str, HostTensor)], about: &str) {
    let taken = variants(gpu, graph, &options());
    assert!(!is_meant(gpu) || taken.iter().all(|variant| variant == PANELS), "{about}: {taken:?}");
    let inputs = tensors.iter().fold(Inputs::new(), |inputs, (name, tensor)| inputs.with(name, tensor));
    check_graph(gpu, graph, &Inputs::new(), &inputs, Some(PANELS), about);
}

/// out (batch, rows, cols) = (lhs (batch, rows, inner) · rhs + bias) · last: the first result lies in a texture.
fn check_two(gpu: &Gpu, [batch, group, rows, inner, cols]: [usize; 5], transpose_rhs: bool) {
    let mut rng = fastrand::Rng::with_seed(170);
    let right = if transpose_rhs { [cols, inner] } else { [inner, cols] };
    let tensors = [
        ("lhs", random(&mut rng, [batch, rows, inner])),
        ("rhs", random(&mut rng, [batch / group, right[0], right[1]])),
        ("bias", random(&mut rng, [cols])),
        ("last", random(&mut rng, [cols, 8])),
    ];
    let mut builder = GraphBuilder::new();
    let [lhs, rhs, bias, last] = [0, 1, 2, 3].map(|place: usize| {
        let (name, tensor) = &tensors[place];
        builder.input(name, tensor.shape().clone(), DType::F32).unwrap()
    });
    let first = Matmul { bias: Some(bias), transpose_rhs, group, ..Matmul::of(lhs, rhs) };
    let first = builder.matmul("first", first).unwrap();
    let second = builder.matmul("second", Matmul::of(first, last)).unwrap();
    let graph = builder.finish(&[second]);
    let about = format!("{batch} of {group}, {rows} × {inner} × {cols}, transposed {transpose_rhs}");
    check(gpu, &graph, &tensors, &about);
}

#[test]
fn every_edge_of_panels_and_tiles() {
    let gpu = gpu();
    for (place, inner) in INNER.into_iter().enumerate() {
        for (turn, cols) in COLS.into_iter().enumerate() {
            let rows = ROWS[(place + 2 * turn) % ROWS.len()];
            check_two(&gpu, [1, 1, rows, inner, cols], (place + turn) % 2 == 1);
            check_two(&gpu, [1, 1, ROWS[(place + turn) % ROWS.len()], inner, cols], (place + turn) % 2 == 0);
        }
    }
}

#[test]
fn batches_and_groups_of_them() {
    let gpu = gpu();
    for axes in [[6, 1, 5, 8, 12], [6, 3, 66, 36, 20], [4, 2, 33, 64, 68], [2, 2, 17, 260, 4]] {
        for transpose_rhs in [false, true] {
            check_two(&gpu, axes, transpose_rhs);
        }
    }
}

/// Heads side by side among other columns, which are no numbers: they take no part, however K ends.
#[test]
fn heads_among_columns_that_are_no_numbers() {
    let gpu = gpu();
    let [batch, num_heads] = [2, 2];
    for (inner, rows, cols) in [(36, 33, 20), (28, 70, 8), (260, 18, 36), (1028, 9, 4)] {
        for transpose_rhs in [false, true] {
            let mut rng = fastrand::Rng::with_seed(171);
            let mut wide = |length: usize, head_dim: usize| {
                let width = 8 + num_heads * head_dim;
                let mut data = random(&mut rng, [batch, length, width]).into_data();
                for row in data.chunks_mut(width) {
                    row[..4].fill(f32::NAN);
                    row[width - 4..].fill(f32::INFINITY);
                }
                HostTensor::new([batch, length, width], data).unwrap()
            };
            let (length, head_dim) = if transpose_rhs { (cols, inner) } else { (inner, cols) };
            let tensors = [("lhs", wide(rows, inner)), ("rhs", wide(length, head_dim))];
            let mut builder = GraphBuilder::new();
            let [lhs, rhs] = [0, 1].map(|place: usize| {
                let (name, tensor) = &tensors[place];
                builder.input(name, tensor.shape().clone(), DType::F32).unwrap()
            });
            let beside = |head_dim| Some(HeadColumns { first: 4, num_heads, head_dim });
            let heads = ProductHeads { lhs: beside(inner), rhs: beside(head_dim), output: Some(num_heads) };
            let op = Matmul { transpose_rhs, heads, ..Matmul::of(lhs, rhs) };
            let out = builder.matmul("out", op).unwrap();
            let graph = builder.finish(&[out]);
            check(&gpu, &graph, &tensors, &format!("heads, {rows} × {inner} × {cols}, transposed {transpose_rhs}"));
        }
    }
}

/// Rows, columns and matrices that are no numbers make their own sums none, and nobody else's.
#[test]
fn what_is_no_number_stays_in_its_row_and_its_column() {
    let gpu = gpu();
    for (inner, rows, cols) in [(4, 5, 12), (36, 34, 20), (260, 66, 8), (768, 3, 16), (1028, 6, 36)] {
        for transpose_rhs in [false, true] {
            let mut rng = fastrand::Rng::with_seed(172);
            let mut left = random(&mut rng, [2, rows, inner]).into_data();
            for (row, words) in left.chunks_mut(inner).enumerate().filter(|(row, _)| row % 3 == 1) {
                words.fill([f32::NAN, f32::INFINITY, f32::NEG_INFINITY][row % 2]);
            }
            // An infinity at the very end of a row, beside what K has no more.
            left[inner * 3 - 1] = f32::INFINITY;
            let mut right = random(&mut rng, [2, inner * cols]).into_data();
            // All of the second matrix, which lies right behind the first one's end.
            right[inner * cols..].fill(f32::NAN);
            for k in 0..inner {
                right[if transpose_rhs { 3 * inner + k } else { k * cols + 3 }] = f32::INFINITY;
            }
            let shape = if transpose_rhs { [2, cols, inner] } else { [2, inner, cols] };
            let tensors = [
                ("lhs", HostTensor::new([2, rows, inner], left).unwrap()),
                ("rhs", HostTensor::new(shape, right).unwrap()),
            ];
            let mut builder = GraphBuilder::new();
            let lhs = builder.input("lhs", [2, rows, inner], DType::F32).unwrap();
            let rhs = builder.input("rhs", shape, DType::F32).unwrap();
            let out = builder.matmul("out", Matmul { transpose_rhs, ..Matmul::of(lhs, rhs) }).unwrap();
            let graph = builder.finish(&[out]);
            check(&gpu, &graph, &tensors, &format!("no numbers, {rows} × {inner} × {cols}, {transpose_rhs}"));
        }
    }
}

/// out (1, rows, cols) of a product large enough to be computed from textures by itself.
fn large(rows: usize, inner: usize, cols: usize) -> Graph {
    let mut builder = GraphBuilder::new();
    let lhs = builder.input("lhs", [1, rows, inner], DType::F32).unwrap();
    let rhs = builder.input("rhs", [inner, cols], DType::F32).unwrap();
    let out = builder.matmul("out", Matmul::of(lhs, rhs)).unwrap();
    builder.finish(&[out])
}

/// Blocks of few rows are computed as the whole product is.
#[test]
fn a_product_in_parts_has_the_bits_of_one_in_a_single_part() {
    let [rows, inner, cols] = [330, 516, 256];
    let graph = large(rows, inner, cols);
    let mut rng = fastrand::Rng::with_seed(173);
    let [lhs, rhs] = [random(&mut rng, [1, rows, inner]), random(&mut rng, [inner, cols])];
    let inputs = Inputs::new().with("lhs", &lhs).with("rhs", &rhs);
    let of = |gpu: &Gpu| {
        let plan = pollster::block_on(Plan::new(gpu, &graph, &Inputs::new(), &PlanOptions::default())).unwrap();
        let out = pollster::block_on(plan.run(&inputs)).unwrap().outputs.remove("out").unwrap();
        out.data().iter().map(|number| number.to_bits()).collect::<Vec<_>>()
    };
    let (whole, cramped) = (gpu(), cramped_gpu(1 << 14));
    let taken = variants(&cramped, &graph, &PlanOptions::default());
    assert!(!is_meant(&cramped) || (taken.len() > 20 && taken.iter().all(|name| name == PANELS)), "{taken:?}");
    if is_meant(&whole) {
        assert_eq!(of(&whole), of(&cramped));
    }
}

#[test]
fn few_rows_and_few_steps_are_left_to_the_other_kernel() {
    let gpu = gpu();
    if is_meant(&gpu) {
        let taken = |rows, inner| variants(&gpu, &large(rows, inner, 2048), &PlanOptions::default());
        assert_eq!([taken(47, 1024), taken(48, 1024)], [["matmul_texels"], [PANELS]]);
        assert_eq!([taken(1024, 124), taken(1024, 128)], [["matmul_texels"], [PANELS]]);
    }
}

/// 65,535 rounds are what llvmpipe goes, and a product of many steps along K is computed by panels up to them.
#[test]
fn a_product_goes_along_as_many_steps_as_it_is_granted() {
    let gpu = gpu();
    if !is_meant(&gpu) {
        return;
    }
    // A product of 64 rows writes the left operand to a texture, whatever its size.
    let graph = |inner: usize| {
        let mut builder = GraphBuilder::new();
        let few = builder.input("few", [1, 64, 4], DType::F32).unwrap();
        let wide = builder.input("wide", [4, inner], DType::F32).unwrap();
        let last = builder.input("last", [inner, 4], DType::F32).unwrap();
        let long = builder.matmul("long", Matmul::of(few, wide)).unwrap();
        let out = builder.matmul("out", Matmul::of(long, last)).unwrap();
        builder.finish(&[out])
    };
    let is_taken = |inner: usize| variants(&gpu, &graph(inner), &options())[1] == PANELS;
    // Beyond them no kernel of a CPU adapter is granted any.
    let (mut fours, mut beyond) = (250, 65_534);
    while beyond - fours > 1 {
        let middle = usize::midpoint(fours, beyond);
        if is_taken(4 * middle) { fours = middle } else { beyond = middle }
    }
    let most = 4 * fours;
    assert!((100_000..300_000).contains(&most), "{most} steps are no limit");
    let mut rng = fastrand::Rng::with_seed(174);
    let tensors = [
        ("few", random(&mut rng, [1, 64, 4])),
        ("wide", random(&mut rng, [4, most])),
        ("last", random(&mut rng, [most, 4])),
    ];
    let inputs = tensors.iter().fold(Inputs::new(), |inputs, (name, tensor)| inputs.with(name, tensor));
    let plan = pollster::block_on(Plan::new(&gpu, &graph(most), &Inputs::new(), &options())).unwrap();
    let got = pollster::block_on(plan.run(&inputs)).unwrap().outputs.remove("out").unwrap();
    let truth = multihead::reference::interpret::<f64>(&graph(most), &Inputs::new(), &inputs).unwrap();
    let naive = multihead::reference::interpret::<f32>(&graph(most), &Inputs::new(), &inputs).unwrap();
    assert_eq!(first_difference(got.data(), truth["out"].data(), naive["out"].data()), None);
}
