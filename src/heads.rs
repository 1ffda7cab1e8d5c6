//! What each head does, in numbers: how spread out its attention is, where it goes, what the layer is without it.
//!
//! [`Pattern`] names the kind of map, [`links`] holds a head against labelled pairs of words, [`HeadProducts`] says for
//! any set of heads what switching it off does to the output.
//!
//! Every statistic is a function of one [`AttentionMap`] and of [`CountedQueries`], which says which rows count;
//! [`statistics`] collects them for all heads of a batch entry. NaN in a counted row shows in every number that the
//! row takes part in; it is never skipped.

mod change;
pub mod links;
mod patterns;
mod pruning;

pub use change::Change;
pub use patterns::{Pattern, mean_share_on};
pub use pruning::{HeadProducts, PruningStep};

use crate::error::Error;
use crate::maps::AttentionMap;
use crate::shape::HostTensor;

/// Which queries and keys count, and where they stand. The default: all, query i at position i.
///
/// Whatever is chosen here, a query that sees no key (its weights sum to 0) never counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedQueries {
    /// Only the first so many queries count: the valid length of a padded sequence. `None` = all.
    pub num_valid: Option<usize>,
    /// Query i stands at position i + `query_offset` among the keys, as for a causal mask.
    pub query_offset: i64,
    /// Only the first so many keys stand at a position; later ones are padding, or a key that the layer learned
    /// (`bias_k`), and are nobody's neighbours. `None` = all.
    pub num_placed_keys: Option<usize>,
}

/// One query's attention to one key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The row.
    pub query: usize,
    /// The column.
    pub key: usize,
    /// The share of the query's attention that goes to the key.
    pub weight: f32,
}

/// What one head does, averaged over the queries that count.
///
/// The means are NaN when `num_counted` is 0, and when a counted row holds NaN; a share, also when no counted query has
/// such a key.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct HeadStatistics {
    /// The head's index, from 0.
    pub head: usize,
    /// How many queries counted: the valid ones that see a key.
    pub num_counted: usize,
    /// Mean entropy of a row in bits: 0 = one key gets everything, log₂ n = n keys share equally.
    pub entropy_bits: f64,
    /// Mean over the queries of 2^entropy, the number of keys among which an even row would have the same entropy.
    pub effective_keys: f64,
    /// Mean distance between a query's position and where its attention goes, in tokens: ∑ p·|key − position|.
    pub mean_distance: f64,
    /// Mean share that a query gives to the key at its own position.
    pub share_on_self: f64,
    /// Mean share that a query gives to the key before its own position.
    pub share_on_previous: f64,
    /// Mean share that a query gives to the key after its own position.
    pub share_on_next: f64,
    /// Mean share that a query gives to key 0.
    pub share_on_first: f64,
    /// The largest weight of all; none when no query counts.
    pub strongest: Option<Link>,
}

/// Statistics of every head of one batch entry, in order of the heads; `weights` has shape (B, H, Lq, Lk).
///
/// # Errors
/// When `weights` does not have four axes, `batch` is not below B, or more queries should count than there are.
///
/// # Example
/// ```
/// use multihead::{HostTensor, heads};
/// // One head, two queries: the first looks at both keys alike, the second at key 0 alone.
/// let weights = HostTensor::new([1, 1, 2, 2], vec![0.5, 0.5, 1.0, 0.0])?;
/// let statistics = heads::statistics(&weights, 0, heads::CountedQueries::default())?;
/// assert_eq!(statistics[0].entropy_bits, 0.5); // the mean of 1 bit and 0 bits
/// assert_eq!(statistics[0].share_on_first, 0.75);
/// # Ok::<(), multihead::Error>(())
/// ```
pub fn statistics(weights: &HostTensor, batch: usize, counted: CountedQueries) -> Result<Vec<HeadStatistics>, Error> {
    let maps = AttentionMap::of_batch_entry(weights, batch)?;
    if let Some(num_valid) = counted.num_valid
        && let Some(map) = maps.first()
        && num_valid > map.num_queries()
    {
        return Err(Error::OutOfRange {
            what: "the number of queries to count".into(),
            value: num_valid.to_string(),
            allowed: format!("there are {}", map.num_queries()),
        });
    }
    let of_head = |(head, map)| statistics_of_head(head, map, counted);
    Ok(maps.iter().enumerate().map(of_head).collect())
}

fn statistics_of_head(head: usize, map: &AttentionMap<'_>, counted: CountedQueries) -> HeadStatistics {
    HeadStatistics {
        head,
        num_counted: counted_rows(map, counted).count(),
        entropy_bits: mean_entropy_bits(map, counted),
        effective_keys: mean_of(counted_rows(map, counted).map(|(_, row)| entropy_bits(row).exp2())),
        mean_distance: mean_distance(map, counted),
        share_on_self: mean_share_at(map, counted, 0).unwrap_or(f64::NAN),
        share_on_previous: mean_share_at(map, counted, -1).unwrap_or(f64::NAN),
        share_on_next: mean_share_at(map, counted, 1).unwrap_or(f64::NAN),
        share_on_first: mean_share_on(map, counted, &[0]).unwrap_or(f64::NAN),
        strongest: strongest_link(map, counted, |_, _| true),
    }
}

/// Mean entropy of the counted rows, in bits: −∑ p·log₂ p, where 0·log₂ 0 = 0.
#[must_use]
pub fn mean_entropy_bits(map: &AttentionMap<'_>, counted: CountedQueries) -> f64 {
    mean_of(counted_rows(map, counted).map(|(_, row)| entropy_bits(row)))
}

/// Mean over the counted queries of ∑ p·|key − position| over the keys that stand at one, in tokens.
#[must_use]
pub fn mean_distance(map: &AttentionMap<'_>, counted: CountedQueries) -> f64 {
    let of_row = |(query, row): (usize, &[f32])| {
        let position = query as f64 + counted.query_offset as f64;
        let shares = placed(row, counted).iter().enumerate();
        shares.fold(0.0, |sum, (key, &share)| sum + f64::from(share) * (key as f64 - position).abs())
    };
    mean_of(counted_rows(map, counted).map(of_row))
}

/// Mean share that the counted queries give to the key `distance` places after their own position (before it, when
/// negative). A query for which there is no such key takes no part; none when none has one.
#[must_use]
pub fn mean_share_at(map: &AttentionMap<'_>, counted: CountedQueries, distance: i64) -> Option<f64> {
    let share = |(query, row): (usize, &[f32])| {
        let position = i64::try_from(query).ok()?.checked_add(counted.query_offset)?;
        let key = usize::try_from(position.checked_add(distance)?).ok()?;
        placed(row, counted).get(key).copied().map(f64::from)
    };
    mean(counted_rows(map, counted).filter_map(share))
}

/// The largest weight among the links that `allow(query, key)` lets through, the first of equals.
///
/// Many heads send what they do not need to a separator or to the token itself; `allow` leaves such links out. NaN
/// counts as largest, so that it shows.
///
/// # Example
/// ```
/// use multihead::{heads, maps::AttentionMap};
/// let map = AttentionMap::new(&[0.9, 0.1, 0.3, 0.7], 2, 2)?;
/// let to_others = heads::strongest_link(&map, heads::CountedQueries::default(), |query, key| query != key);
/// assert_eq!(to_others.map(|link| (link.query, link.key)), Some((1, 0)));
/// # Ok::<(), multihead::Error>(())
/// ```
#[must_use]
pub fn strongest_link(
    map: &AttentionMap<'_>,
    counted: CountedQueries,
    allow: impl Fn(usize, usize) -> bool,
) -> Option<Link> {
    let mut strongest: Option<Link> = None;
    for (query, row) in counted_rows(map, counted) {
        for (key, &weight) in row.iter().enumerate() {
            let stronger =
                strongest.is_none_or(|best| weight > best.weight || (weight.is_nan() && !best.weight.is_nan()));
            if stronger && allow(query, key) {
                strongest = Some(Link { query, key, weight });
            }
        }
    }
    strongest
}

/// Whether a tokenizer, not the text, put this token there: `[CLS]`, `[PAD]`, `<s>`, `<|endoftext|>`.
#[must_use]
pub fn is_special_token(token: &str) -> bool {
    let enclosed = |open, close| token.len() > 2 && token.starts_with(open) && token.ends_with(close);
    enclosed('[', ']') || enclosed('<', '>')
}

/// Whether the token ends a sequence or parts two: `[SEP]`, `</s>`, `<|endoftext|>`.
#[must_use]
pub fn is_separator_token(token: &str) -> bool {
    ["[SEP]", "</s>", "<|endoftext|>"].contains(&token)
}

/// The valid rows that see a key, with their query's index. A sum of NaN is not 0, so such a row counts.
fn counted_rows<'weights>(
    map: &AttentionMap<'weights>,
    counted: CountedQueries,
) -> impl Iterator<Item = (usize, &'weights [f32])> + use<'weights> {
    let sees_a_key = |row: &[f32]| row.iter().copied().map(f64::from).sum::<f64>() != 0.0;
    map.rows().enumerate().take(counted.num_valid.unwrap_or(usize::MAX)).filter(move |(_, row)| sees_a_key(row))
}

fn entropy_bits(row: &[f32]) -> f64 {
    let surprise = |share: f64| {
        if share == 0.0 { 0.0 } else { -share * share.log2() }
    };
    // From +0: an empty float sum is −0, which would print as "-0.00 bits".
    row.iter().fold(0.0, |sum, &share| sum + surprise(f64::from(share)))
}

/// The part of a row that belongs to keys with a position.
fn placed(row: &[f32], counted: CountedQueries) -> &[f32] {
    &row[..counted.num_placed_keys.unwrap_or(usize::MAX).min(row.len())]
}

/// None when there is nothing to average.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / count as f64)
}

/// NaN when there is nothing to average.
fn mean_of(values: impl Iterator<Item = f64>) -> f64 {
    mean(values).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests;
