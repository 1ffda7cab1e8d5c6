//! A bar on a terminal's stderr, for what takes long.

use std::time::{Duration, Instant};

use indicatif::ProgressStyle;
use multihead::Progress;

/// Shorter work is over before a bar could be read.
const PATIENCE: Duration = Duration::from_secs(1);

/// A bar that appears when work has taken a while and is not over; gone when dropped. Where stderr is no terminal it is
/// never seen.
pub(super) struct ProgressBar {
    start: Instant,
    bar: Option<indicatif::ProgressBar>,
}

impl ProgressBar {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), bar: None }
    }

    pub(super) fn show(&mut self, Progress { done, total }: Progress) {
        if self.bar.is_none() && (self.start.elapsed() < PATIENCE || done >= total) {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let template = "{bar:40} {percent:>3}%  {elapsed} gone, about {eta} left";
            let style = ProgressStyle::with_template(template).expect("the template should be one");
            indicatif::ProgressBar::new(total).with_style(style).with_elapsed(self.start.elapsed())
        });
        bar.set_position(done);
    }
}

impl Drop for ProgressBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
