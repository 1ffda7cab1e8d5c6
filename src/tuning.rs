//! A measured choice among kernels that give the same bits: which tile of `matmul_tiled` is fastest on this device, for the
//! products of this plan. Off unless asked for; remembered in a file of the caller's.
//!
//! # Example
//! ```no_run
//! use multihead::tuning::Tuning;
//! use multihead::{Gpu, Graph, Inputs, Plan, PlanOptions};
//! # async fn of(gpu: &Gpu, graph: &Graph, parameters: &Inputs<'_>) -> Result<(), multihead::Error> {
//! let tuning = Tuning { on: true, memory: Some("tiles.json".into()), ..Tuning::default() };
//! let tuned = tuning.tiles(gpu, graph, &PlanOptions::default()).await?;
//! let options = PlanOptions { tiles: tuned.tiles, ..PlanOptions::default() };
//! let plan = Plan::new(gpu, graph, parameters, &options).await?;
//! # Ok(())
//! # }
//! ```

mod choose;
mod memory;
mod products;
mod trial;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use web_time::Instant;

use crate::error::Error;
use crate::gpu::{AdapterKind, DeviceProfile, Gpu};
use crate::graph::Graph;
use crate::kernels::{ProductClass, Tile, Tiles};
use crate::plan::{PlanOptions, PlanSummary};
use choose::{Choosing, Fastest};
use products::Product;
use trial::Trials;

/// How long all measurements for one plan may take together. None is begun that is not expected to fit into what is left;
/// what a driver has begun to compile nothing can stop.
pub const BUDGET: Duration = Duration::from_millis(300);

/// A larger product is not measured: a trial has tensors of its own, beside those of the plan.
const MOST_BYTES: u64 = 1 << 30;

/// Whether and how tiles are measured; by default they are not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tuning {
    /// Whether to measure at all.
    pub on: bool,
    /// The file in which choices are remembered by adapter and driver; it and its folder are made where there is none.
    /// Without it nothing is remembered, and never a choice for which the time did not allow to measure all candidates.
    pub memory: Option<PathBuf>,
    /// Tiles to measure whatever the device is, for tests and comparisons; by default [`candidates`].
    pub candidates: Option<Vec<Tile>>,
}

/// The tiles worth measuring on a device. On a CPU adapter there are none: to compile them takes longer than the fastest
/// would save.
#[must_use]
pub fn candidates(profile: &DeviceProfile) -> &'static [Tile] {
    match profile.kind {
        AdapterKind::Cpu => &[],
        _ => &Tile::ALL,
    }
}

/// Where a choice comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// It is what is taken without measuring.
    Static,
    /// It was the fastest just now, of all candidates or of those that there was time for.
    Measured,
    /// It was the fastest once, on this adapter with this driver.
    Remembered,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "static",
            Self::Measured => "measured",
            Self::Remembered => "remembered",
        })
    }
}

/// The tile of some products of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Names of the values that these products write.
    pub outputs: Vec<String>,
    /// What they take.
    pub tile: Tile,
    /// Where that comes from.
    pub origin: Origin,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ({})", self.outputs.join(" "), self.tile, self.origin)
    }
}

/// The tiles for a plan, and how they were found.
#[derive(Debug, Default)]
pub struct Tuned {
    /// For [`PlanOptions::tiles`].
    pub tiles: Tiles,
    /// What was chosen for which products of `matmul_tiled`; none where nothing was to be chosen.
    pub choices: Vec<Choice>,
    /// Why nothing could be remembered, where it could not.
    pub unsaved: Option<Error>,
}

impl Tuning {
    /// Chooses a tile for the products of a graph that `options` leave to `matmul_tiled`. Whatever fails while measuring
    /// leaves the tile that is taken without measuring.
    ///
    /// # Errors
    /// As [`PlanSummary::with_options`].
    pub async fn tiles(&self, gpu: &Gpu, graph: &Graph, options: &PlanOptions) -> Result<Tuned, Error> {
        let candidates = self.candidates.as_deref().unwrap_or(candidates(gpu.profile()));
        // Who has chosen already is not asked again.
        if !self.on || candidates.is_empty() || options.tiles != Tiles::default() {
            return Ok(Tuned { tiles: options.tiles.clone(), ..Tuned::default() });
        }
        let products = products::of(&PlanSummary::with_options(graph, gpu.profile(), options)?);
        let mut remembered = self.memory.as_ref().map(|path| memory::recall(path, gpu.profile())).unwrap_or_default();
        remembered.retain(|_, tile| candidates.contains(tile));
        let unknown = |product: &&Product| !remembered.contains_key(&product.class) && product.bytes() <= MOST_BYTES;
        let unknown: Vec<_> = products.iter().filter(unknown).collect();
        let measured = measured(gpu, candidates, &unknown).await;
        let lasting: BTreeMap<_, _> =
            measured.iter().filter(|(_, best)| best.of_all).map(|(&class, best)| (class, best.tile)).collect();
        let unsaved = match &self.memory {
            Some(path) if !lasting.is_empty() => memory::remember(path, gpu.profile(), &lasting).err(),
            _ => None,
        };
        let choice = |product: &Product| {
            let found = measured.get(&product.class).map(|best| (best.tile, Origin::Measured));
            let found = found.or_else(|| remembered.get(&product.class).map(|&tile| (tile, Origin::Remembered)));
            let (tile, origin) = found.unwrap_or((product.usual, Origin::Static));
            Choice { outputs: product.outputs.clone(), tile, origin }
        };
        let choices: Vec<_> = products.iter().map(choice).collect();
        let chosen = products.iter().zip(&choices).map(|(product, choice)| (product.class, choice.tile)).collect();
        Ok(Tuned { tiles: Tiles { chosen, otherwise: None }, choices, unsaved })
    }
}

/// What is fastest on a device, for the products that there is time for.
async fn measured(gpu: &Gpu, candidates: &[Tile], products: &[&Product]) -> BTreeMap<ProductClass, Fastest> {
    let start = Instant::now();
    let choosing = Choosing { candidates, budget: BUDGET, spent: || start.elapsed() };
    let open = async |product: &Product| Trials::new(gpu, product).await;
    let time = async |trials: &mut Trials<'_>, tile| trials.time(tile).await;
    choosing.fastest(products, open, time).await
}
