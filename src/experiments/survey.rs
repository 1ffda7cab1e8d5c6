//! Every head of a layer or of a whole model: what it looks at, what it knows, what the output is without it.
//!
//! Each layer is run once, with what every head adds to the output as a third result
//! ([`MultiHeadAttention::run_by_head`](crate::MultiHeadAttention::run_by_head)); everything else is counted from that.
//! Numbers are means over the tokens of a sentence, padding left out, then over the sentences.

mod links;
mod table;

use serde::Serialize;

use super::rows::{counted_queries, tokens};
use crate::device::Device;
use crate::error::Error;
use crate::heads::links::RelationScore;
use crate::heads::{
    Change, CountedQueries, HeadProducts, HeadStatistics, Pattern, PruningStep, is_separator_token, statistics,
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
    /// Share on the key before the query's position.
    pub share_on_previous: f64,
    /// Share on the key after it.
    pub share_on_next: f64,
    /// Share on the query's own position.
    pub share_on_self: f64,
    /// Share on key 0.
    pub share_on_first: f64,
    /// Share on separator tokens; none where no tokens say which they are.
    pub share_on_separator: Option<f64>,
    /// The pattern that the maps are nearest to; none where no query sees a key.
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
/// [`Error::Invalid`] where no query counts; those of the cases and the device.
pub async fn run(device: &Device, cases: &[(String, Case)]) -> Result<Report, Error> {
    let mut layers = Vec::new();
    for (name, case) in cases {
        layers.push(layer(device, name, case).await?);
    }
    let relations = links::survey(&mut layers)?;
    Ok(Report { device: device.name().into(), layers, relations })
}

async fn layer(device: &Device, name: &str, case: &Case) -> Result<LayerSurvey, Error> {
    let run = case.attention()?.run_by_head(device, &case.inputs).await?;
    let counted = counted_queries(case);
    if counted.iter().all(|&count| count == 0) {
        return Err(Error::Invalid(format!("{name} has no query to count; give a case with tokens in it")));
    }
    let num_heads = run.contributions.shape().axes()[1];
    let mut products = HeadProducts::new(num_heads);
    products.add(&run, &counted)?;
    let sentences: Vec<Sentence> = (counted.iter().enumerate())
        .map(|(entry, &num_counted)| Sentence { tokens: tokens(case, entry).to_vec(), num_counted })
        .collect();
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
        let counted = CountedQueries { num_valid: Some(sentence.num_counted), query_offset };
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
    let mean =
        |number: fn(&HeadStatistics) -> f64| mean_of_known(views.iter().map(|view| number(&view.statistics[head])));
    let score = |pattern: Pattern| {
        mean_of_known(views.iter().map(|view| pattern.score(&view.maps[head], view.counted, &view.separators)))
    };
    let scores = Pattern::ALL.map(|pattern| (pattern, score(pattern)));
    let known = scores.iter().filter(|(_, score)| !score.is_nan());
    let nearest = known.copied().reduce(|best, other| if other.1 > best.1 { other } else { best });
    let on_separator = score(Pattern::Separator);
    HeadSurvey {
        head,
        entropy_bits: mean(|head| head.entropy_bits),
        effective_keys: mean(|head| head.effective_keys),
        mean_distance: mean(|head| head.mean_distance),
        share_on_previous: mean(|head| head.share_on_previous),
        share_on_next: mean(|head| head.share_on_next),
        share_on_self: mean(|head| head.share_on_self),
        share_on_first: mean(|head| head.share_on_first),
        share_on_separator: (!on_separator.is_nan()).then_some(on_separator),
        pattern: nearest.map(|(pattern, _)| pattern),
        pattern_score: nearest.map_or(f64::NAN, |(_, score)| score),
        without,
        relations: Vec::new(),
    }
}

/// The mean over the sentences that have such a number: a sentence of one token has no previous one.
fn mean_of_known(numbers: impl Iterator<Item = f64>) -> f64 {
    let known: Vec<f64> = numbers.filter(|number| !number.is_nan()).collect();
    known.iter().sum::<f64>() / known.len() as f64
}
