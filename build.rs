//! Puts the shaders where `src/kernels` includes them from: as they are; or, for a page, which would load ten thousand bytes
//! more of them, without their comments, and without the text of those that are for llvmpipe alone.

use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=shaders");
    let variable = |name: &str| env::var(name).map_err(io::Error::other);
    let folder = Path::new(&variable("OUT_DIR")?).join("shaders");
    let for_pages = variable("CARGO_CFG_TARGET_ARCH")? == "wasm32";
    fs::create_dir_all(&folder)?;
    for entry in fs::read_dir("shaders")? {
        let entry = entry?;
        let text = fs::read_to_string(entry.path())?;
        // Only llvmpipe is given kernels that read textures (src/kernels/texels.rs), and no browser computes on it.
        let is_for_llvmpipe = text.contains("texture_storage_2d");
        let text = match (for_pages, is_for_llvmpipe) {
            (false, _) => text,
            (true, false) => without_comments(&text),
            (true, true) => String::new(),
        };
        fs::write(folder.join(entry.file_name()), text)?;
    }
    Ok(())
}

/// The text without lines that are nothing but a comment.
fn without_comments(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).flat_map(|line| [line, "\n"]).collect()
}
