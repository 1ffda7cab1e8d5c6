//! How much wasm's memory still takes: what it refuses would end the program.

use wasm_bindgen::prelude::wasm_bindgen;

use crate::{Error, Graph};

/// What wasm32 can address.
const ADDRESSABLE: u64 = 1 << 32;

/// Whether so many bytes can still be had at once.
#[must_use]
#[wasm_bindgen(js_name = hasRoom)]
pub fn has_room(bytes: f64) -> bool {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of bytes of JavaScript's arrays"
    )]
    let bytes = usize::try_from(bytes as u64);
    bytes.is_ok_and(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok())
}

/// Refuses what would not fit.
pub(super) fn check(what: &str, need: u64) -> Result<(), Error> {
    if has_room(need as f64) {
        return Ok(());
    }
    let used = (core::arch::wasm32::memory_size(0) as u64) << 16;
    Err(Error::LimitExceeded {
        what: what.into(),
        need,
        have: ADDRESSABLE - used.min(ADDRESSABLE),
        unit: "bytes",
        limit: "what is left of wasm's memory".into(),
        hint: "give fewer batch entries at once, or do not ask for the attention weights".into(),
    })
}

/// Bytes of a graph's outputs while a run gives them back: as they come, as tensors, as JavaScript's.
pub(super) fn of_outputs(graph: &Graph) -> u64 {
    graph.outputs().iter().map(|&id| graph.value(id).bytes()).fold(0, u64::saturating_add).saturating_mul(2)
}

/// Bytes of all of a graph's values on the CPU, `size` for each element.
pub(super) fn of_values(graph: &Graph, size: u64) -> u64 {
    graph.values().map(|(_, value)| (value.len() as u64).saturating_mul(size)).fold(0, u64::saturating_add)
}
