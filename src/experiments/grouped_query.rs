//! Fewer key/value heads from many: what the cache saves, and what the output loses before any further training.
//!
//! Grouped-query attention lets H/G query heads share one key/value head. Ainslie et al. 2023 ("GQA", §2.1) convert a
//! multi-head layer by mean-pooling the key and value projections of each group, then train on for a little. Here is
//! the first half, on a real layer: the change of the output that the training would have to repair. Taking each
//! group's first head instead stands beside it, as in their §3.3.

use std::fmt;

use serde::Serialize;

use super::between;
use super::rows::counted_queries;
use crate::attention::{AttentionConfig, HeadSizes, Linear, MultiHeadAttention, Weights, divides};
use crate::device::Device;
use crate::error::Error;
use crate::heads::Change;
use crate::io::Case;
use crate::shape::HostTensor;

/// Bytes of one 32-bit number of the cache.
const BYTES: usize = 4;

/// How a group's heads become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Their mean.
    Mean,
    /// The first of them.
    First,
}

/// One number of key/value heads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// G.
    pub num_kv_heads: usize,
    /// G·(d + dv) numbers of 4 bytes: what a token leaves in the cache of this layer. Half of it in 16 bits.
    pub cache_bytes_per_token: usize,
    /// The output with mean-pooled heads, against the layer's own.
    pub mean: Change,
    /// The output with each group's first head.
    pub first: Change,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Layer {
    /// Its name.
    pub name: String,
    /// H.
    pub num_heads: usize,
    /// From as many key/value heads as the layer has down to one.
    pub rows: Vec<Row>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Where it was computed.
    pub device: String,
    /// One for each case.
    pub layers: Vec<Layer>,
}

/// Pools the key/value heads of each case's layer into every number of groups that divides them.
///
/// # Errors
/// [`Error::Invalid`] for a case without projection weights; those of the case and the device.
pub async fn run(device: &Device, cases: &[(String, Case)]) -> Result<Report, Error> {
    let mut layers = Vec::new();
    for (name, case) in cases {
        layers.push(layer(device, name, case).await?);
    }
    Ok(Report { device: device.name().into(), layers })
}

async fn layer(device: &Device, name: &str, case: &Case) -> Result<Layer, Error> {
    let Some(weights) = &case.weights else {
        let sentence = format!("{name} has no projections whose heads could be pooled; give a case with weights");
        return Err(Error::Invalid(sentence));
    };
    let original = case.attention()?;
    original.check(&case.inputs)?;
    let sizes = original.sizes(&case.inputs.call_shape())?;
    let whole = original.run(device, &case.inputs).await?.output;
    let counted = counted_queries(case);
    let mut rows = Vec::new();
    for num_groups in (1..=sizes.num_kv_heads).rev().filter(|groups| sizes.num_kv_heads.is_multiple_of(*groups)) {
        let mut changes = Vec::new();
        for pooling in [Pooling::Mean, Pooling::First] {
            let config = AttentionConfig { num_kv_heads: Some(num_groups), ..case.config()? };
            let pooled = MultiHeadAttention::new(config, pooled(weights, sizes, num_groups, pooling)?)?;
            changes.push(Change::between(&whole, &pooled.run(device, &case.inputs).await?.output, &counted)?);
        }
        rows.push(Row {
            num_kv_heads: num_groups,
            cache_bytes_per_token: num_groups * (sizes.head_dim + sizes.value_dim) * BYTES,
            mean: changes[0],
            first: changes[1],
        });
    }
    Ok(Layer { name: name.into(), num_heads: sizes.num_heads, rows })
}

/// The layer's weights with its key/value heads in `num_groups` groups of neighbours, each pooled into one head.
///
/// # Errors
/// [`Error::OutOfRange`], [`Error::NotDivisible`] where there would be no groups of one size.
pub fn pooled(weights: &Weights, sizes: HeadSizes, num_groups: usize, pooling: Pooling) -> Result<Weights, Error> {
    between("the number of groups", num_groups, 1, sizes.num_kv_heads)?;
    let group = divides("num_kv_heads", sizes.num_kv_heads, "the number of groups", num_groups)?;
    let linear = |linear: &Linear, head_dim: usize| {
        let width = linear.weight.shape().axes()[1];
        let weight = pool(linear.weight.data(), head_dim * width, group, pooling);
        let bias = linear.bias.as_ref().map(|bias| pool(bias.data(), head_dim, group, pooling));
        Ok::<_, Error>(Linear {
            weight: HostTensor::new([num_groups * head_dim, width], weight)?,
            bias: bias.map(|bias| HostTensor::new([num_groups * head_dim], bias)).transpose()?,
        })
    };
    let extra = |extra: &Option<HostTensor>, head_dim: usize| {
        let pooled = extra.as_ref().map(|extra| pool(extra.data(), head_dim, group, pooling));
        pooled.map(|data| HostTensor::new([1, 1, num_groups * head_dim], data)).transpose()
    };
    Ok(Weights {
        w_q: weights.w_q.clone(),
        w_k: linear(&weights.w_k, sizes.head_dim)?,
        w_v: linear(&weights.w_v, sizes.value_dim)?,
        w_o: weights.w_o.clone(),
        bias_k: extra(&weights.bias_k, sizes.head_dim)?,
        bias_v: extra(&weights.bias_v, sizes.value_dim)?,
    })
}

/// Heads of `head_len` numbers one after another, `group` of them made one.
fn pool(data: &[f32], head_len: usize, group: usize, pooling: Pooling) -> Vec<f32> {
    let pool_group = |heads: &[f32]| -> Vec<f32> {
        if pooling == Pooling::First {
            return heads[..head_len].to_vec();
        }
        let sum = |place: usize| heads.iter().skip(place).step_by(head_len).map(|&x| f64::from(x)).sum::<f64>();
        #[expect(clippy::cast_possible_truncation, reason = "f32 is what devices compute in")]
        let mean = |place: usize| (sum(place) / group as f64) as f32;
        (0..head_len).map(mean).collect()
    };
    data.chunks_exact((head_len * group).max(1)).flat_map(pool_group).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "key/value heads pooled into groups, without further training")?;
        for Layer { name, num_heads, rows } in &self.layers {
            writeln!(f, "\n{name}, {num_heads} query heads")?;
            writeln!(f, "  kv heads  cache bytes/token  mean-pooled: change  cosine  first head: change  cosine")?;
            for Row { num_kv_heads, cache_bytes_per_token, mean, first } in rows {
                writeln!(
                    f,
                    "  {num_kv_heads:>8}  {cache_bytes_per_token:>17}  {:>19.3}  {:>6.3}  {:>18.3}  {:>6.3}",
                    mean.relative, mean.cosine, first.relative, first.cosine
                )?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_pooled() {
        let data = [1.0, 2.0, 3.0, 4.0, 10.0, 20.0, 30.0, 40.0]; // four heads of two numbers
        assert_eq!(pool(&data, 2, 2, Pooling::Mean), [2.0, 3.0, 20.0, 30.0]);
        assert_eq!(pool(&data, 2, 2, Pooling::First), [1.0, 2.0, 10.0, 20.0]);
        assert_eq!(pool(&data, 2, 4, Pooling::Mean), [11.0, 16.5]);
        assert_eq!(pool(&data, 2, 1, Pooling::Mean), data);
    }
}
