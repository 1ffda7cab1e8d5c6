//! Inputs that one node reads from a texture and another from its buffer. Needs any adapter; on llvmpipe alone do kernels
//! read textures.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod support;

use multihead::graph::{Attention, AttentionWeights, Columns, KeyBand, Matmul, Scores, TransposeHeads, ValueId};
use multihead::{
    AttentionConfig, CallShape, DType, Fuse, Gpu, Graph, GraphBuilder, Inputs, MultiHeadAttention, PlanOptions,
    PlanSummary, Rewriting,
};
use support::{check_graph, cramped_gpu, gpu, random};

/// Compiles and runs a graph of random inputs, and holds it against the reference; `variants` are what llvmpipe takes.
fn check(gpu: &Gpu, graph: &Graph, variants: &[&str]) {
    let summary = PlanSummary::new(graph, gpu.profile()).unwrap();
    if gpu.profile().name.starts_with("llvmpipe") {
        let mut taken: Vec<_> = summary.steps.iter().map(|step| step.variant.as_str()).collect();
        taken.dedup();
        assert_eq!(taken, variants, "{summary}");
    }
    let mut rng = fastrand::Rng::with_seed(140);
    let computed = |id: ValueId| graph.nodes().iter().any(|node| node.output == id);
    let inputs = graph.values().filter(|&(id, _)| !computed(id));
    let tensors: Vec<_> =
        inputs.map(|(_, value)| (value.name.clone(), random(&mut rng, value.shape.clone()))).collect();
    let inputs = tensors.iter().fold(Inputs::new(), |inputs, (name, tensor)| inputs.with(name, tensor));
    check_graph(gpu, graph, &Inputs::new(), &inputs, None, &format!("{variants:?}"));
}

/// Attention of a tensor to itself, `num_heads` heads of it.
fn attention(tensor: ValueId, width: usize, num_heads: usize, statistics: bool) -> Attention {
    let columns = Columns { tensor, first: 0, count: width };
    let scores = Scores {
        query: columns,
        key: columns,
        valid_lens: None,
        attend_mask: None,
        bias: None,
        num_heads,
        num_kv_heads: num_heads,
        scale: 0.5,
        band: KeyBand::ALL,
        extra_keys: 0,
    };
    Attention { scores, value: columns, statistics, dropout: None }
}

/// A product whose number of columns is no multiple of four reads the same tensor, from its buffer.
#[test]
fn a_product_reads_from_a_texture_only_what_its_kernel_can() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", [1, 1057, 64], DType::F32).unwrap();
    let wide = builder.input("W", [64, 512], DType::F32).unwrap();
    let few = builder.input("few", [1, 8, 64], DType::F32).unwrap();
    let large = builder.matmul("large", Matmul::of(x, wide)).unwrap();
    let odd = builder.matmul("odd", Matmul { transpose_rhs: true, ..Matmul::of(few, x) }).unwrap();
    let graph = builder.finish(&[large, odd]);
    check(&gpu(), &graph, &["matmul_texels", "matmul_register_vec4"]);
    // What is read from the buffer is cut into pieces that a binding holds, whatever lies in a texture too.
    check(&cramped_gpu(1 << 16), &graph, &["matmul_texels", "matmul_register_vec4"]);
}

/// Heads of six words, and heads of twelve, of one tensor.
#[test]
fn heads_are_read_from_a_texture_only_where_they_start_at_texels() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", [1, 300, 12], DType::F32).unwrap();
    let whole = builder.attention("whole", attention(x, 12, 1, false)).unwrap();
    let halves = builder.attention("halves", attention(x, 12, 2, false)).unwrap();
    let heads = builder.transpose_qkv("heads", TransposeHeads { input: x, num_heads: 2 }).unwrap();
    let graph = builder.finish(&[whole, halves, heads]);
    check(&gpu(), &graph, &["attention_texels", "attention_row", "transpose_qkv"]);
}

/// The kernels that read texels keep no statistics.
#[test]
fn statistics_come_from_a_kernel_that_keeps_them() {
    let mut builder = GraphBuilder::new();
    let x = builder.input("x", [1, 100, 24], DType::F32).unwrap();
    let plain = builder.attention("plain", attention(x, 24, 1, false)).unwrap();
    let kept = builder.attention("kept", attention(x, 24, 1, true)).unwrap();
    let scores = attention(x, 24, 1, true).scores;
    let weights = builder.attention_weights("weights", AttentionWeights { scores, attention: kept }).unwrap();
    let graph = builder.finish(&[plain, weights]);
    check(&gpu(), &graph, &["attention_texels_wide", "attention_row", "attention_weights"]);
}

/// Two products read one tensor, as keys and as values; one of them would go round more often than llvmpipe allows.
#[test]
fn a_kernel_that_may_not_go_round_so_often_is_left_out_though_its_operand_lies_in_a_texture() {
    let layer = MultiHeadAttention::core(AttentionConfig::new(1)).unwrap();
    let call = CallShape { key: Some([1, 30_000, 64].into()), causal: true, ..CallShape::self_attention([1, 32, 64]) };
    let graph = layer.graph(&call, true).unwrap();
    let options = PlanOptions { rewriting: Rewriting { pack: true, fuse: Fuse::Off }, ..PlanOptions::default() };
    let summary = PlanSummary::with_options(&graph, gpu().profile(), &options).unwrap();
    if gpu().profile().name.starts_with("llvmpipe") {
        let products = summary.steps.iter().filter(|step| step.op == "matmul").map(|step| step.variant.as_str());
        let mut products: Vec<_> = products.collect();
        products.dedup();
        assert_eq!(products, ["matmul_texels", "matmul_register_vec4"], "{summary}");
    }
}
