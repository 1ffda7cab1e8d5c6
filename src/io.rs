//! Files: case files and weights in, tensors out.
//!
//! A case file is one `.safetensors` file that says everything about one attention call: tensors, settings, weights and
//! the expected answer. [`Case`] reads and writes it; [`Settings`] is the JSON in its metadata key `attention`.
//! [`Archive`] is the plain safetensors file beneath, [`weights_from_file`] reads one layer of a model's own file, and
//! [`write_atomically`] is how every file of this library is written: whole or not at all.
//!
//! Files are not trusted. A header is checked against the size of the file before anything is allocated for what it
//! claims, and whatever is wrong comes back as one sentence.

mod archive;
mod atomic;
mod case;
mod convert;
mod header;
mod layers;
mod layout;
mod settings;
mod tensor_file;
mod words;

pub use archive::Archive;
pub use atomic::{remove_unfinished, writable_place, write_atomically};
pub use case::{Case, CaseOptions, Expected};
pub use layers::PADDING_TOKEN;
pub use layout::weights_from_file;
pub use settings::Settings;
pub use tensor_file::{tensors_to_bytes, write_tensors};
pub use words::printable;
