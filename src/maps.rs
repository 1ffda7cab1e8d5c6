//! One head's attention map: a view into the weights of a whole call.

use crate::error::Error;
use crate::shape::HostTensor;

/// The attention weights of one head in one batch entry: (Lq, Lk), queries in rows, keys in columns.
///
/// A view: nothing is copied. [`AttentionMap::rows`] gives one slice per query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AttentionMap<'weights> {
    weights: &'weights [f32],
    num_queries: usize,
    num_keys: usize,
}

impl<'weights> AttentionMap<'weights> {
    /// Looks at (Lq, Lk) numbers, row-major.
    ///
    /// # Errors
    /// [`Error::DataLength`] when `weights` does not hold Lq · Lk numbers.
    pub fn new(weights: &'weights [f32], num_queries: usize, num_keys: usize) -> Result<Self, Error> {
        if num_queries.checked_mul(num_keys) == Some(weights.len()) {
            Ok(Self { weights, num_queries, num_keys })
        } else {
            Err(Error::DataLength { got: weights.len(), shape: [num_queries, num_keys].into() })
        }
    }

    /// The maps of all heads of one batch entry, in order of the heads; `weights` has shape (B, H, Lq, Lk).
    ///
    /// # Errors
    /// When `weights` does not have four axes, or `batch` is not below B.
    ///
    /// # Example
    /// ```
    /// use multihead::{HostTensor, maps::AttentionMap};
    /// let weights = HostTensor::new([1, 2, 1, 2], vec![0.25, 0.75, 1.0, 0.0])?; // (B, H, Lq, Lk)
    /// let heads = AttentionMap::of_batch_entry(&weights, 0)?;
    /// assert_eq!(heads[1].row(0), [1.0, 0.0]);
    /// # Ok::<(), multihead::Error>(())
    /// ```
    pub fn of_batch_entry(weights: &'weights HostTensor, batch: usize) -> Result<Vec<Self>, Error> {
        let &[num_batches, num_heads, num_queries, num_keys] = weights.shape().axes() else {
            return Err(Error::WrongShape {
                what: "attention_weights".into(),
                got: weights.shape().clone(),
                expected: "should have four axes, (B, H, Lq, Lk)".into(),
            });
        };
        if batch >= num_batches {
            return Err(Error::OutOfRange {
                what: "batch".into(),
                value: batch.to_string(),
                allowed: format!("must be below the number of batch entries, {num_batches}"),
            });
        }
        let map_len = num_queries * num_keys;
        let first = batch * num_heads * map_len;
        let map_of_head = |head: usize| {
            let start = first + head * map_len;
            Self { weights: &weights.data()[start..start + map_len], num_queries, num_keys }
        };
        Ok((0..num_heads).map(map_of_head).collect())
    }

    /// Lq, the number of rows.
    #[must_use]
    pub fn num_queries(&self) -> usize {
        self.num_queries
    }

    /// Lk, the number of columns.
    #[must_use]
    pub fn num_keys(&self) -> usize {
        self.num_keys
    }

    /// How one query shares its attention among the keys: (Lk,).
    ///
    /// # Panics
    /// When `query` is not below [`AttentionMap::num_queries`].
    #[must_use]
    pub fn row(&self, query: usize) -> &'weights [f32] {
        &self.weights[query * self.num_keys..(query + 1) * self.num_keys]
    }

    /// All rows, in order of the queries.
    pub fn rows(&self) -> impl Iterator<Item = &'weights [f32]> + use<'weights> {
        let map = *self;
        (0..map.num_queries).map(move |query| map.row(query))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_head_of_every_batch_entry_is_found() {
        let data = (0_u8..24).map(f32::from).collect();
        let weights = HostTensor::new([2, 3, 2, 2], data).expect("24 numbers");
        let heads = AttentionMap::of_batch_entry(&weights, 1).expect("entry 1 of 2");
        assert_eq!(heads.len(), 3);
        assert_eq!(heads[2].row(0), [20.0, 21.0]);
        let rows: Vec<&[f32]> = heads[0].rows().collect();
        assert_eq!(rows, [[12.0, 13.0], [14.0, 15.0]]);
    }

    #[test]
    fn queries_without_keys_have_empty_rows() {
        let weights = HostTensor::new([1, 1, 3, 0], vec![]).expect("no numbers");
        let heads = AttentionMap::of_batch_entry(&weights, 0).expect("entry 0 of 1");
        assert_eq!(heads[0].rows().count(), 3);
        assert!(heads[0].row(2).is_empty());
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let weights = HostTensor::new([1, 1, 1, 1], vec![1.0]).expect("1 number");
        let error = AttentionMap::of_batch_entry(&weights, 1).expect_err("there is one entry");
        assert_eq!(error.to_string(), "batch is 1, but must be below the number of batch entries, 1");
        let weights = HostTensor::new([1, 1], vec![1.0]).expect("1 number");
        assert!(AttentionMap::of_batch_entry(&weights, 0).is_err());
        assert!(AttentionMap::new(&[0.0; 5], 2, 3).is_err());
    }
}
