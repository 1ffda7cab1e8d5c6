//! The survey of heads: layers and heads as tables of colours, the curves of pruning, every map on the page.

use super::{Pictured, drawing, maps};
use crate::error::Error;
use crate::experiments::survey::{HeadSurvey, LayerSurvey, Report};
use crate::heads::Pattern;
use crate::plot::{
    Figure, HeadMap, HeatCell, HeatTable, LineChart, MapGroup, MapViewer, Panel, Picture, Section, Series, Theme,
};

impl Pictured for Report {
    fn title(&self) -> &'static str {
        "What the heads do"
    }

    fn picture(&self, theme: Theme) -> Result<Picture, Error> {
        let pattern = |head: &HeadSurvey| {
            let words = format!("{}\n{:.2}", short_name(head.pattern), head.pattern_score);
            (
                head.pattern_score,
                words,
                format!("{} {:.3}", head.pattern.map_or("none", Pattern::name), head.pattern_score),
            )
        };
        let keys = |head: &HeadSurvey| {
            let keys = head.effective_keys;
            (keys, format!("{keys:.1}"), format!("{keys:.2} keys in effect, {:.2} bits", head.entropy_bits))
        };
        let without = |head: &HeadSurvey| {
            let change = head.without;
            let tip = format!("change {:.3}, cosine {:.3}", change.relative, change.cosine);
            (change.relative, format!("{:.2}", change.relative), tip)
        };
        let panels = vec![
            self.table("Nearest pattern, and how near", "score", pattern),
            self.table("Keys in effect, 2^entropy", "keys", keys),
            self.table("Change of the layer's output when this head alone is off", "‖o′ − o‖ / ‖o‖", without),
            Panel::Lines(self.curves()),
        ];
        let caption = format!(
            "prev, next, self, first, sep: the share of attention on the previous, next, own, first or separator \
             token; broad: how even a row is. Means over {} on {}.",
            self.sentences(),
            self.device
        );
        Figure { title: self.title(), caption: &caption, panels, columns: 1, theme }.draw()
    }

    fn sections(&self) -> Result<Vec<Section>, Error> {
        let groups = self.layers.iter().flat_map(groups).collect();
        let viewer = MapViewer { pickers: vec!["layer".into(), "sentence".into()], groups };
        Ok(vec![Section::Maps(viewer), drawing(self)?])
    }
}

impl Report {
    /// "8 sentences".
    fn sentences(&self) -> String {
        match self.layers.iter().map(|layer| layer.sentences.len()).max().unwrap_or(0) {
            1 => "1 sentence".into(),
            count => format!("{count} sentences"),
        }
    }

    fn table(&self, title: &str, bar_title: &str, cell: impl Fn(&HeadSurvey) -> (f64, String, String)) -> Panel {
        let num_heads = self.layers.iter().map(|layer| layer.heads.len()).max().unwrap_or(0);
        let mut cells = Vec::new();
        for layer in &self.layers {
            for head in 0..num_heads {
                // Layers need not have as many heads as the widest.
                cells.push(layer.heads.get(head).map(|head| {
                    let (number, words, tip) = cell(head);
                    HeatCell { number, words, tip: format!("{}, head {}: {tip}", layer.name, head.head) }
                }));
            }
        }
        Panel::Table(HeatTable {
            title: title.into(),
            column_title: "head".into(),
            columns: (0..num_heads).map(|head| head.to_string()).collect(),
            rows: self.layers.iter().map(|layer| layer.name.clone()).collect(),
            bar_title: bar_title.into(),
            cells,
        })
    }

    /// How the output moves away as heads are switched off.
    fn curves(&self) -> LineChart {
        let longest = self.layers.iter().map(|layer| layer.pruning.len()).max().unwrap_or(0);
        let series = self.layers.iter().map(|layer| {
            let changes = layer.pruning.iter().map(|step| Some(step.change.relative));
            let mut numbers: Vec<Option<f64>> = std::iter::once(Some(0.0)).chain(changes).collect();
            numbers.resize(longest + 1, None);
            Series { name: layer.name.clone(), numbers }
        });
        LineChart {
            title: "Heads switched off one after another, the least missed first".into(),
            x_title: "heads that are off".into(),
            y_title: "‖o′ − o‖ / ‖o‖".into(),
            places: (0..=longest).map(|off| off.to_string()).collect(),
            series: series.collect(),
            joined: true,
            ..LineChart::default()
        }
    }
}

/// What fits into a cell.
fn short_name(pattern: Option<Pattern>) -> &'static str {
    let Some(pattern) = pattern else { return "none" };
    match pattern {
        Pattern::Previous => "prev",
        Pattern::Separator => "sep",
        pattern => pattern.name(),
    }
}

/// The maps of one layer, a group for each sentence; padding and keys that the layer learned are left out.
fn groups(layer: &LayerSurvey) -> Vec<MapGroup> {
    let of_sentence = |entry: usize| {
        let sentence = &layer.sentences[entry];
        let all_keys = layer.attention_weights.shape().axes()[3];
        let (num_queries, num_keys) = (sentence.num_counted, sentence.num_keys);
        let note =
            |head: usize| format!("{} {:.2}", short_name(layer.heads[head].pattern), layer.heads[head].pattern_score);
        let words = |count: usize| {
            let word = |place: usize| sentence.tokens.get(place).cloned().unwrap_or_else(|| place.to_string());
            (0..count).map(word).collect::<Vec<_>>()
        };
        let cropped = |head: HeadMap| {
            let rows = head.weights.chunks(all_keys.max(1)).take(num_queries);
            HeadMap { weights: rows.flat_map(|row| &row[..num_keys]).copied().collect(), ..head }
        };
        let heads = maps::heads(&layer.attention_weights, entry, note).into_iter().map(cropped).collect();
        let queries = words(num_queries);
        let name =
            if sentence.tokens.is_empty() { format!("{entry}") } else { format!("{entry}: {}", queries.join(" ")) };
        MapGroup { path: vec![layer.name.clone(), name], queries, keys: words(num_keys), heads }
    };
    (0..layer.sentences.len()).filter(|&entry| layer.sentences[entry].num_counted > 0).map(of_sentence).collect()
}
