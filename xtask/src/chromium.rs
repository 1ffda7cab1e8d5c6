//! Chromium, and the Vulkan driver that comes with it: SwiftShader, which needs no GPU.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use crate::apt;
use crate::step::Step;

/// Debian's packages: the second has SwiftShader.
const PACKAGES: [&str; 2] = ["chromium", "chromium-common"];

/// What the program is called in the folders of `PATH`.
const NAMES: [&str; 5] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

/// Where it stands on systems that do not put it there.
const PLACES: [&str; 3] = [
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    r"C:\Program Files\Google\Chrome\Application\chrome.exe",
];

/// Where Linux' packages put what comes with the program.
const LIBRARY_FOLDERS: [&str; 4] =
    ["/usr/lib/chromium", "/usr/lib/chromium-browser", "/usr/lib64/chromium-browser", "/opt/google/chrome"];

/// Finds the browser, and installs it where there is none.
///
/// # Errors
/// When there is none and it cannot be installed; the sentence says what to run.
pub(crate) fn set_up(root: &Path) -> Result<PathBuf> {
    if let Some(found) = find() {
        return Ok(found);
    }
    apt::install(root, "there is no Chromium", &PACKAGES, "install Chromium or Chrome")?;
    match find() {
        Some(found) => Ok(found),
        None => bail!("there is no Chromium, although {} are installed now", PACKAGES.join(" and ")),
    }
}

fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path = std::env::split_paths(&path).flat_map(|folder| NAMES.map(|name| folder.join(name)));
    in_path.chain(PLACES.map(PathBuf::from)).find(|place| place.is_file())
}

/// A step whose Dawn takes the driver that Chromium brings, which is installed where there is none.
///
/// # Errors
/// As [`set_up`] and [`swiftshader`].
pub(crate) fn for_dawn(root: &Path, step: Step) -> Result<Step> {
    if cfg!(target_os = "linux") {
        set_up(root)?;
    }
    Ok(match swiftshader()? {
        Some(driver) => step.env("VK_DRIVER_FILES", &driver.display().to_string()),
        None => step,
    })
}

/// The description of SwiftShader for the Vulkan loader. `None` on systems whose GPU programs use no Vulkan loader.
///
/// # Errors
/// On a Linux whose Chromium comes without it.
pub(crate) fn swiftshader() -> Result<Option<PathBuf>> {
    if !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let files = LIBRARY_FOLDERS.map(|folder| Path::new(folder).join("vk_swiftshader_icd.json"));
    match files.into_iter().find(|file| file.is_file()) {
        Some(file) => Ok(Some(file)),
        None => bail!(
            "no vk_swiftshader_icd.json in {}; install a Chromium that brings SwiftShader (Debian: sudo apt-get \
             install {}), then run again",
            LIBRARY_FOLDERS.join(" or "),
            PACKAGES.join(" ")
        ),
    }
}
