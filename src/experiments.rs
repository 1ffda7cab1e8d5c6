//! The experiments of D2L §10.3, and a survey of what heads do: each runs on a device through the same graph as any
//! call.
//!
//! | module | claim |
//! |---|---|
//! | [`copy_both`] | one head cannot report two values, whatever its weights; two heads can |
//! | [`shapes`] | what the reshape trick does to every shape |
//! | [`heads_are_free`] | more heads cost no parameters and no matrix products, but exponentials |
//! | [`alignment`] | dot products of embeddings align letters: sharp, split or diffuse |
//! | [`self_and_cross`] | self- and cross-attention are one module, wired in two ways |
//! | [`grouped_query`] | key/value heads pooled into groups: what the cache saves, what the output loses |
//! | [`survey`] | every head of a model: statistics, patterns, labelled links, pruning |
//!
//! Each has a `run` that is async and touches neither files nor the terminal, and a `Report` that prints as a table and
//! serialises as JSON; with the feature `plot`, a report also draws itself (`picture`) and makes an interactive page
//! (`page`). The first five have `Options` with the text's numbers as default, the other two take cases. The
//! [guide](crate::guide) tells the story.
//!
//! ```
//! use multihead::{Device, DeviceChoice, experiments::alignment};
//! # pollster::block_on(async {
//! let device = Device::open(&DeviceChoice::Cpu).await?;
//! let report = alignment::run(&device, &alignment::Options::default()).await?;
//! assert_eq!(report.letters.len(), 9); // of "attention"
//! assert!(report.separated);
//! # Ok::<(), multihead::Error>(()) })?;
//! # Ok::<(), multihead::Error>(())
//! ```

pub mod alignment;
pub mod copy_both;
pub mod grouped_query;
pub mod heads_are_free;
#[cfg(feature = "plot")]
mod pictures;
mod random;
mod rows;
pub mod self_and_cross;
pub mod shapes;
pub mod survey;

#[cfg(feature = "plot")]
pub use pictures::Pictured;

use crate::error::Error;

/// Refuses what lies outside `least..=most`.
fn between(what: &str, value: usize, least: usize, most: usize) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::OutOfRange {
        what: what.into(),
        value: value.to_string(),
        allowed: format!("must be between {least} and {most}"),
    })
}
