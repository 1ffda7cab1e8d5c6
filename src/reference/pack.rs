//! `pack` on the CPU: weights transposed and side by side, biases one after the other.

use super::view::Real;

/// One part: `count` rows, zeros where there are no data.
pub(crate) struct Part<'a, T> {
    pub(crate) data: Option<&'a [T]>,
    pub(crate) count: usize,
}

/// `out[k][first + n] = part[n][k]` for each part, `first` columns behind those before it; `inner` is K, 1 for biases.
pub(crate) fn pack<T: Real>(parts: &[Part<'_, T>], inner: usize) -> Vec<T> {
    let width: usize = parts.iter().map(|part| part.count).sum();
    let mut packed = vec![T::zero(); inner * width];
    let mut first = 0;
    for part in parts {
        for (n, row) in part.data.unwrap_or(&[]).chunks_exact(inner.max(1)).enumerate() {
            for (k, &x) in row.iter().enumerate() {
                packed[k * width + first + n] = x;
            }
        }
        first += part.count;
    }
    packed
}
