//! The folder in which a user's programs keep what they can make again.

use std::ffi::OsString;
use std::path::PathBuf;

/// `XDG_CACHE_HOME` or ~/.cache, and what stands for it on macOS and Windows; `None` where the environment says nothing.
pub(super) fn cache_folder() -> Option<PathBuf> {
    folder_on(std::env::consts::OS, |name| std::env::var_os(name))
}

fn folder_on(system: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // A relative path would be another folder each time; the XDG specification has it ignored.
    let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    match system {
        "windows" => folder("LOCALAPPDATA"),
        "macos" => Some(folder("HOME")?.join("Library/Caches")),
        _ => folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache"))),
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_one_of_the_platform() {
        let folder = |system: &str, variables: &[(&str, &str)]| {
            let value = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            folder_on(system, value).map(|path| path.display().to_string())
        };
        let home = ("HOME", "/home/a");
        assert_eq!(folder("linux", &[home, ("XDG_CACHE_HOME", "/cache")]).as_deref(), Some("/cache"));
        for unusable in ["", "cache", "./cache"] {
            assert_eq!(folder("linux", &[home, ("XDG_CACHE_HOME", unusable)]).as_deref(), Some("/home/a/.cache"));
        }
        assert_eq!(folder("freebsd", &[home]).as_deref(), Some("/home/a/.cache"));
        assert_eq!(folder("macos", &[home]).as_deref(), Some("/home/a/Library/Caches"));
        assert_eq!(folder("windows", &[home, ("LOCALAPPDATA", "/local")]).as_deref(), Some("/local"));
        assert_eq!([folder("linux", &[]), folder("macos", &[]), folder("windows", &[home])], [None, None, None]);
    }
}
