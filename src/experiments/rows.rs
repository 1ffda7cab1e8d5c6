//! Which rows of a case are tokens and not padding.

use crate::io::Case;

/// How many queries of each batch entry count: those before the first `[PAD]` or, where a sequence attends to itself,
/// its valid length; otherwise all.
pub(super) fn counted_queries(case: &Case) -> Vec<usize> {
    let axes = case.inputs.query.shape().axes();
    let (batch, num_queries) = (axes.first().copied().unwrap_or(0), axes.get(1).copied().unwrap_or(0));
    (0..batch).map(|entry| of_entry(case, entry, num_queries).min(num_queries)).collect()
}

fn of_entry(case: &Case, entry: usize, num_queries: usize) -> usize {
    if let Some(tokens) = case.tokens.as_ref().and_then(|tokens| tokens.get(entry)) {
        return tokens.iter().position(|token| token == "[PAD]").unwrap_or(num_queries);
    }
    let lens = case.inputs.mask.valid_lens.as_ref().filter(|lens| lens.shape().rank() == 1);
    let own = lens.filter(|_| case.inputs.key.is_none()).and_then(|lens| lens.data().get(entry));
    own.and_then(|&len| usize::try_from(len).ok()).unwrap_or(num_queries)
}

/// The tokens of a batch entry of a sequence that attends to itself, so that they name its keys too; none where there
/// is not one for each query.
pub(super) fn tokens(case: &Case, entry: usize) -> &[String] {
    let num_queries = case.inputs.query.shape().axes().get(1).copied().unwrap_or(0);
    let own = case.tokens.as_ref().filter(|_| case.inputs.key.is_none()).and_then(|tokens| tokens.get(entry));
    own.map(Vec::as_slice).filter(|tokens| tokens.len() == num_queries).unwrap_or_default()
}
