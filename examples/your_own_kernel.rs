//! A kernel of your own as a node of the graph: rotary position embedding (Su et al. 2021, "RoFormer", §3.2.2) between
//! the split heads and the scores.
//!
//! The kernel is WGSL; its twin in plain Rust lets the same graph run on the CPU, where the answers are compared.
//! `cargo run --release --example your_own_kernel`

use std::sync::Arc;

use multihead::graph::{Custom, CustomKernel, KeyBand, Matmul, Softmax, TransposeHeads, ValueId};
use multihead::{DType, Error, Gpu, GpuOptions, Graph, GraphBuilder, HostTensor, Inputs, Plan, PlanOptions, reference};

const NUM_HEADS: usize = 4;
const LENGTH: usize = 10;
const HEAD_DIM: usize = 8;
/// Length and width, as the shader reads them, and as many workgroups as there are 64 pairs of channels.
const PARAMS: [u32; 2] = [10, 8];
const WORKGROUPS: u32 = 3;

/// Parameters at binding 0, the input at 1, the output last. One invocation turns one pair of channels:
/// (x₂ᵢ, x₂ᵢ₊₁) of position t by the angle t / 10000^(2i/d).
const ROTARY: &str = "
    struct Params { length: u32, head_dim: u32 }
    @group(0) @binding(0) var<uniform> params: Params;
    @group(0) @binding(1) var<storage, read> x: array<f32>;
    @group(0) @binding(2) var<storage, read_write> out: array<f32>;

    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        let place = id.x * 2u;
        if place >= arrayLength(&out) { return; }
        let position = f32(place / params.head_dim % params.length);
        let angle = position * pow(10000.0, -f32(place % params.head_dim) / f32(params.head_dim));
        let pair = vec2<f32>(x[place], x[place + 1u]);
        out[place] = pair.x * cos(angle) - pair.y * sin(angle);
        out[place + 1u] = pair.x * sin(angle) + pair.y * cos(angle);
    }";

/// The same in plain Rust, in 64 bits.
fn rotary_on_the_cpu(x: &[f64], out: &mut [f64]) {
    for (pair, (x, out)) in x.chunks(2).zip(out.chunks_mut(2)).enumerate() {
        let place = pair * 2;
        let position = (place / HEAD_DIM % LENGTH) as f64;
        let angle = position * 10_000_f64.powf(-((place % HEAD_DIM) as f64) / HEAD_DIM as f64);
        out[0] = x[0] * angle.cos() - x[1] * angle.sin();
        out[1] = x[0] * angle.sin() + x[1] * angle.cos();
    }
}

fn main() -> Result<(), Error> {
    let graph = rotary_attention()?;
    println!("{graph}");
    let wave = |phase: f32| {
        let data = (0..LENGTH * NUM_HEADS * HEAD_DIM).map(|i| (i as f32 * 0.61 + phase).sin()).collect();
        HostTensor::new([1, LENGTH, NUM_HEADS * HEAD_DIM], data)
    };
    let [query, key, value] = [wave(0.0)?, wave(1.0)?, wave(2.0)?];
    let inputs = Inputs::new().with("query", &query).with("key", &key).with("value", &value);

    let truth = reference::interpret::<f64>(&graph, &Inputs::new(), &inputs)?;
    let (name, got) = pollster::block_on(async {
        let gpu = Gpu::open(&GpuOptions::default()).await?;
        let plan = Plan::new(&gpu, &graph, &Inputs::new(), &PlanOptions::default()).await?;
        Ok::<_, Error>((gpu.profile().name.clone(), plan.run(&inputs).await?.outputs))
    })?;
    let pairs = got["joined"].data().iter().zip(truth["joined"].data());
    let error = pairs.map(|(&got, &truth)| (f64::from(got) - truth).abs()).fold(0.0, f64::max);
    println!("on {name}: largest difference from the CPU twin {error:.1e}");
    Ok(())
}

/// Causal attention of four heads whose queries and keys know their positions.
fn rotary_attention() -> Result<Graph, Error> {
    let kernel = Arc::new(CustomKernel {
        name: "rotary".into(),
        wgsl: ROTARY.into(),
        params: PARAMS.iter().flat_map(|size| size.to_le_bytes()).collect(),
        workgroups: [WORKGROUPS, 1, 1],
        cpu: Some(Arc::new(|inputs, output| rotary_on_the_cpu(inputs[0], output))),
    });
    let mut builder = GraphBuilder::new();
    let mut heads = |name: &str| {
        let input = builder.input(name, [1, LENGTH, NUM_HEADS * HEAD_DIM], DType::F32)?;
        builder.transpose_qkv(&format!("{name}_heads"), TransposeHeads { input, num_heads: NUM_HEADS })
    };
    let [q, k, v] = [heads("query")?, heads("key")?, heads("value")?]; // (H, L, d) each
    let mut rotated = |name: &str, input: ValueId| {
        let op = Custom { kernel: Arc::clone(&kernel), inputs: vec![input] };
        builder.custom(name, op, [NUM_HEADS, LENGTH, HEAD_DIM])
    };
    let [q, k] = [rotated("query_rotated", q)?, rotated("key_rotated", k)?];
    let product = |[lhs, rhs]: [ValueId; 2], transpose_rhs, skip_hidden| Matmul {
        transpose_rhs,
        skip_hidden,
        ..Matmul::of(lhs, rhs)
    };
    let scores = builder.matmul("scores", product([q, k], true, false))?;
    let softmax = Softmax {
        scores,
        valid_lens: None,
        attend_mask: None,
        bias: None,
        num_heads: NUM_HEADS,
        scale: 1.0 / (HEAD_DIM as f64).sqrt(),
        band: KeyBand::new(true, 0, None),
        extra_keys: 0,
    };
    let weights = builder.softmax("weights", softmax)?;
    let attended = builder.matmul("heads", product([weights, v], false, true))?;
    let joined = builder.transpose_output("joined", TransposeHeads { input: attended, num_heads: NUM_HEADS })?;
    Ok(builder.finish(&[joined]))
}
