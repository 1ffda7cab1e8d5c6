//! What the JavaScript package is made of. Of wasm only, with the feature `web`.
//!
//! The only caller is `web/package/src`: it gives values of the right types (`call`), turns a `fault` into its error
//! class, lets calls wait for each other, and is what pages see. On the public API alone.
#![cfg(target_arch = "wasm32")]

mod by_head;
mod call;
mod case;
mod device;
mod experiments;
mod explain;
mod fault;
mod files;
mod heads;
mod layer;
mod object;
mod room;
mod verify;

pub use by_head::ByHead;
pub use call::{JsCall, JsCase, JsProjections, JsTensor};
pub use case::open_case;
pub use device::{Instance, Place, kernel_names};
pub use experiments::{alignment, copy_both, heads_are_free, shapes};
pub use fault::Fault;
pub use files::{compare, from_safetensors, to_safetensors};
pub use heads::head_statistics;
pub use layer::Layer;
pub use room::has_room;
