//! Token by token over a KV cache: `cargo run --release --example decode`.
//!
//! Two sequences of different lengths grow together; a beam is copied; the answer is that of one causal call.

use multihead::{
    AttentionConfig, AttentionInputs, CacheOptions, CacheStorage, Device, DeviceChoice, Error, HostTensor, Linear,
    Mask, MultiHeadAttention, StepInputs, StepShape, Weights,
};

/// E = 32: eight query heads of width 4 share two key/value heads.
const NUM_HIDDENS: usize = 32;

fn tensor(shape: &[usize], seed: f32) -> Result<HostTensor, Error> {
    let len = shape.iter().product();
    HostTensor::new(shape.to_vec(), (0..len).map(|i| (i as f32 * 0.37 + seed).sin() * 0.4).collect())
}

fn layer() -> Result<MultiHeadAttention, Error> {
    let linear = |rows, seed| tensor(&[rows, NUM_HIDDENS], seed).map(|weight| Linear { weight, bias: None });
    let (w_q, w_k, w_v, w_o) = (linear(32, 1.0)?, linear(8, 2.0)?, linear(8, 3.0)?, linear(32, 4.0)?);
    MultiHeadAttention::new(AttentionConfig::new(8), Weights { w_q, w_k, w_v, w_o, bias_k: None, bias_v: None })
}

fn main() -> Result<(), Error> {
    let attention = layer()?;
    let x = tensor(&[2, 12, NUM_HIDDENS], 0.0)?; // (B, L, E)
    let row = |entry: usize, at: usize| &x.data()[(entry * 12 + at) * NUM_HIDDENS..][..NUM_HIDDENS];
    pollster::block_on(async {
        let device = Device::open(&DeviceChoice::Auto).await?;
        let options = CacheOptions { batch: 2, capacity: 64, storage: CacheStorage::F32 };
        let shape = StepShape::self_attention(8, NUM_HIDDENS);
        let mut cache = attention.cache(&device, &options, &shape).await?;
        println!("on {}: {} bytes for each token, {} in all", device.name(), cache.bytes_per_token(), cache.bytes());

        // The prompts, in one chunk: 8 tokens of the first sequence, 5 of the second.
        let prompts = attention.compile_step(&device, &cache, &shape).await?;
        let first: Vec<f32> = (0..2).flat_map(|entry| (0..8).flat_map(move |at| row(entry, at).to_vec())).collect();
        let query = HostTensor::new([2, 8, NUM_HIDDENS], first)?;
        prompts.run(&mut cache, &StepInputs { added: Some(vec![8, 5]), ..StepInputs::new(query) }).await?;

        // Then a token of each at a time. One plan serves all of these steps: lengths are data.
        let step = attention.compile_step(&device, &cache, &StepShape { rows: 1, ..shape }).await?;
        let mut last = None;
        for token in 0..4 {
            let rows = [row(0, 8 + token), row(1, 5 + token)].concat();
            let query = HostTensor::new([2, 1, NUM_HIDDENS], rows)?;
            last = Some(step.run(&mut cache, &StepInputs::new(query)).await?.output);
        }
        println!("lengths {:?} after {} dispatches a step", cache.lengths(), step.num_dispatches());

        // The same by one causal call over the first sequence.
        let whole = HostTensor::new([1, 12, NUM_HIDDENS], x.data()[..12 * NUM_HIDDENS].to_vec())?;
        let mask = Mask { causal: true, ..Mask::default() };
        let inputs = AttentionInputs { mask, ..AttentionInputs::self_attention(whole) };
        let one_shot = attention.run(&device, &inputs).await?.output;
        let last = last.ok_or_else(|| Error::Invalid("no step was made".into()))?;
        let pairs = last.data()[..NUM_HIDDENS].iter().zip(&one_shot.data()[11 * NUM_HIDDENS..]);
        println!("largest difference from one shot: {:.1e}", pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max));

        // Beam search: the second sequence goes on as the first one, from its tenth token.
        cache.copy_entry(0, 1).await?;
        cache.truncate(1, 10)?;
        println!("lengths {:?} after the copy", cache.lengths());
        Ok(())
    })
}
