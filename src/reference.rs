//! The CPU twin of every op, in plain Rust: the oracle in `f64`, the built-in CPU device in `f32`.
//!
//! [`interpret`] works a graph off node by node, with the same schedule that a GPU's plan uses, so a graph whose scores
//! would fill the memory runs here too. Each op is a function of the op's name, written to be read: sums run in order,
//! nothing is reassociated, and the softmax subtracts the row's maximum and divides by the row's sum.

mod append_key;
mod append_rows;
mod attention;
mod copy;
mod dropout;
mod interpret;
mod matmul;
mod pack;
mod partial_attention;
mod softmax;
mod transpose;
mod view;

pub use interpret::interpret;
pub(crate) use interpret::interpret_watched;
pub(crate) use pack::{Part, pack};
pub use view::Real;
