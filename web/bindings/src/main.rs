//! Writes the JavaScript that loads and calls a wasm library: `multihead-bindings LIBRARY.wasm FOLDER`.
//!
//! What the `wasm-bindgen` command would do, in the version that the lock file holds: the two sides must be of one
//! version, and so no tool of another one can get between them.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<()> {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [library, folder] = arguments.as_slice() else {
        bail!("usage: multihead-bindings LIBRARY.wasm FOLDER");
    };
    let mut bindgen = Bindgen::new();
    bindgen.input_path(library).web(true)?.typescript(true).omit_default_module_path(false);
    bindgen.remove_name_section(true).remove_producers_section(true);
    bindgen.generate(folder).with_context(|| format!("cannot bind {}", library.display()))
}
