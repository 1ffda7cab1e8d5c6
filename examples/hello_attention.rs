//! Multi-head self-attention in a few lines: `cargo run --release --example hello_attention`.

use multihead::{
    AttentionConfig, AttentionInputs, Device, DeviceChoice, Error, HostTensor, Linear, Mask, MultiHeadAttention,
    Weights,
};

fn main() -> Result<(), Error> {
    let [batch, length, num_hiddens] = [2, 4, 8];
    let tensor = |shape: &[usize], seed: f32| {
        let len = shape.iter().product();
        HostTensor::new(shape.to_vec(), (0..len).map(|i| (i as f32 * 0.37 + seed).sin()).collect())
    };
    let linear = |seed| tensor(&[num_hiddens, num_hiddens], seed).map(|weight| Linear { weight, bias: None });
    let weights = Weights {
        w_q: linear(1.0)?,
        w_k: linear(2.0)?,
        w_v: linear(3.0)?,
        w_o: linear(4.0)?,
        bias_k: None,
        bias_v: None,
    };
    let attention = MultiHeadAttention::new(AttentionConfig::new(2), weights)?;
    let query = tensor(&[batch, length, num_hiddens], 0.0)?; // (B, L, E)
    let mask = Mask { causal: true, ..Mask::default() };
    let inputs = AttentionInputs { mask, ..AttentionInputs::self_attention(query) };

    let result = pollster::block_on(async {
        let device = Device::open(&DeviceChoice::Auto).await?;
        println!("on {}", device.name());
        attention.run_with_weights(&device, &inputs).await
    })?;
    println!("output {}: {:.3?} …", result.output.shape(), &result.output.data()[..num_hiddens]);
    let maps = result.attention_weights.ok_or_else(|| Error::Invalid("no weights came back".into()))?;
    println!("attention weights {}, the first head's rows:", maps.shape());
    for row in maps.data().chunks(length).take(length) {
        println!("  {row:.3?}"); // each sums to 1, and sees no key after its own
    }
    Ok(())
}
