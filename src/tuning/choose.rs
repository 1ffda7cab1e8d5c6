//! Which candidate is taken: the fastest of those that the budget lets be measured.

use std::collections::BTreeMap;
use std::time::Duration;

use super::products::Product;
use super::trial::SAMPLE;
use crate::error::Error;
use crate::kernels::{ProductClass, Tile};

/// Another candidate has to take less than this part of the best so far's time: what is within the noise changes nothing.
const CLEARLY: f64 = 0.97;

/// Of so many samples the median counts.
const SAMPLES: usize = 5;

/// What is measured, and for how long.
pub(super) struct Choosing<'a, S> {
    pub(super) candidates: &'a [Tile],
    pub(super) budget: Duration,
    /// How much of the budget is spent.
    pub(super) spent: S,
}

/// The fastest tile of a product, among those that were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fastest {
    pub(super) tile: Tile,
    /// Whether every candidate was measured.
    pub(super) of_all: bool,
}

/// How long one run takes with a candidate.
struct Times {
    tile: Tile,
    /// Of a run alone, while the device may still be waking up.
    first: Duration,
    samples: Vec<Duration>,
}

impl<S: Fn() -> Duration> Choosing<'_, S> {
    /// The fastest tile for each product that two candidates at least were measured for, until the budget is spent or a
    /// measurement fails. `open` prepares for a product, `time` says how long that then takes with a tile; a tile's first
    /// time is one run alone, and includes getting ready, all others are samples.
    pub(super) async fn fastest<B>(
        &self,
        products: &[&Product],
        mut open: impl AsyncFnMut(&Product) -> Result<B, Error>,
        mut time: impl AsyncFnMut(&mut B, Tile) -> Result<Duration, Error>,
    ) -> BTreeMap<ProductClass, Fastest> {
        let mut found = BTreeMap::new();
        // What the last candidate needed to get ready: the next one, of as much or less work, will not need much more.
        let mut need = Duration::ZERO;
        for product in products {
            if !self.affords(need) {
                break;
            }
            let times = async {
                let mut bench = open(product).await?;
                self.times(product, async |tile| time(&mut bench, tile).await, &mut need).await
            };
            match times.await {
                Ok(times) => {
                    let of_all = times.len() == self.candidates.len();
                    found.extend(fastest(times).map(|tile| (product.class, Fastest { tile, of_all })));
                }
                Err(error) => {
                    log::warn!("no more tiles of matmul_tiled are measured: {error}");
                    break;
                }
            }
        }
        found
    }

    /// Gets all candidates ready, then samples them in turn, so that a clock that ramps up favours none.
    async fn times(
        &self,
        product: &Product,
        mut time: impl AsyncFnMut(Tile) -> Result<Duration, Error>,
        need: &mut Duration,
    ) -> Result<Vec<Times>, Error> {
        let mut all = Vec::new();
        for tile in in_order(self.candidates, product.usual) {
            if !self.affords(*need) {
                break;
            }
            let before = (self.spent)();
            let first = time(tile).await?;
            *need = (self.spent)().saturating_sub(before);
            all.push(Times { tile, first, samples: Vec::new() });
        }
        let round = all.iter().map(|times| times.first.max(SAMPLE)).sum();
        for _ in 0..SAMPLES {
            if all.len() < 2 || !self.affords(round) {
                break;
            }
            for times in &mut all {
                times.samples.push(time(times.tile).await?);
            }
        }
        Ok(all)
    }

    fn affords(&self, need: Duration) -> bool {
        let left = self.budget.saturating_sub((self.spent)());
        !left.is_zero() && left >= need
    }
}

/// What is taken without measuring first: the others have to be clearly faster.
fn in_order(candidates: &[Tile], usual: Tile) -> Vec<Tile> {
    let mut ordered = candidates.to_vec();
    ordered.sort_by_key(|&tile| tile != usual);
    ordered
}

/// The first, unless another is clearly faster; none where there is nothing to compare.
fn fastest(times: Vec<Times>) -> Option<Tile> {
    let several = times.len() > 1;
    let medians = times.into_iter().map(|times| (times.tile, times.median().as_secs_f64()));
    let best = medians.reduce(|best, other| if other.1 < CLEARLY * best.1 { other } else { best });
    best.filter(|_| several).map(|(tile, _)| tile)
}

impl Times {
    /// Of the samples, where the budget let any be taken.
    fn median(mut self) -> Duration {
        self.samples.sort_unstable();
        self.samples.get(self.samples.len() / 2).copied().unwrap_or(self.first)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::super::products::example;
    use super::*;

    /// What comes of a future that has nothing to wait for.
    fn ready<T>(future: impl Future<Output = T>) -> T {
        let Poll::Ready(outcome) = pin!(future).poll(&mut Context::from_waker(Waker::noop())) else {
            panic!("nothing should be waited for")
        };
        outcome
    }

    const MS: Duration = Duration::from_millis(1);

    /// What a test's device did: a product's output and a tile for each measurement, in their order.
    type Log = Vec<(String, Tile)>;

    /// What is chosen for products of these rows, on a device that takes `ready` ms to get a candidate ready and `sample`
    /// ms for a sample, and finds what `took` says; and what it did.
    fn chosen(
        rows: &[usize],
        [ready_ms, sample_ms]: [u32; 2],
        took: impl Fn(usize, Tile) -> Option<f64>,
    ) -> (Vec<Option<Fastest>>, Log) {
        let (clock, log) = (Cell::new(Duration::ZERO), RefCell::new(Log::new()));
        let products: Vec<_> = rows.iter().map(|&rows| example(rows)).collect();
        let choosing = Choosing { candidates: &Tile::ALL, budget: 300 * MS, spent: || clock.get() };
        let time = async |product: &mut Product, tile: Tile| {
            let call = (product.outputs[0].clone(), tile);
            let is_ready = log.borrow().contains(&call);
            clock.set(clock.get() + if is_ready { sample_ms } else { ready_ms } * MS);
            log.borrow_mut().push(call);
            let took = took(product.class.rows.try_into().unwrap(), tile);
            took.map(Duration::from_secs_f64).ok_or_else(|| Error::Invalid("the device is out of order".into()))
        };
        let open = async |product: &Product| Ok(product.clone());
        let found = ready(choosing.fastest(&products.iter().collect::<Vec<_>>(), open, time));
        assert!(clock.get() <= 300 * MS, "{:?}", clock.get());
        (products.iter().map(|product| found.get(&product.class).copied()).collect(), log.into_inner())
    }

    /// That all were measured.
    fn of_all(tile: Tile) -> Fastest {
        Fastest { tile, of_all: true }
    }

    /// Of one run.
    fn seconds(tile: Tile) -> f64 {
        match tile {
            Tile::Wide => 0.5e-3,
            Tile::Square128 => 2e-3,
            Tile::Square64 | Tile::Square32 => 1e-3,
        }
    }

    #[test]
    fn the_fastest_is_taken_for_each_product() {
        let took = |rows, tile| Some(if rows == 16 { 1e-6 / seconds(tile) } else { seconds(tile) });
        let (found, log) = chosen(&[64, 16], [10, 2], took);
        assert_eq!(found, [Some(of_all(Tile::Wide)), Some(of_all(Tile::Square128))]);
        let rounds = ["out64", "out16"]
            .map(|output| Tile::ALL.repeat(1 + SAMPLES).into_iter().map(move |tile| (output.into(), tile)));
        assert_eq!(log, rounds.into_iter().flatten().collect::<Log>(), "in turn");
    }

    #[test]
    fn what_is_taken_without_measuring_is_the_one_to_beat() {
        let ordered = in_order(&Tile::ALL, Tile::Square128);
        assert_eq!(ordered, [Tile::Square128, Tile::Square64, Tile::Square32, Tile::Wide]);
        let alike = |&tile: &Tile| Times { tile, first: MS, samples: vec![MS] };
        assert_eq!(fastest(ordered.iter().map(alike).collect()), Some(Tile::Square128));
        assert_eq!(in_order(&[Tile::Wide, Tile::Square32], Tile::Square128), [Tile::Wide, Tile::Square32]);
    }

    #[test]
    fn what_is_hardly_faster_changes_nothing() {
        let took = |_, tile| Some(if tile == Tile::Square64 { 1e-3 } else { 0.98e-3 });
        assert_eq!(chosen(&[64], [1, 2], took).0, [Some(of_all(Tile::Square64))]);
    }

    /// A device that wakes up while it is measured has the first runs of the first candidates take longest; and one
    /// sample may be disturbed.
    #[test]
    fn the_median_of_samples_counts_and_not_the_first_runs() {
        let calls = Cell::new(0);
        let took = |_, tile| {
            calls.set(calls.get() + 1);
            Some(match calls.get() {
                1..=4 => 9e-3 / f64::from(calls.get()),
                7 => 9e-3,
                _ => seconds(tile),
            })
        };
        assert_eq!(chosen(&[64], [1, 2], took).0, [Some(of_all(Tile::Wide))]);
    }

    #[test]
    fn the_budget_ends_the_measuring_and_the_best_so_far_is_kept() {
        let took = |_, tile| Some(if tile == Tile::Square128 { 0.1e-3 } else { seconds(tile) });
        let (found, log) = chosen(&[64, 16], [100, 2], took);
        assert_eq!(
            found,
            [Some(Fastest { tile: Tile::Wide, of_all: false }), None],
            "the large tile would have been the fastest"
        );
        assert_eq!(log.len(), 3);
        let (found, log) = chosen(&[64], [160, 2], took);
        assert_eq!((found, log.len()), (vec![None], 1), "one measurement compares nothing");
    }

    /// Samples, however long, are taken of what is left when all candidates have had their first run.
    #[test]
    fn no_candidate_goes_short_of_another_ones_samples() {
        for (ready_ms, sample_ms, rounds) in [(10, 20, 3), (60, 11, 1), (70, 20, 0), (74, 100, 0)] {
            let took = |_, tile| Some(f64::from(sample_ms) * if tile == Tile::Wide { 0.9e-3 } else { 1e-3 });
            let (found, log) = chosen(&[64], [ready_ms, sample_ms], took);
            assert_eq!(found, [Some(of_all(Tile::Wide))], "{ready_ms} ms, then {sample_ms} ms");
            assert_eq!(log.len(), 4 * (1 + rounds), "{ready_ms} ms, then {sample_ms} ms");
        }
    }

    #[test]
    fn a_failure_leaves_what_was_known_before() {
        let took = |rows, tile| (rows == 64 || tile != Tile::Wide).then(|| seconds(tile));
        assert_eq!(chosen(&[64, 16, 4], [1, 2], took).0, [Some(of_all(Tile::Wide)), None, None]);
        assert_eq!(chosen(&[64], [1, 2], |_, _| None).0, [None]);
    }

    #[test]
    fn without_products_or_candidates_nothing_is_measured() {
        assert_eq!(chosen(&[], [1, 2], |_, _| None), (vec![], vec![]));
        let product = example(4);
        let choosing = Choosing { candidates: &[], budget: 300 * MS, spent: || Duration::ZERO };
        let open = async |_: &Product| Ok(());
        let time = async |(): &mut (), _| panic!("nothing should be measured");
        assert_eq!(ready(choosing.fastest(&[&product], open, time)), BTreeMap::new());
    }
}
