//! The demo: a real layer, on whatever GPU there is.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use crate::setup;
use crate::step::Step;

/// Where the picture goes, below the workspace's root; git ignores the folder.
const PICTURE: &str = "out/minilm_layer1.png";

/// Sets up what is missing, then runs the example.
///
/// # Errors
/// When something is missing and cannot be set up, or the example fails.
pub(crate) fn run(root: &Path, arguments: Vec<String>) -> Result<()> {
    setup::for_demo(root)?;
    make_output_folder(root)?;
    step(arguments).run(root)?;
    Ok(())
}

/// The example as a step; `arguments` go to it after the picture's path.
pub(crate) fn step(arguments: Vec<String>) -> Step {
    let command = ["run", "--release", "--example", "minilm_heads", "--", PICTURE];
    Step::cargo("demo", command.iter().map(ToString::to_string).chain(arguments))
}

/// Makes the folder that the picture goes to.
///
/// # Errors
/// When the system refuses.
pub(crate) fn make_output_folder(root: &Path) -> Result<()> {
    let picture = root.join(PICTURE);
    let folder = picture.parent().unwrap_or(root);
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_follow_the_picture() {
        let line = step(vec!["--device".into(), "cpu".into()]).to_string();
        assert!(line.ends_with("--example minilm_heads -- out/minilm_layer1.png --device cpu"), "{line}");
    }
}
