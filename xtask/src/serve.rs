//! `cargo xtask serve`: what `cargo xtask web` built, on this machine.

use std::path::Path;

use anyhow::{Result, bail};

use crate::site::Site;
use crate::web;

/// Serves web/dist/ until somebody ends it.
///
/// # Errors
/// When nothing was built, or the port is taken.
pub(crate) fn run(root: &Path, port: u16) -> Result<()> {
    let folder = root.join(web::SITE);
    if !folder.join("index.html").is_file() {
        bail!("there is no page in {}; run `cargo xtask web` first", web::SITE);
    }
    let mut site = Site::default();
    site.add_folder("/", &folder)?;
    let open = site.open(port)?;
    println!("The page is at {} (Ctrl-C ends it; after another `cargo xtask web`, start again)", open.address());
    open.serve()
}
