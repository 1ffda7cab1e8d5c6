//! Every head of a layer or of a whole model: what it looks at, what it knows, what the output is without it.
//!
//! Each layer is run once, with what every head adds to the output as a third result
//! ([`MultiHeadAttention::run_by_head`](crate::MultiHeadAttention::run_by_head)); everything else is counted from that.
//! Numbers are means over the tokens of a sentence, padding left out, then over the sentences.

mod links;
mod table;

use std::path::Path;

use serde::Serialize;

use super::rows::{NumTokens, num_tokens, tokens};
use crate::device::Device;
use crate::error::Error;
use crate::heads::links::RelationScore;
use crate::heads::{
    Change, CountedQueries, HeadProducts, HeadStatistics, Pattern, PruningStep, is_separator_token, mean, statistics,
};
use crate::io::Case;
use crate::maps::AttentionMap;
use crate::shape::HostTensor;

pub use links::{LinkSurvey, RelationSurvey};

/// One head.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeadSurvey {
    /// Its index in the layer.
    pub head: usize,
    /// Mean entropy of a row, in bits.
    pub entropy_bits: f64,
    /// Mean of 2^entropy, in keys.
    pub effective_keys: f64,
    /// Mean distance that attention goes, in tokens.
    pub mean_distance: f64,
    /// Share on the key before the query's position; none where no query has one.
    pub share_on_previous: Option<f64>,
    /// Share on the key after it.
    pub share_on_next: Option<f64>,
    /// Share on the query's own position.
    pub share_on_self: Option<f64>,
    /// Share on key 0.
    pub share_on_first: Option<f64>,
    /// Share on separator tokens; none where no tokens say which they are.
    pub share_on_separator: Option<f64>,
    /// The pattern that the maps are nearest to; none where no query sees a key, or a weight is NaN.
    pub pattern: Option<Pattern>,
    /// How near: see [`Pattern::score`]; NaN where there is none.
    pub pattern_score: f64,
    /// What switching this head alone off does to the layer's output.
    pub without: Change,
    /// For each relation of which there are links, what this head knows of it.
    pub relations: Vec<RelationScore>,
}

/// One layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LayerSurvey {
    /// What it is called.
    pub name: String,
    /// Whether there is an output projection. Without it heads stand side by side in the output, and switching one off
    /// empties its place.
    pub has_output_projection: bool,
    /// All of its heads.
    pub heads: Vec<HeadSurvey>,
    /// All heads in the greedy order of switching off.
    pub pruning: Vec<PruningStep>,
    /// The batch entries.
    #[serde(skip)]
    pub sentences: Vec<Sentence>,
    /// (B, H, Lq, Lk).
    #[serde(skip)]
    pub attention_weights: HostTensor,
}

/// One batch entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Tokens of queries and keys, padding among them; empty where none are known.
    pub tokens: Vec<String>,
    /// How many queries count.
    pub num_counted: usize,
    /// How many keys are tokens; later ones are padding, or were learned by the layer.
    pub num_keys: usize,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Where it was computed.
    pub device: String,
    /// One for each case.
    pub layers: Vec<LayerSurvey>,
    /// What is known of each relation; empty where no sentence has labels.
    pub relations: Vec<RelationSurvey>,
}

/// Surveys the heads of all cases, a layer each.
///
/// # Errors
/// [`Error::File`], which names the layer, around [`Error::Invalid`] where no query counts, and those of the cases and
/// the device.
pub async fn run(device: &Device, cases: &[(String, Case)]) -> Result<Report, Error> {
    let mut layers = Vec::new();
    for (name, case) in cases {
        layers.push(layer(device, name, case).await.map_err(|error| error.in_file(Path::new(name)))?);
    }
    let relations = links::survey(&mut layers)?;
    Ok(Report { device: device.name().into(), layers, relations })
}

async fn layer(device: &Device, name: &str, case: &Case) -> Result<LayerSurvey, Error> {
    let num_tokens = num_tokens(case);
    let counted: Vec<usize> = num_tokens.iter().map(|entry| entry.queries).collect();
    if counted.iter().all(|&count| count == 0) {
        return Err(Error::Invalid("there is no query to count; give a case with tokens in it".into()));
    }
    let sentence = |(entry, &NumTokens { queries, keys }): (usize, &NumTokens)| {
        Ok(Sentence { tokens: tokens(case, entry)?.to_vec(), num_counted: queries, num_keys: keys })
    };
    let sentences = num_tokens.iter().enumerate().map(sentence).collect::<Result<Vec<_>, Error>>()?;
    let run = case.attention()?.run_by_head(device, &case.inputs).await?;
    let num_heads = run.contributions.shape().axes()[1];
    let mut products = HeadProducts::new(num_heads);
    products.add(&run, &counted)?;
    let views = views(&run.attention_weights, &sentences, case.inputs.mask.query_offset)?;
    let without = products.without_each();
    let heads = without.into_iter().enumerate().map(|(head, without)| of_head(head, without, &views));
    Ok(LayerSurvey {
        name: name.into(),
        has_output_projection: run.summed,
        heads: heads.collect(),
        pruning: products.greedy_order(),
        sentences,
        attention_weights: run.attention_weights,
    })
}

/// One sentence as all heads see it.
struct View<'a> {
    maps: Vec<AttentionMap<'a>>,
    statistics: Vec<HeadStatistics>,
    counted: CountedQueries,
    separators: Vec<usize>,
}

/// The sentences in which a query counts.
fn views<'a>(weights: &'a HostTensor, sentences: &[Sentence], query_offset: i64) -> Result<Vec<View<'a>>, Error> {
    let mut views = Vec::new();
    for (entry, sentence) in sentences.iter().enumerate() {
        let counted = CountedQueries {
            num_valid: Some(sentence.num_counted),
            query_offset,
            num_placed_keys: Some(sentence.num_keys),
        };
        let statistics = statistics(weights, entry, counted)?;
        if statistics.iter().all(|head| head.num_counted == 0) {
            continue;
        }
        let places = sentence.tokens.iter().enumerate().filter(|(_, token)| is_separator_token(token));
        let separators = places.map(|(place, _)| place).collect();
        views.push(View { maps: AttentionMap::of_batch_entry(weights, entry)?, statistics, counted, separators });
    }
    Ok(views)
}

fn of_head(head: usize, without: Change, views: &[View<'_>]) -> HeadSurvey {
    let seeing = || views.iter().map(|view| &view.statistics[head]).filter(|statistics| statistics.num_counted > 0);
    let mean_of = |number: fn(&HeadStatistics) -> f64| mean(seeing().map(number)).unwrap_or(f64::NAN);
    // A sentence of one token has no previous one; NaN is no such gap, and shows.
    let score = |pattern: Pattern| {
        mean(views.iter().filter_map(|view| pattern.score(&view.maps[head], view.counted, &view.separators)))
    };
    let scores = Pattern::ALL.map(|pattern| (pattern, score(pattern)));
    let share = |wanted: Pattern| scores.iter().find(|(pattern, _)| *pattern == wanted).and_then(|(_, score)| *score);
    let nearest = Pattern::nearest(&scores);
    HeadSurvey {
        head,
        entropy_bits: mean_of(|head| head.entropy_bits),
        effective_keys: mean_of(|head| head.effective_keys),
        mean_distance: mean_of(|head| head.mean_distance),
        share_on_previous: share(Pattern::Previous),
        share_on_next: share(Pattern::Next),
        share_on_self: share(Pattern::Itself),
        share_on_first: share(Pattern::First),
        share_on_separator: share(Pattern::Separator),
        pattern: nearest.map(|(pattern, _)| pattern),
        pattern_score: nearest.map_or(f64::NAN, |(_, score)| score),
        without,
        relations: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sentence of two tokens beside one of one token, which has no neighbour, with this weight in its map.
    fn beside(weight: f32) -> HeadSurvey {
        let weights = HostTensor::new([2, 1, 2, 2], vec![0.25, 0.75, 0.5, 0.5, weight, 0.0, 0.0, 0.0]).unwrap();
        let sentence = |length: usize| Sentence { tokens: Vec::new(), num_counted: length, num_keys: length };
        let views = views(&weights, &[sentence(2), sentence(1)], 0).unwrap();
        of_head(0, Change { relative: 0.0, cosine: 1.0 }, &views)
    }

    #[test]
    fn a_sentence_without_neighbours_takes_no_part_and_nan_is_not_taken_for_one() {
        let head = beside(1.0);
        assert_eq!((head.share_on_next, head.share_on_previous), (Some(0.75), Some(0.5)));
        assert_eq!((head.share_on_self, head.share_on_separator), (Some(0.6875), None));
        assert_eq!(head.pattern, Some(Pattern::Broad));
        let head = beside(f32::NAN);
        assert!(head.share_on_self.is_some_and(f64::is_nan) && head.entropy_bits.is_nan());
        assert!(head.pattern.is_none() && head.pattern_score.is_nan());
    }
}
