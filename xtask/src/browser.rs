//! `cargo xtask browser`: the package in headless Chromium, on SwiftShader, computes cases and compiles every shader.

mod contents;
mod report;
mod textbook;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::site::Site;
use crate::toolchain::Toolchain;
use crate::{chromium, tint, web};
use report::Report;

/// A GPU that every machine has, no question to anybody, and quiet on the network.
const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-quic",
];

/// How long the page may take; SwiftShader compiles for minutes on a small machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the test needs.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    toolchain: Toolchain,
    chromium: PathBuf,
}

impl Tools {
    /// Finds a compiler, Node and a browser, and sets up what is missing.
    ///
    /// # Errors
    /// When one cannot be set up; the sentence says what to run.
    pub(crate) fn set_up(root: &Path) -> Result<Self> {
        Ok(Self { toolchain: web::set_up(root)?, chromium: chromium::set_up(root)? })
    }
}

/// Builds the package and holds what it computes in a browser against the answers in the case files.
///
/// # Errors
/// When something is missing, does not compile, or computes wrongly.
pub(crate) fn run(root: &Path) -> Result<()> {
    let tools = Tools::set_up(root)?;
    web::lints(tools.toolchain).run(root)?;
    web::package(root)?;
    tint::list(root)?;
    println!("\n▶ compute in {}", tools.chromium.display());
    let start = Instant::now();
    let report = Report::parse(&visit(&tools.chromium, &contents::site(root)?)?)?;
    println!("{report}");
    report.judge(&kernels(root)?)?;
    println!("  ✓ compute in the browser in {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

/// Builds the package and times a product in a browser against the textbook's tile.
///
/// # Errors
/// When something is missing, does not compile, or the tile computes wrongly.
pub(crate) fn textbook(root: &Path) -> Result<()> {
    let tools = Tools::set_up(root)?;
    web::package(root)?;
    println!("\n▶ a product in {}", tools.chromium.display());
    println!("{}", textbook::Times::parse(&visit(&tools.chromium, &textbook::site(root)?)?)?);
    Ok(())
}

/// What no case comes to here, though the browser compiles it: the package has no caches, on a CPU adapter a few queries
/// are no reason to share keys out, and products read and write heads where they stand side by side.
const NOT_COME_TO: [&str; 5] =
    ["append_rows", "merge_partials", "partial_attention", "transpose_output", "transpose_qkv"];

/// Names of the kernels that each should be seen at work. wgpu has no subgroups in a browser, and without them no value
/// lies in a texture.
fn kernels(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in root.join("shaders").read_dir().context("cannot read shaders/")? {
        let path = entry.context("cannot read shaders/")?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let in_textures = ["subgroup_invocation_id", "texture_storage_2d"].iter().any(|word| text.contains(word));
        if !in_textures && !NOT_COME_TO.contains(&name.as_str()) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Shows the page to the browser and waits for what it sends.
fn visit(chromium: &Path, site: &Site) -> Result<String> {
    let server = site.open(0)?;
    let profile = tempfile::tempdir().context("cannot make a folder for the browser's profile")?;
    let mut user_data = OsString::from("--user-data-dir=");
    user_data.push(profile.path());
    let mut browser = Browser(
        Command::new(chromium)
            .args(FLAGS)
            .arg(user_data)
            .arg(server.address())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", chromium.display()))?,
    );
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(report) = server.serve_for(Duration::from_millis(200))? {
            return Ok(report);
        }
        if let Some(status) = browser.0.try_wait()? {
            bail!("the browser ended ({status}) before the page had its answers");
        }
    }
    bail!("the page had no answers after {} s", PATIENCE.as_secs())
}

/// A browser that ends when nobody waits for it any more.
struct Browser(Child);

impl Drop for Browser {
    fn drop(&mut self) {
        // One that has ended already is what was wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
