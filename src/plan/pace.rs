//! How much of a plan is submitted at once: what takes about 100 ms, learnt from the submissions before.
//!
//! Windows resets a GPU that does not come back for two seconds, and a browser that waits for one draws nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{BoundStep, MOST_DISPATCHES};

/// How long a submission should take at most.
const LONGEST: Duration = Duration::from_millis(100);

/// How many times as much as the last submission the next one may hold, however fast the last one was.
const MOST_GROWTH: u64 = 4;

/// How far a run has come, in estimated operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// What is done.
    pub done: u64,
    /// What there is to do in all; more than 0.
    pub total: u64,
}

/// How much is submitted at once.
#[derive(Debug)]
pub(super) struct Pace(AtomicU64);

impl Pace {
    /// A pace to begin with, in operations.
    pub(super) fn new(work: u64) -> Self {
        Self(AtomicU64::new(work))
    }

    /// How many of the steps to submit next: at least one, if there is one.
    pub(super) fn take(&self, steps: &[BoundStep]) -> usize {
        self.fitting(steps.iter().map(|step| step.work))
    }

    fn fitting(&self, works: impl Iterator<Item = u64>) -> usize {
        let most = self.0.load(Ordering::Relaxed);
        let together = works.take(MOST_DISPATCHES).enumerate().scan(0_u64, |sum, (index, work)| {
            *sum = sum.saturating_add(work);
            (index == 0 || *sum <= most).then_some(())
        });
        together.count()
    }

    /// Learns from a submission. One that took too long says how much would have been right; a quick one says so only if
    /// it was about as large as it was allowed to be, for small ones are all overhead.
    pub(super) fn learn(&self, work: u64, took: Duration) {
        let most = self.0.load(Ordering::Relaxed);
        let nanoseconds = took.as_nanos().max(1);
        let right = u64::try_from(u128::from(work) * LONGEST.as_nanos() / nanoseconds).unwrap_or(u64::MAX);
        let next = if took > LONGEST {
            right.max(1)
        } else if work >= most / 2 {
            right.clamp(most, most.saturating_mul(MOST_GROWTH))
        } else {
            most
        };
        self.0.store(next, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn submissions_hold_what_takes_a_tenth_of_a_second() {
        let pace = Pace::new(1000);
        let fitting = |pace: &Pace| pace.fitting([600; 100].into_iter());
        assert_eq!(fitting(&pace), 1);
        // Small ones say nothing, slow or fast ones do.
        pace.learn(400, Duration::from_millis(1));
        assert_eq!(fitting(&pace), 1);
        pace.learn(600, Duration::from_millis(1));
        assert_eq!(fitting(&pace), 6);
        pace.learn(3600, Duration::from_millis(10));
        assert_eq!(fitting(&pace), 26);
        pace.learn(15_600, Duration::from_millis(1300));
        assert_eq!(fitting(&pace), 2);
        // However slow the device is, one dispatch is submitted at a time, and no more than an encoder should hold.
        pace.learn(1200, Duration::from_secs(100));
        assert_eq!(fitting(&pace), 1);
        assert_eq!(Pace::new(u64::MAX).fitting([1; 2000].into_iter()), MOST_DISPATCHES);
        assert_eq!(pace.fitting([].into_iter()), 0);
    }
}
