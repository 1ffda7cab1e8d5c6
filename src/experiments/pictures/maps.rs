//! Reports that are attention maps.

use super::{Pictured, drawing};
use crate::error::Error;
use crate::experiments::{alignment, self_and_cross};
use crate::plot::{AttentionMaps, Figure, HeadMap, MapGroup, MapViewer, Panel, Picture, Section, Theme};
use crate::shape::HostTensor;

impl Pictured for alignment::Report {
    fn title(&self) -> &'static str {
        "Letters attend to letters"
    }

    fn picture(&self, theme: Theme) -> Result<Picture, Error> {
        let query: Vec<String> = self.letters.iter().map(|letter| letter.letter.clone()).collect();
        let held = self.letters.iter().filter(|letter| letter.holds).count();
        let caption = format!(
            "Rows: {}; columns: {}. Random embeddings of {} numbers; {held} of {} letters are in their regime. On {}.",
            query.concat(),
            self.keys.concat(),
            self.embedding_dim,
            self.letters.len(),
            self.device
        );
        AttentionMaps {
            query_tokens: &query,
            key_tokens: &self.keys,
            title: self.title(),
            caption: &caption,
            theme,
            max_width: Figure::WIDTH,
            ..AttentionMaps::new(&self.weights)
        }
        .draw()
    }

    fn sections(&self) -> Result<Vec<Section>, Error> {
        let queries = self.letters.iter().map(|letter| letter.letter.clone()).collect();
        let group = MapGroup {
            path: Vec::new(),
            queries,
            keys: self.keys.clone(),
            heads: heads(&self.weights, 0, |_| String::new()),
        };
        Ok(vec![Section::Maps(MapViewer { pickers: Vec::new(), groups: vec![group] })])
    }
}

impl Pictured for self_and_cross::Report {
    fn title(&self) -> &'static str {
        "One module, wired in two ways"
    }

    fn picture(&self, theme: Theme) -> Result<Picture, Error> {
        let map = |wiring: &self_and_cross::Wiring| {
            let picture = AttentionMaps {
                query_tokens: &wiring.queries,
                key_tokens: &wiring.keys,
                title: wiring.name,
                theme,
                max_width: Figure::INNER_WIDTH,
                ..AttentionMaps::new(&wiring.weights)
            };
            picture.draw().map(Panel::Picture)
        };
        let panels = self.wirings.iter().map(map).collect::<Result<_, _>>()?;
        let caption = format!("The same weights in both; queries and keys share a projection. On {}.", self.device);
        Figure { title: self.title(), caption: &caption, panels, columns: 1, theme }.draw()
    }

    fn sections(&self) -> Result<Vec<Section>, Error> {
        let groups = self.wirings.iter().map(|wiring| MapGroup {
            path: vec![wiring.name.into()],
            queries: wiring.queries.clone(),
            keys: wiring.keys.clone(),
            heads: heads(&wiring.weights, 0, |_| String::new()),
        });
        let viewer = MapViewer { pickers: vec!["wiring".into()], groups: groups.collect() };
        Ok(vec![Section::Maps(viewer), drawing(self)?])
    }
}

/// All heads of a batch entry of (B, H, Lq, Lk) weights, with a note for each.
pub(super) fn heads(weights: &HostTensor, entry: usize, note: impl Fn(usize) -> String) -> Vec<HeadMap> {
    let &[_, num_heads, num_queries, num_keys] = weights.shape().axes() else {
        unreachable!("attention weights should have four axes");
    };
    let size = num_queries * num_keys;
    let of_head = |head: usize| {
        let start = (entry * num_heads + head) * size;
        HeadMap {
            name: format!("head {head}"),
            note: note(head),
            weights: weights.data()[start..start + size].to_vec(),
        }
    };
    (0..num_heads).map(of_head).collect()
}
