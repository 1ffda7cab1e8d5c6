//! `--tune`: measures, where there is something to measure, and says what was chosen.

use multihead::tuning::{Choice, Tuned, Tuning, candidates};
use multihead::{Error, Gpu, Graph, PlanOptions};

use super::cache_folder::cache_folder;
use super::print;

/// How graphs are compiled on a device, and what `--tune` asks for.
pub(super) struct Tuner<'a> {
    gpu: Option<&'a Gpu>,
    options: PlanOptions,
    tuning: Tuning,
}

impl<'a> Tuner<'a> {
    /// Without a GPU the CPU computes. Where nothing is worth measuring, one sentence says so.
    pub(super) fn new(on: bool, gpu: Option<&'a Gpu>, options: PlanOptions) -> Self {
        if on && gpu.is_none_or(|gpu| candidates(gpu.profile()).is_empty()) {
            let name = gpu.map_or("cpu", |gpu| &gpu.profile().name);
            let reason =
                "which computes on the CPU: compiling what would be measured takes longer than the fastest saves";
            print::warning(&format!("--tune on changes nothing on {name}, {reason}"));
        }
        let memory = cache_folder().map(|folder| folder.join("multihead").join("tiles.json"));
        Self { gpu, options, tuning: Tuning { on, memory, ..Tuning::default() } }
    }

    /// The options with the fastest tiles for a graph, and what was chosen.
    pub(super) async fn tuned(&self, graph: &Graph) -> Result<(PlanOptions, Vec<Choice>), Error> {
        let Some(gpu) = self.gpu else {
            return Ok((self.options.clone(), Vec::new()));
        };
        let Tuned { tiles, choices, unsaved } = self.tuning.tiles(gpu, graph, &self.options).await?;
        if let Some(reason) = unsaved {
            print::warning(&format!("what --tune measured is not remembered: {reason}"));
        }
        Ok((PlanOptions { tiles, ..self.options.clone() }, choices))
    }
}

/// A line for a reader; nothing where nothing was to be chosen.
pub(super) fn told(choices: &[Choice]) -> String {
    if choices.is_empty() {
        return String::new();
    }
    let choices: Vec<_> = choices.iter().map(Choice::to_string).collect();
    format!("tiles       {}\n", choices.join(", "))
}

#[cfg(test)]
mod tests {
    use multihead::kernels::Tile;
    use multihead::tuning::Origin;

    use super::*;

    #[test]
    fn a_choice_is_told_with_where_it_comes_from() {
        let choice = |outputs: &[&str], tile, origin| {
            let outputs = outputs.iter().map(|&name| name.to_owned()).collect();
            Choice { outputs, tile, origin }
        };
        let choices = [
            choice(&["q", "k"], Tile::Wide, Origin::Measured),
            choice(&["scores"], Tile::Square32, Origin::Remembered),
            choice(&["output"], Tile::Square64, Origin::Static),
        ];
        insta::assert_snapshot!(told(&choices), @"tiles       q k 32×128 (measured), scores 32×32 (remembered), output 64×64 (static)");
        let json = serde_json::to_string(&choices[0]).unwrap();
        assert_eq!(json, r#"{"outputs":["q","k"],"tile":"32x128","origin":"measured"}"#);
        assert_eq!(told(&[]), "");
    }
}
