//! Reports that are charts.

use super::Pictured;
use crate::error::Error;
use crate::experiments::{copy_both, grouped_query, heads_are_free, shapes};
use crate::plot::{Figure, LineChart, Panel, Picture, Series, ShapeBox, ShapeColumn, Theme};
use crate::shape::Shape;

impl Pictured for copy_both::Report {
    fn title(&self) -> &'static str {
        "One head cannot copy two values; two heads can"
    }

    fn picture(&self, theme: Theme) -> Result<Picture, Error> {
        let place = |row: &copy_both::Row| {
            let heads = if row.heads == 1 { "1 head".into() } else { format!("{} heads", row.heads) };
            format!("{heads}\n{}", copy_both::pairs(&row.weights).replace(") (", ")\n("))
        };
        let chart = LineChart {
            title: "Relative error of the best linear readout of both values".into(),
            x_title: "attention weights of the two positions, for each head".into(),
            y_title: "relative error".into(),
            places: self.rows.iter().map(place).collect(),
            series: vec![Series {
                name: String::new(),
                numbers: self.rows.iter().map(|row| Some(row.relative_error)).collect(),
            }],
            logarithmic: true,
            reference: Some((self.theory, "√½, the best of one head".into())),
            joined: false,
            with_numbers: true,
        };
        let caption = format!(
            "{} samples, values of {} numbers. The weights come from queries and keys. On {}.",
            self.num_samples, self.value_dim, self.device
        );
        let panels = vec![Panel::Lines(chart)];
        Figure { title: self.title(), caption: &caption, panels, columns: 1, theme }.draw()
    }
}

impl Pictured for shapes::Report {
    fn title(&self) -> &'static str {
        "Every shape of a call, from its graph"
    }

    fn picture(&self, theme: Theme) -> Result<Picture, Error> {
        let shape_box = |step: &shapes::Step| ShapeBox {
            op: step.op.clone(),
            name: step.name.clone(),
            shape: Shape::from(step.shape.clone()).to_string(),
            how: if step.op.starts_with("transpose") { step.how.clone() } else { String::new() },
            given: ["input", "parameter"].contains(&step.op.as_str()),
        };
        let titles = ["4 queries, 6 keys, (3, 2) valid", "A (4 tokens) over B (9 tokens)"];
        let columns = self.calls.iter().zip(titles).map(|(call, title)| {
            let values = call.steps.iter().filter(|step| step.op != "parameter").map(shape_box).collect();
            Panel::Shapes(ShapeColumn { title: title.into(), values })
        });
        let caption = format!(
            "num_hiddens {}, {} heads, batch 2; the four projections are ({0}, {0}). Dashed: given.",
            self.num_hiddens, self.num_heads
        );
        Figure { title: self.title(), caption: &caption, panels: columns.collect(), columns: 2, theme }.draw()
    }
}

impl Pictured for heads_are_free::Report {
    fn title(&self) -> &'static str {
        "What more heads cost"
    }

    fn picture(&self, theme: Theme) -> Result<Picture, Error> {
        let mut heads: Vec<usize> = self.rows.iter().map(|row| row.heads).collect();
        heads.sort_unstable();
        heads.dedup();
        let mut widths: Vec<usize> = self.rows.iter().map(|row| row.num_hiddens).collect();
        widths.dedup();
        let chart = |title: &str, y_title: &str, number: fn(&heads_are_free::Row) -> Option<f64>| {
            let of = |width: usize, heads: usize| {
                self.rows.iter().find(|row| row.num_hiddens == width && row.heads == heads).and_then(number)
            };
            let series = widths.iter().map(|&width| Series {
                name: format!("width {width}"),
                numbers: heads.iter().map(|&heads| of(width, heads)).collect(),
            });
            Panel::Lines(joined(LineChart {
                title: title.into(),
                x_title: "heads".into(),
                y_title: y_title.into(),
                places: heads.iter().map(ToString::to_string).collect(),
                series: series.collect(),
                logarithmic: widths.len() > 1,
                ..LineChart::default()
            }))
        };
        let mut panels = vec![
            chart("Parameters", "elements", |row| Some(row.parameters as f64)),
            chart("Matrix products", "million operations", |row| Some(row.flops as f64 / 1e6)),
            chart("Softmax", "thousand exponentials", |row| Some(row.exponentials as f64 / 1e3)),
        ];
        if self.runs > 0 {
            panels.push(chart("Measured time", "milliseconds", |row| row.median_ms));
        }
        let device =
            if self.runs > 0 { format!(" Medians of {} runs on {}.", self.runs, self.device) } else { String::new() };
        let caption = format!("A sequence of {} tokens attends to itself.{device}", self.num_tokens);
        Figure { title: self.title(), caption: &caption, panels, columns: 2, theme }.draw()
    }
}

impl Pictured for grouped_query::Report {
    fn title(&self) -> &'static str {
        "Key/value heads pooled into groups, without further training"
    }

    fn picture(&self, theme: Theme) -> Result<Picture, Error> {
        let groups: Vec<usize> = self
            .layers
            .iter()
            .max_by_key(|layer| layer.rows.len())
            .map(|layer| layer.rows.iter().map(|row| row.num_kv_heads).collect())
            .unwrap_or_default();
        let chart = |title: &str, y_title: &str, number: fn(&grouped_query::Row) -> f64| {
            let series = self.layers.iter().map(|layer| {
                let of = |groups: &usize| layer.rows.iter().find(|row| row.num_kv_heads == *groups).map(number);
                Series { name: layer.name.clone(), numbers: groups.iter().map(of).collect() }
            });
            Panel::Lines(joined(LineChart {
                title: title.into(),
                x_title: "key/value heads".into(),
                y_title: y_title.into(),
                places: groups.iter().map(ToString::to_string).collect(),
                series: series.collect(),
                ..LineChart::default()
            }))
        };
        let panels = vec![
            chart("Change of the output, groups mean-pooled", "‖o′ − o‖ / ‖o‖", |row| row.mean.relative),
            chart("Change of the output, first head of each group", "‖o′ − o‖ / ‖o‖", |row| {
                row.first.relative
            }),
            chart("Cache of a layer", "bytes per token, 32 bits", |row| row.cache_bytes_per_token as f64),
        ];
        let caption = format!("Conversion by Ainslie et al. 2023, before any uptraining. On {}.", self.device);
        Figure { title: self.title(), caption: &caption, panels, columns: 1, theme }.draw()
    }
}

/// The chart with lines; series of the same numbers are one, and one alone has its numbers beside it.
fn joined(mut chart: LineChart) -> LineChart {
    if chart.series.windows(2).all(|pair| pair[0].numbers == pair[1].numbers) {
        chart.series.truncate(1);
    }
    LineChart { with_numbers: chart.series.len() == 1, joined: true, ..chart }
}
