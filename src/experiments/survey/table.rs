//! The survey as text.

use std::fmt;

use super::links::RelationSurvey;
use super::{HeadSurvey, LayerSurvey, Report};
use crate::heads::Pattern;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for layer in &self.layers {
            heads(f, layer)?;
        }
        for layer in &self.layers {
            pruning(f, layer)?;
        }
        if self.relations.is_empty() {
            writeln!(f, "no sentence of this file has labelled links")?;
        }
        self.relations.iter().try_for_each(|relation| links(f, relation))
    }
}

fn heads(f: &mut fmt::Formatter<'_>, layer: &LayerSurvey) -> fmt::Result {
    writeln!(f, "{}", layer.name)?;
    writeln!(
        f,
        "  head  pattern         bits   keys  distance   prev   next   self  first    sep  without: change  cosine"
    )?;
    for head in &layer.heads {
        let HeadSurvey { entropy_bits, effective_keys, mean_distance, without, .. } = head;
        write!(
            f,
            "  {:>4}  {:<9} {:>4.2}  ",
            head.head,
            head.pattern.map_or("none", Pattern::name),
            head.pattern_score
        )?;
        write!(f, "{entropy_bits:>5.2}  {effective_keys:>5.1}  {mean_distance:>8.1}")?;
        let near = [head.share_on_previous, head.share_on_next, head.share_on_self];
        for share in near.into_iter().chain([head.share_on_first, head.share_on_separator]) {
            write!(f, "  {:>5}", share.map_or_else(|| "-".into(), |share| format!("{share:.2}")))?;
        }
        writeln!(f, "  {:>15.3}  {:>6.3}", without.relative, without.cosine)?;
    }
    writeln!(f)
}

fn pruning(f: &mut fmt::Formatter<'_>, layer: &LayerSurvey) -> fmt::Result {
    writeln!(f, "{}: switched off one after another, each time the head that changes the output least", layer.name)?;
    write!(f, "  head    ")?;
    layer.pruning.iter().try_for_each(|step| write!(f, "{:>6}", step.head))?;
    write!(f, "\n  change  ")?;
    layer.pruning.iter().try_for_each(|step| write!(f, "{:>6.2}", step.change.relative))?;
    write!(f, "\n  cosine  ")?;
    layer.pruning.iter().try_for_each(|step| write!(f, "{:>6.2}", step.change.cosine))?;
    writeln!(f, "\n")
}

fn links(f: &mut fmt::Formatter<'_>, relation: &RelationSurvey) -> fmt::Result {
    let RelationSurvey { num_heads, fixed_distance, best, best_layer, best_head, verdict, .. } = relation;
    let name = relation.relation.name();
    writeln!(f, "{name}, {} link{}", best.links, if best.links == 1 { "" } else { "s" })?;
    for link in &relation.links {
        writeln!(
            f,
            "  {:<28} found by {:>2} of {num_heads} heads, preferred by {:>2}; most: {} head {}, {:.2} against {:.2}",
            format!("{} → {}, not {}", link.from, link.to, link.rival),
            link.found_by,
            link.preferred_by,
            link.best_layer,
            link.best_head,
            link.best_share,
            link.best_rival_share
        )?;
    }
    let distance = fixed_distance.distance;
    writeln!(f, "  best fixed distance: {distance:+} finds {} of {}", fixed_distance.found, best.links)?;
    writeln!(
        f,
        "  best head: {best_layer} head {best_head} finds {} and prefers {} of {}; mean share {:.2}, rivals {:.2}",
        best.found, best.preferred, best.links, best.mean_share, best.mean_rival_share
    )?;
    let chance = format!("coins would make {:.2} of {num_heads} heads prefer as many", verdict.by_chance);
    if verdict.named {
        writeln!(f, "  {best_layer} head {best_head} knows {name}: {chance}\n")
    } else if best.found <= fixed_distance.found {
        writeln!(f, "  no head knows {name}: none finds more than the fixed distance; {chance}\n")
    } else {
        writeln!(f, "  no head can be said to know {name}: {chance}\n")
    }
}
