//! The operations a graph is made of.

use super::{AppendRows, CopyStrided, Custom, MergePartials, PartialAttention, ValueId};

/// One operation; its inputs are values of the same graph.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Batched matrix product.
    Matmul(Matmul),
    /// Scaled, masked softmax over each row of scores.
    Softmax(Softmax),
    /// Some weights of a softmax set to zero, the others scaled.
    Dropout(Dropout),
    /// (B, L, H·d) → (B·H, L, d).
    TransposeQkv(TransposeHeads),
    /// (B·H, L, d) → (B, L, H·d).
    TransposeOutput(TransposeHeads),
    /// Scores, softmax and the product with the values in one pass over the keys.
    Attention(Attention),
    /// The weights of an attention whose scores were never stored.
    AttentionWeights(AttentionWeights),
    /// What parts of the keys add to an attention.
    PartialAttention(PartialAttention),
    /// An attention of its parts.
    MergePartials(MergePartials),
    /// (B, L, W) → (B, L + 1, W).
    AppendKey(AppendKey),
    /// New rows of a cache, in place.
    AppendRows(AppendRows),
    /// Parameters side by side.
    Pack(Pack),
    /// A tensor with gaps, put together or apart.
    Copy(CopyStrided),
    /// A user's own kernel.
    Custom(Custom),
}

/// `output[b] = lhs[b] · rhs[b / group] + bias`, D2L's batched matrix multiplication.
#[derive(Clone, Debug, PartialEq)]
pub struct Matmul {
    /// (batch, M, K). With a right operand of two axes the leading axes of `lhs` are all rows.
    pub lhs: ValueId,
    /// (K, N) or (batch / group, K, N); (N, K) or (batch / group, N, K) when `transpose_rhs`.
    pub rhs: ValueId,
    /// (N,), added to every row.
    pub bias: Option<ValueId>,
    /// Whether `rhs` is read transposed, as y = x·Wᵀ does.
    pub transpose_rhs: bool,
    /// How many left matrices in a row share one right matrix: query heads per key/value head.
    pub group: usize,
    /// Whether an element of `lhs` marked hidden (see [`Softmax`]) takes no part, whatever it would be multiplied with.
    pub skip_hidden: bool,
    /// Which tensors hold their matrices side by side, as heads; by default none does.
    pub heads: ProductHeads,
}

impl Matmul {
    /// `lhs · rhs`, nothing else.
    #[must_use]
    pub fn of(lhs: ValueId, rhs: ValueId) -> Self {
        let heads = ProductHeads::default();
        Self { lhs, rhs, bias: None, transpose_rhs: false, group: 1, skip_hidden: false, heads }
    }
}

/// Tensors of a [`Matmul`] of three axes whose matrices are heads side by side, (B, L, ·), instead of one after the
/// other, (B·H, L, d): what [`TransposeHeads`] would otherwise take apart and put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProductHeads {
    /// `lhs` is (B, M, ·), matrix b·H + h head h of entry b.
    pub lhs: Option<HeadColumns>,
    /// `rhs` is (B, K, ·), or (B, N, ·) when `transpose_rhs`.
    pub rhs: Option<HeadColumns>,
    /// The output is (B, M, H·N) for this H.
    pub output: Option<usize>,
}

/// Heads side by side in columns of a tensor, from a first column on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadColumns {
    /// The first column.
    pub first: usize,
    /// How many heads.
    pub num_heads: usize,
    /// Columns of each.
    pub head_dim: usize,
}

/// `output[bh][i] = softmax(scale · scores[bh][i] + bias[i])` over the keys that query `i` may see.
///
/// A hidden key's weight is the number −0: zero in any arithmetic, and marked by its sign, so that the product with the
/// values can leave the hidden row out altogether (0 · NaN would be NaN). A row that sees no key is all hidden.
#[derive(Clone, Debug, PartialEq)]
pub struct Softmax {
    /// (B·H, Lq, columns), columns = Lk + `extra_keys`.
    pub scores: ValueId,
    /// (B,) or (B, Lq): keys from here on are hidden.
    pub valid_lens: Option<ValueId>,
    /// True = may attend; shapes of [`MaskStrides`].
    pub attend_mask: Option<ValueId>,
    /// Added to the scaled score; −∞ hides the key. Shapes of [`MaskStrides`].
    pub bias: Option<ValueId>,
    /// H, to find the batch entry and the head in the first axis of `scores`.
    pub num_heads: usize,
    /// What scores are multiplied with.
    pub scale: f64,
    /// Causal and window, as the keys that they let a query see.
    pub band: KeyBand,
    /// Keys after all real ones that every query sees, whatever masks and lengths say (`bias_k`): 0 or 1.
    pub extra_keys: usize,
}

/// `output[bh][i][j] = weights[bh][i][j] · (kept ? 1 / (1 − p) : 0)`, as [`DropoutPattern`](super::DropoutPattern) says.
///
/// A hidden key's weight stays −0 (see [`Softmax`]).
#[derive(Clone, Debug, PartialEq)]
pub struct Dropout {
    /// (B·H, Lq, columns).
    pub weights: ValueId,
    /// (4,): [`DropoutPattern::words`](super::DropoutPattern::words).
    pub pattern: ValueId,
    /// H, to find the batch entry and the head in the first axis of `weights`.
    pub num_heads: usize,
}

/// Which keys a query sees by position: query `i` sees key `j` when `i + start ≤ j < i + end`.
///
/// Causal and window both come down to these two numbers. They are cut to ±2³⁰, beyond any axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBand {
    /// Where the band starts, seen from the query's row.
    pub start: i32,
    /// Where the band ends.
    pub end: i32,
}

impl Softmax {
    /// Whether any key may be hidden from a query.
    #[must_use]
    pub fn hides(&self) -> bool {
        let given = [self.valid_lens, self.attend_mask, self.bias];
        self.band != KeyBand::ALL || given.iter().any(Option::is_some)
    }
}

impl KeyBand {
    /// No axis is as long as this.
    pub(crate) const FAR: i32 = 1 << 30;

    /// Everything visible.
    pub const ALL: Self = Self { start: -Self::FAR, end: Self::FAR };

    /// Query `i` stands at `i + query_offset`; causal: `j ≤ position`; window: `|j − position| < window`.
    #[must_use]
    pub fn new(causal: bool, query_offset: i64, window: Option<u64>) -> Self {
        // i128 holds the sum of any i64 and u64.
        let position = i128::from(query_offset);
        let reach = window.map(i128::from);
        let start = reach.map_or(-i128::from(Self::FAR), |reach| position - reach + 1);
        let window_end = reach.map_or(i128::from(Self::FAR), |reach| position + reach);
        let end = if causal { window_end.min(position + 1) } else { window_end };
        Self { start: Self::cut(start), end: Self::cut(end) }
    }

    /// Whether query row `row` sees key `key` by position.
    #[must_use]
    pub fn contains(self, row: usize, key: usize) -> bool {
        let (row, key) = (row as i128, key as i128);
        row + i128::from(self.start) <= key && key < row + i128::from(self.end)
    }

    fn cut(offset: i128) -> i32 {
        let far = i128::from(Self::FAR);
        i32::try_from(offset.clamp(-far, far)).expect("±2³⁰ should fit an i32")
    }
}

/// Where a mask's element for (batch entry, head, query, key) lies: strides of 0 repeat it.
///
/// Accepted shapes: (Lq, Lk), (B, Lq, Lk), (1|B, 1|H, Lq, Lk).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaskStrides {
    /// Elements from one batch entry to the next.
    pub batch: usize,
    /// Elements from one head to the next.
    pub head: usize,
}

/// How many heads lie side by side in the wide axis.
#[derive(Clone, Debug, PartialEq)]
pub struct TransposeHeads {
    /// (B, L, H·d) for `transpose_qkv`, (B·H, L, d) for `transpose_output`.
    pub input: ValueId,
    /// H.
    pub num_heads: usize,
}

/// Heads side by side in columns of a (B, L, ·) tensor, from a first column on: a projection of its own, or a part of a
/// packed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// (B, L, width).
    pub tensor: ValueId,
    /// The first column.
    pub first: usize,
    /// How many columns: heads · width of a head.
    pub count: usize,
}

/// The masked scores of all heads, `scale · q·kᵀ + bias`, never stored: what [`Matmul`] and [`Softmax`] say in two ops.
#[derive(Clone, Debug, PartialEq)]
pub struct Scores {
    /// H·d columns of (B, Lq, ·).
    pub query: Columns,
    /// G·d columns of (B, Lk + extra, ·).
    pub key: Columns,
    /// As in [`Softmax`].
    pub valid_lens: Option<ValueId>,
    /// As in [`Softmax`].
    pub attend_mask: Option<ValueId>,
    /// As in [`Softmax`].
    pub bias: Option<ValueId>,
    /// H.
    pub num_heads: usize,
    /// G, which divides H.
    pub num_kv_heads: usize,
    /// What scores are multiplied with.
    pub scale: f64,
    /// Causal and window.
    pub band: KeyBand,
    /// Keys after all real ones that every query sees: 0 or 1.
    pub extra_keys: usize,
}

/// `softmax(scores) · value` for all heads, joined: (B, Lq, H·dv).
///
/// Streaming: one pass over the keys with a running maximum and sum (Milakov and Gimelshein 2018; FlashAttention, Dao et
/// al. 2022). With `statistics`, 2H columns follow: each head's largest score and the sum of
/// `exp(score − largest)`, 0 for a query without a visible key. These two are the log-sum-exp in parts, which keep the
/// precision that their sum loses where scores are large.
#[derive(Clone, Debug, PartialEq)]
pub struct Attention {
    /// Which key gets which score.
    pub scores: Scores,
    /// G·dv columns of (B, Lk + extra, ·).
    pub value: Columns,
    /// Whether the statistics of each row are written too.
    pub statistics: bool,
    /// Which weights are dropped, as in [`Dropout`]; the statistics are those before.
    pub dropout: Option<ValueId>,
}

/// `exp(scores − largest) / sum` from the statistics of an [`Attention`]: (B·H, Lq, Lk + extra). A hidden key's weight is −0,
/// as [`Softmax`] has it.
#[derive(Clone, Debug, PartialEq)]
pub struct AttentionWeights {
    /// Which key gets which score.
    pub scores: Scores,
    /// The output of an [`Attention`] with statistics.
    pub attention: ValueId,
}

/// Weights (N, K) of several projections, transposed and side by side: (K, ΣN). Or their biases (N,), one after the other.
///
/// Of parameters alone: computed once, when a graph is compiled.
#[derive(Clone, Debug, PartialEq)]
pub struct Pack {
    /// What is packed; zeros where a projection has no bias.
    pub parts: Vec<PackPart>,
}

/// One part of a [`Pack`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackPart {
    /// (N, K) or (N,); `None` for zeros.
    pub value: Option<ValueId>,
    /// N.
    pub count: usize,
}

/// Puts one learned key (or value) after all others of every batch entry.
#[derive(Clone, Debug, PartialEq)]
pub struct AppendKey {
    /// (B, L, W).
    pub input: ValueId,
    /// (1, 1, W).
    pub key: ValueId,
}

impl Op {
    /// The op's one name: of its shaders, kernels, reference and tests.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Matmul(_) => "matmul",
            Self::Softmax(_) => "softmax",
            Self::Dropout(_) => "dropout",
            Self::TransposeQkv(_) => "transpose_qkv",
            Self::TransposeOutput(_) => "transpose_output",
            Self::Attention(_) => "attention",
            Self::AttentionWeights(_) => "attention_weights",
            Self::PartialAttention(_) => "partial_attention",
            Self::MergePartials(_) => "merge_partials",
            Self::AppendKey(_) => "append_key",
            Self::AppendRows(_) => "append_rows",
            Self::Pack(_) => "pack",
            Self::Copy(_) => "copy",
            Self::Custom(op) => &op.kernel.name,
        }
    }

    /// What the op reads, in the order of its shaders' bindings; `None` where an optional operand is absent.
    #[must_use]
    pub fn operands(&self) -> Vec<Option<ValueId>> {
        match self {
            Self::Matmul(op) => vec![Some(op.lhs), Some(op.rhs), op.bias],
            Self::Softmax(op) => vec![Some(op.scores), op.valid_lens, op.attend_mask, op.bias],
            Self::Dropout(op) => vec![Some(op.weights), Some(op.pattern)],
            Self::TransposeQkv(op) | Self::TransposeOutput(op) => vec![Some(op.input)],
            Self::Attention(op) => {
                let Scores { query, key, valid_lens, attend_mask, bias, .. } = op.scores;
                let others = [valid_lens, attend_mask, bias, op.dropout];
                [query, key, op.value].map(|columns| Some(columns.tensor)).into_iter().chain(others).collect()
            }
            Self::AttentionWeights(op) => {
                let Scores { query, key, valid_lens, attend_mask, bias, .. } = op.scores;
                vec![Some(query.tensor), Some(key.tensor), Some(op.attention), valid_lens, attend_mask, bias]
            }
            Self::PartialAttention(op) => {
                let Scores { query, key, valid_lens, attend_mask, bias, .. } = op.scores;
                let others = [valid_lens, attend_mask, bias, op.lengths.or(op.dropout)];
                [query, key, op.value].map(|columns| Some(columns.tensor)).into_iter().chain(others).collect()
            }
            Self::MergePartials(op) => vec![Some(op.partials)],
            Self::AppendKey(op) => vec![Some(op.input), Some(op.key)],
            Self::AppendRows(op) => vec![Some(op.cache), Some(op.rows.tensor), Some(op.lengths)],
            Self::Pack(op) => op.parts.iter().filter_map(|part| part.value).map(Some).collect(),
            Self::Copy(op) => vec![Some(op.input)],
            Self::Custom(op) => op.inputs.iter().copied().map(Some).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word for word, in arithmetic that cannot overflow.
    fn visible(causal: bool, offset: i64, window: Option<u64>, row: usize, key: usize) -> bool {
        let position = row as i128 + i128::from(offset);
        let key = key as i128;
        (!causal || key <= position) && window.is_none_or(|window| (key - position).abs() < i128::from(window))
    }

    #[test]
    fn a_band_says_what_causal_and_window_say_for_any_integer() {
        let offsets = [i64::MIN, -(1 << 40), -5, -1, 0, 1, 3, 1 << 31, 1 << 40, i64::MAX];
        let windows = [None, Some(1), Some(2), Some(5), Some(1 << 35), Some((1 << 40) - 2), Some(u64::MAX)];
        for causal in [false, true] {
            for offset in offsets {
                for window in windows {
                    let band = KeyBand::new(causal, offset, window);
                    for row in 0..7 {
                        for key in 0..9 {
                            assert_eq!(
                                band.contains(row, key),
                                visible(causal, offset, window, row, key),
                                "causal {causal}, offset {offset}, window {window:?}, row {row}, key {key}"
                            );
                        }
                    }
                }
            }
        }
    }
}
