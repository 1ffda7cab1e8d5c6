//! Which rows and columns of a case are tokens and not padding.

use crate::error::Error;
use crate::io::{Case, PADDING_TOKEN};

/// How long the sequences of one batch entry are; padding, and keys that the layer learned, come after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumTokens {
    /// At most Lq.
    pub(super) queries: usize,
    /// At most Lk.
    pub(super) keys: usize,
}

/// Where the sequences of each batch entry end: before the first [`PADDING_TOKEN`] of the queries, and at the valid
/// length of the keys. Where a sequence attends to itself both hold for both.
pub(super) fn num_tokens(case: &Case) -> Vec<NumTokens> {
    let length = |axes: &[usize]| axes.get(1).copied().unwrap_or(0);
    let batch = case.inputs.query.shape().axes().first().copied().unwrap_or(0);
    let [num_queries, num_keys] = [case.inputs.query(), case.inputs.key()].map(|tensor| length(tensor.shape().axes()));
    let of_entry = |entry: usize| {
        let queries = before_padding(case, entry).unwrap_or(num_queries).min(num_queries);
        let keys = valid_len(case, entry).unwrap_or(num_keys).min(num_keys);
        if case.inputs.key.is_some() {
            return NumTokens { queries, keys };
        }
        NumTokens { queries: queries.min(keys), keys: queries.min(keys) }
    };
    (0..batch).map(of_entry).collect()
}

/// How many queries of each batch entry count.
pub(super) fn counted_queries(case: &Case) -> Vec<usize> {
    num_tokens(case).iter().map(|tokens| tokens.queries).collect()
}

fn before_padding(case: &Case, entry: usize) -> Option<usize> {
    case.tokens.as_ref()?.get(entry)?.iter().position(|token| token == PADDING_TOKEN)
}

/// Of lengths (B,); those of (B, Lq) say for each query what it sees, not where a sequence ends.
fn valid_len(case: &Case, entry: usize) -> Option<usize> {
    let lens = case.inputs.mask.valid_lens.as_ref().filter(|lens| lens.shape().rank() == 1)?;
    lens.data().get(entry).and_then(|&len| usize::try_from(len).ok())
}

/// The tokens of a batch entry of a sequence that attends to itself, so that they name its keys too; else none.
///
/// # Errors
/// Those of [`Case::tokens_of`].
pub(super) fn tokens(case: &Case, entry: usize) -> Result<&[String], Error> {
    let tokens = case.tokens_of(entry)?;
    Ok(if case.inputs.key.is_none() { tokens } else { &[] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attention::{AttentionInputs, Mask};
    use crate::io::{Expected, Settings};
    use crate::shape::HostTensor;

    /// Two sequences of four tokens, of which the valid lengths are given.
    fn case(lens: Option<[i64; 2]>, tokens: Option<[[&str; 4]; 2]>, num_keys: Option<usize>) -> Case {
        let ones = |length: usize| HostTensor::new([2, length, 1], vec![1.0; 2 * length]).unwrap();
        let valid_lens = lens.map(|lens| HostTensor::new([2], lens.to_vec()).unwrap());
        let owned = |tokens: [&str; 4]| tokens.map(str::to_owned).to_vec();
        Case {
            about: None,
            tokens: tokens.map(|tokens| tokens.map(owned).to_vec()),
            settings: Settings::default(),
            inputs: AttentionInputs {
                query: ones(4),
                key: num_keys.map(ones),
                value: None,
                mask: Mask { valid_lens, ..Mask::default() },
                training: None,
            },
            weights: None,
            expected: Expected::default(),
        }
    }

    fn lengths(case: &Case) -> [(usize, usize); 2] {
        [0, 1].map(|entry| (num_tokens(case)[entry].queries, num_tokens(case)[entry].keys))
    }

    #[test]
    fn a_sequence_ends_at_its_padding_and_at_its_valid_length() {
        let tokens = [["a", "b", "c", "[PAD]"], ["a", "b", "c", "d"]];
        assert_eq!(lengths(&case(None, None, None)), [(4, 4), (4, 4)]);
        assert_eq!(lengths(&case(None, Some(tokens), None)), [(3, 3), (4, 4)]);
        assert_eq!(lengths(&case(Some([4, 2]), Some(tokens), None)), [(3, 3), (2, 2)], "whichever is shorter");
        assert_eq!(lengths(&case(Some([1, 4]), None, None)), [(1, 1), (4, 4)]);
    }

    #[test]
    fn of_two_sequences_tokens_name_the_queries_and_lengths_are_those_of_the_keys() {
        let tokens = [["a", "b", "c", "[PAD]"], ["a", "b", "c", "d"]];
        assert_eq!(lengths(&case(Some([5, 2]), Some(tokens), Some(6))), [(3, 5), (4, 2)]);
    }
}
