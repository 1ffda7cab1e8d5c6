//! Labelled links, scored for every head of every layer.

use serde::Serialize;

use super::LayerSurvey;
use crate::error::Error;
use crate::heads::links::{FixedDistance, LINKS, LinkScore, Places, Relation, RelationScore, Verdict};
use crate::maps::AttentionMap;

/// One link, over all heads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkSurvey {
    /// The word that asks.
    pub from: String,
    /// The right word.
    pub to: String,
    /// The wrong one.
    pub rival: String,
    /// How many heads attend to the right word more than to any other.
    pub found_by: usize,
    /// How many attend to the right word more than to the rival.
    pub preferred_by: usize,
    /// The name of the layer of the head that gives the right word most.
    pub best_layer: String,
    /// That head.
    pub best_head: usize,
    /// Its share on the right word.
    pub best_share: f64,
    /// Its share on the rival.
    pub best_rival_share: f64,
}

/// One relation: the head that knows it best, and whether it deserves the name.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelationSurvey {
    /// The relation.
    pub relation: Relation,
    /// How many heads there are.
    pub num_heads: usize,
    /// What looking a fixed distance away would find.
    pub fixed_distance: FixedDistance,
    /// The layer of the best head: most links found, then most preferred, then the largest share.
    pub best_layer: String,
    /// The best head.
    pub best_head: usize,
    /// What it finds.
    pub best: RelationScore,
    /// Whether it may be named after the relation.
    pub verdict: Verdict,
    /// Every link.
    pub links: Vec<LinkSurvey>,
}

/// A link in one batch entry of one layer.
struct Placed {
    label: usize,
    entry: usize,
    places: Places,
}

/// Scores every head on every relation of which the sentences have labels, and writes the scores into the layers.
pub(super) fn survey(layers: &mut [LayerSurvey]) -> Result<Vec<RelationSurvey>, Error> {
    let mut relations = Vec::new();
    for relation in Relation::ALL {
        let scored: Vec<LayerScores> = layers.iter().map(|layer| scores(layer, relation)).collect::<Result<_, _>>()?;
        let labelled = scored.iter().find(|layer| !layer.placed.is_empty());
        let Some(placed) = labelled.map(|layer| layer.placed.iter().map(|placed| placed.places).collect::<Vec<_>>())
        else {
            continue;
        };
        for (layer, scores) in layers.iter_mut().zip(&scored) {
            for (head, score) in layer.heads.iter_mut().zip(&scores.by_head) {
                head.relations.push(*score);
            }
        }
        relations.push(best_of(layers, &scored, relation, FixedDistance::best(&placed)));
    }
    Ok(relations)
}

struct LayerScores {
    placed: Vec<Placed>,
    /// For each head, a score for each placed link.
    links: Vec<Vec<LinkScore>>,
    /// For each head, all of its links together.
    by_head: Vec<RelationScore>,
}

fn scores(layer: &LayerSurvey, relation: Relation) -> Result<LayerScores, Error> {
    let mut placed = Vec::new();
    let mut links = vec![Vec::new(); layer.heads.len()];
    for (entry, sentence) in layer.sentences.iter().enumerate() {
        let maps = AttentionMap::of_batch_entry(&layer.attention_weights, entry)?;
        for (label, link) in LINKS.iter().enumerate().filter(|(_, link)| link.relation == relation) {
            let Some(places) = link.places(&sentence.tokens) else { continue };
            for (scores, map) in links.iter_mut().zip(&maps) {
                scores.push(LinkScore::new(map, &sentence.tokens, places));
            }
            placed.push(Placed { label, entry, places });
        }
    }
    let by_head = links.iter().map(|links: &Vec<LinkScore>| RelationScore::of(links)).collect();
    Ok(LayerScores { placed, links, by_head })
}

fn best_of(layers: &[LayerSurvey], scored: &[LayerScores], relation: Relation, fixed: FixedDistance) -> RelationSurvey {
    // Of layers that read none of the sentences nothing is known.
    let all = || {
        let by_layer = scored.iter().enumerate().filter(|(_, scores)| !scores.placed.is_empty());
        by_layer.flat_map(|(layer, scores)| {
            scores.by_head.iter().enumerate().map(move |(head, score)| (layer, head, *score))
        })
    };
    let rank = |score: &RelationScore| (score.found, score.preferred);
    let (layer, best_head, best) = all()
        .reduce(|best, other| {
            let order = rank(&other.2).cmp(&rank(&best.2)).then(other.2.mean_share.total_cmp(&best.2.mean_share));
            if order.is_gt() { other } else { best }
        })
        .expect("a relation with links should have heads");
    let num_heads = all().count();
    RelationSurvey {
        relation,
        num_heads,
        fixed_distance: fixed,
        best_layer: layers[layer].name.clone(),
        best_head,
        best,
        verdict: Verdict::new(&best, fixed, num_heads),
        links: each_link(layers, scored),
    }
}

/// A link's scores in all layers that read its sentence.
fn each_link(layers: &[LayerSurvey], scored: &[LayerScores]) -> Vec<LinkSurvey> {
    let mut seen: Vec<(usize, usize)> = Vec::new();
    for placed in scored.iter().flat_map(|layer| &layer.placed) {
        if !seen.contains(&(placed.label, placed.entry)) {
            seen.push((placed.label, placed.entry));
        }
    }
    seen.into_iter().map(|link| one_link(layers, scored, link)).collect()
}

fn one_link(layers: &[LayerSurvey], scored: &[LayerScores], (label, entry): (usize, usize)) -> LinkSurvey {
    let in_layer = |(layer, scores): (usize, &LayerScores)| {
        let index = scores.placed.iter().position(|placed| (placed.label, placed.entry) == (label, entry));
        let of_heads = |index: usize| scores.links.iter().enumerate().map(move |(head, links)| (head, links[index]));
        let scores: Vec<_> = index.into_iter().flat_map(of_heads).map(|(head, score)| (layer, head, score)).collect();
        scores
    };
    let all: Vec<(usize, usize, LinkScore)> = scored.iter().enumerate().flat_map(in_layer).collect();
    let (layer, best_head, best) = *all
        .iter()
        .max_by(|(_, _, a), (_, _, b)| a.share.total_cmp(&b.share))
        .expect("a link that was seen should have heads");
    let word = |word: &str| word.split('.').next().unwrap_or(word).to_owned();
    LinkSurvey {
        from: word(LINKS[label].from),
        to: word(LINKS[label].to),
        rival: word(LINKS[label].rival),
        found_by: all.iter().filter(|(_, _, score)| score.found).count(),
        preferred_by: all.iter().filter(|(_, _, score)| score.preferred()).count(),
        best_layer: layers[layer].name.clone(),
        best_head,
        best_share: best.share.into(),
        best_rival_share: best.rival_share.into(),
    }
}
