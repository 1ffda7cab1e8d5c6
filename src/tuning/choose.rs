//! Which candidate is taken: the fastest of those that the budget lets be measured.

use std::collections::BTreeMap;
use std::time::Duration;

use super::products::Product;
use crate::error::Error;
use crate::kernels::{ProductClass, Tile};

/// Another candidate has to take less than this part of the best so far's time: what is within the noise changes nothing.
const CLEARLY: f64 = 0.97;

/// What is measured, and for how long.
pub(super) struct Choosing<'a, S> {
    /// The first is what is taken without measuring.
    pub(super) candidates: &'a [Tile],
    pub(super) budget: Duration,
    /// How much of the budget is spent.
    pub(super) spent: S,
}

impl<S: Fn() -> Duration> Choosing<'_, S> {
    /// The fastest tile for each product that two candidates at least were measured for, until the budget is spent or a
    /// measurement fails. `measure` says how long a product takes with a tile, and may itself take about as long as it is
    /// allowed.
    pub(super) async fn fastest(
        &self,
        products: &[&Product],
        mut measure: impl AsyncFnMut(&Product, Tile, Duration) -> Result<Duration, Error>,
    ) -> BTreeMap<ProductClass, Tile> {
        let mut found = BTreeMap::new();
        // What the last measurement cost: the next one, of as much or less work, will not cost much more.
        let mut cost = Duration::ZERO;
        for product in products {
            let mut best: Option<(Duration, Tile)> = None;
            let mut measured = 0;
            for (index, &tile) in self.candidates.iter().enumerate() {
                let left = self.budget.saturating_sub((self.spent)());
                if left.is_zero() || left < cost {
                    break;
                }
                let sharing = u32::try_from(self.candidates.len() - index).unwrap_or(u32::MAX);
                let before = (self.spent)();
                let took = match measure(product, tile, left / sharing).await {
                    Ok(took) => took,
                    Err(error) => {
                        log::warn!("the tile {tile} of matmul_tiled could not be measured: {error}");
                        return found;
                    }
                };
                cost = (self.spent)().saturating_sub(before);
                measured += 1;
                if best.is_none_or(|(least, _)| took.as_secs_f64() < CLEARLY * least.as_secs_f64()) {
                    best = Some((took, tile));
                }
            }
            if let Some((_, tile)) = best.filter(|_| measured > 1) {
                found.insert(product.class, tile);
            }
        }
        found
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

    /// What is chosen for products of these rows where measuring costs `cost` ms and finds what `took` says; and what was
    /// measured.
    fn chosen(
        rows: &[usize],
        cost: u32,
        took: impl Fn(usize, Tile) -> Option<f64>,
    ) -> (Vec<Option<Tile>>, Vec<(String, Tile)>) {
        let (clock, tried) = (Cell::new(Duration::ZERO), RefCell::new(Vec::new()));
        let products: Vec<_> = rows.iter().map(|&rows| example(rows)).collect();
        let choosing = Choosing { candidates: &Tile::ALL, budget: 300 * MS, spent: || clock.get() };
        let measure = async |product: &Product, tile: Tile, allowed: Duration| {
            assert!(clock.get() + allowed <= 300 * MS, "{allowed:?} is more than what is left");
            clock.set(clock.get() + cost * MS);
            tried.borrow_mut().push((product.outputs[0].clone(), tile));
            let took = took(product.class.rows.try_into().unwrap(), tile);
            took.map(Duration::from_secs_f64).ok_or_else(|| Error::Invalid("the device is out of order".into()))
        };
        let found = ready(choosing.fastest(&products.iter().collect::<Vec<_>>(), measure));
        assert!(clock.get() <= 300 * MS, "{:?}", clock.get());
        (products.iter().map(|product| found.get(&product.class).copied()).collect(), tried.into_inner())
    }

    fn seconds(tile: Tile) -> f64 {
        match tile {
            Tile::Wide => 0.5,
            Tile::Square128 => 2.0,
            Tile::Square64 | Tile::Square32 => 1.0,
        }
    }

    #[test]
    fn the_fastest_is_taken_for_each_product() {
        let took = |rows, tile| Some(if rows == 16 { 1.0 / seconds(tile) } else { seconds(tile) });
        let (found, tried) = chosen(&[64, 16], 10, took);
        assert_eq!(found, [Some(Tile::Wide), Some(Tile::Square128)]);
        assert_eq!(tried.len(), 8);
    }

    #[test]
    fn what_is_hardly_faster_changes_nothing() {
        let took = |_, tile| Some(if tile == Tile::Square64 { 1.0 } else { 0.98 });
        assert_eq!(chosen(&[64], 1, took).0, [Some(Tile::Square64)]);
    }

    #[test]
    fn the_budget_ends_the_measuring_and_the_best_so_far_is_kept() {
        let took = |_, tile| Some(if tile == Tile::Square128 { 0.1 } else { seconds(tile) });
        let (found, tried) = chosen(&[64, 16], 100, took);
        assert_eq!(found, [Some(Tile::Wide), None], "the large tile would have been the fastest");
        assert_eq!(tried.len(), 3);
        let (found, tried) = chosen(&[64], 160, took);
        assert_eq!((found, tried.len()), (vec![None], 1), "one measurement compares nothing");
    }

    #[test]
    fn a_failure_leaves_what_was_known_before() {
        let took = |rows, tile| (rows == 64 || tile != Tile::Wide).then(|| seconds(tile));
        assert_eq!(chosen(&[64, 16, 4], 1, took).0, [Some(Tile::Wide), None, None]);
        assert_eq!(chosen(&[64], 1, |_, _| None).0, [None]);
    }

    #[test]
    fn without_products_or_candidates_nothing_is_measured() {
        assert_eq!(chosen(&[], 1, |_, _| None), (vec![], vec![]));
        let product = example(4);
        let choosing = Choosing { candidates: &[], budget: 300 * MS, spent: || Duration::ZERO };
        let measure = async |_: &Product, _, _| panic!("nothing should be measured");
        assert_eq!(ready(choosing.fastest(&[&product], measure)), BTreeMap::new());
    }
}
