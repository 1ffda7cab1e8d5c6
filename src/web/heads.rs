//! What each head does, in numbers.

use std::collections::BTreeMap;

use serde::Serialize;
use wasm_bindgen::JsValue;
use wasm_bindgen::prelude::wasm_bindgen;

use super::call::{JsTensor, whole};
use super::fault::Fault;
use super::object::plain;
use crate::heads::links::{LINKS, LinkScore, Places, Relation};
use crate::heads::{CountedQueries, HeadStatistics, Pattern, is_separator_token, statistics};
use crate::io::PADDING_TOKEN;
use crate::maps::AttentionMap;

/// `HeadStatistics` of the package.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeadTold {
    head: usize,
    num_counted: usize,
    entropy_bits: f64,
    effective_keys: f64,
    mean_distance: f64,
    share_on_self: f64,
    share_on_previous: f64,
    share_on_next: f64,
    share_on_first: f64,
    share_on_separator: f64,
    strongest: Option<StrongestTold>,
    pattern: Option<Pattern>,
    pattern_score: f64,
    pattern_scores: BTreeMap<&'static str, f64>,
    links: Vec<LinkTold>,
}

#[derive(Serialize)]
struct StrongestTold {
    query: usize,
    key: usize,
    weight: f32,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LinkTold {
    relation: Relation,
    from: usize,
    to: usize,
    rival: usize,
    share: f32,
    rival_share: f32,
    found: bool,
}

/// Statistics of every head of one batch entry of weights (B, H, Lq, Lk). `tokens` may be empty.
///
/// # Errors
/// "bad-input" for another shape, a batch entry that is not there, more queries to count than there are.
#[wasm_bindgen(js_name = headStatistics)]
pub fn head_statistics(
    weights: &JsTensor,
    batch: u32,
    num_valid: Option<u32>,
    query_offset: f64,
    tokens: Vec<String>,
) -> Result<JsValue, Fault> {
    let weights = weights.tensor()?;
    let maps = AttentionMap::of_batch_entry(&weights, batch as usize)?;
    let num_queries = maps.first().map_or(0, AttentionMap::num_queries);
    let padding = tokens.iter().position(|token| token == PADDING_TOKEN);
    let num_valid = num_valid.map(|count| count as usize).or(padding.map(|place| place.min(num_queries)));
    let num_placed_keys = (!tokens.is_empty()).then(|| padding.unwrap_or(tokens.len()));
    let counted = CountedQueries { num_valid, query_offset: whole(query_offset), num_placed_keys };
    let heads = statistics(&weights, batch as usize, counted)?;
    let sentence = Sentence::new(tokens, counted);
    Ok(plain(&heads.iter().zip(&maps).map(|(head, map)| sentence.told(head, map)).collect::<Vec<_>>()))
}

/// JavaScript's number for a score that does not exist.
fn or_nan(score: Option<f64>) -> f64 {
    score.unwrap_or(f64::NAN)
}

/// What is known of the tokens, for all heads.
struct Sentence {
    tokens: Vec<String>,
    counted: CountedQueries,
    /// Places of separators.
    separators: Vec<usize>,
    links: Vec<(Relation, Places)>,
}

impl Sentence {
    fn new(tokens: Vec<String>, counted: CountedQueries) -> Self {
        let separators = tokens.iter().enumerate().filter(|(_, token)| is_separator_token(token));
        let separators = separators.map(|(place, _)| place).collect();
        let links = LINKS.iter().filter_map(|link| Some((link.relation, link.places(&tokens)?))).collect();
        Self { tokens, counted, separators, links }
    }

    fn told(&self, head: &HeadStatistics, map: &AttentionMap<'_>) -> HeadTold {
        let scores = Pattern::ALL.map(|pattern| (pattern, pattern.score(map, self.counted, &self.separators)));
        let nearest = Pattern::nearest(&scores);
        HeadTold {
            head: head.head,
            num_counted: head.num_counted,
            entropy_bits: head.entropy_bits,
            effective_keys: head.effective_keys,
            mean_distance: head.mean_distance,
            share_on_self: head.share_on_self,
            share_on_previous: head.share_on_previous,
            share_on_next: head.share_on_next,
            share_on_first: head.share_on_first,
            share_on_separator: or_nan(Pattern::Separator.score(map, self.counted, &self.separators)),
            strongest: head.strongest.map(|link| StrongestTold {
                query: link.query,
                key: link.key,
                weight: link.weight,
            }),
            pattern: nearest.map(|(pattern, _)| pattern),
            pattern_score: nearest.map_or(f64::NAN, |(_, score)| score),
            pattern_scores: scores.iter().map(|(pattern, score)| (pattern.name(), or_nan(*score))).collect(),
            links: self.links.iter().filter_map(|&(relation, places)| self.link(map, relation, places)).collect(),
        }
    }

    /// A link, where the map has its places.
    fn link(&self, map: &AttentionMap<'_>, relation: Relation, places: Places) -> Option<LinkTold> {
        let Places { from, to, rival } = places;
        if from >= map.num_queries() || to.max(rival) >= map.num_keys() {
            return None;
        }
        let LinkScore { share, rival_share, found } = LinkScore::new(map, &self.tokens, places);
        Some(LinkTold { relation, from, to, rival, share, rival_share, found })
    }
}
