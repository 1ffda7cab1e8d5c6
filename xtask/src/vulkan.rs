//! Whether this Linux has a Vulkan loader and a driver for it, by the loader's own rules.
//!
//! Source: "Driver Discovery on Linux" in the Vulkan loader's documentation, LoaderDriverInterface.md.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

const LOADER: &str = "libvulkan.so.1";

/// The variables that name drivers instead of the usual folders; the first that is set counts.
const NAMING_VARIABLES: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

/// What is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// The library that programs open.
    Loader,
    /// A description of a driver in any of the usual folders.
    Driver,
    /// What a variable names.
    NamedDriver {
        /// The variable's name.
        variable: &'static str,
        /// Its value.
        value: String,
    },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Loader => write!(f, "no Vulkan loader ({LOADER}) found"),
            Self::Driver => f.write_str("no Vulkan driver (vulkan/icd.d/*.json) found"),
            Self::NamedDriver { variable, value } => {
                write!(f, "{variable} names no Vulkan driver that exists: {value}")
            }
        }
    }
}

/// Where to look.
#[derive(Clone, Debug)]
pub(crate) struct Search {
    /// Whether the dynamic linker's cache has the loader.
    loader_is_cached: bool,
    /// Folders that may hold the loader.
    library_folders: Vec<PathBuf>,
    /// The variable that names drivers, and its value.
    named: Option<(&'static str, OsString)>,
    /// Folders that may hold `vulkan/icd.d`.
    data_folders: Vec<PathBuf>,
}

impl Search {
    /// Looks where this machine and its environment say.
    pub(crate) fn of_this_machine() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let mut search = Self::of_environment(&variable);
        search.loader_is_cached = linker_cache().contains(LOADER);
        search
    }

    fn of_environment(variable: &dyn Fn(&str) -> Option<OsString>) -> Self {
        let folders_of = |name: &str, default: &str| -> Vec<PathBuf> {
            let value = variable(name).unwrap_or_else(|| default.into());
            std::env::split_paths(&value).filter(|path| !path.as_os_str().is_empty()).collect()
        };
        let home = |folder: &str| variable("HOME").map(|home| Path::new(&home).join(folder));

        let mut library_folders = folders_of("LD_LIBRARY_PATH", "");
        let multiarch = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        library_folders.extend(["/usr/lib", "/usr/lib64", "/usr/local/lib", &multiarch].map(PathBuf::from));

        let mut data_folders = folders_of("XDG_CONFIG_DIRS", "/etc/xdg");
        data_folders.extend(["/etc", "/usr/local/etc", "/usr/local/share", "/usr/share"].map(PathBuf::from));
        data_folders.extend(folders_of("XDG_DATA_DIRS", ""));
        for (name, default) in [("XDG_CONFIG_HOME", ".config"), ("XDG_DATA_HOME", ".local/share")] {
            data_folders.extend(variable(name).map(PathBuf::from).or_else(|| home(default)));
        }
        Self {
            loader_is_cached: false,
            library_folders,
            named: NAMING_VARIABLES.iter().find_map(|name| Some((*name, variable(name)?))),
            data_folders,
        }
    }

    /// Finds a loader and a driver.
    ///
    /// # Errors
    /// The first that is missing.
    pub(crate) fn find(&self) -> Result<(), Missing> {
        if !self.loader_is_cached && !self.library_folders.iter().any(|folder| folder.join(LOADER).exists()) {
            return Err(Missing::Loader);
        }
        if let Some((variable, value)) = &self.named {
            let exists = std::env::split_paths(value).any(|path| path.is_file() || has_description(&path));
            let missing = || Missing::NamedDriver { variable, value: value.to_string_lossy().into_owned() };
            return if exists { Ok(()) } else { Err(missing()) };
        }
        let has_driver = |folder: &PathBuf| has_description(&folder.join("vulkan/icd.d"));
        if self.data_folders.iter().any(has_driver) { Ok(()) } else { Err(Missing::Driver) }
    }
}

/// Whether the folder holds a driver's description.
fn has_description(folder: &Path) -> bool {
    let Ok(entries) = folder.read_dir() else {
        return false;
    };
    entries.flatten().any(|entry| entry.path().extension() == Some(OsStr::new("json")))
}

/// What the dynamic linker knows; empty where it cannot be asked.
fn linker_cache() -> String {
    let ask = |program: &str| Command::new(program).arg("-p").output().ok();
    let output = ask("ldconfig").or_else(|| ask("/sbin/ldconfig"));
    output.map_or_else(String::new, |output| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A search in `root/lib` and `root/share` only.
    fn search_in(root: &Path) -> Search {
        Search {
            loader_is_cached: false,
            library_folders: vec![root.join("lib")],
            named: None,
            data_folders: vec![root.join("absent"), root.join("share")],
        }
    }

    fn write(file: &Path) {
        fs::create_dir_all(file.parent().expect("a file in a folder")).expect("a folder");
        fs::write(file, "{}").expect("a file");
    }

    #[test]
    fn the_loader_and_then_a_driver_are_missed() {
        let root = tempfile::tempdir().expect("a folder");
        let search = search_in(root.path());
        assert_eq!(search.find(), Err(Missing::Loader));
        write(&root.path().join("lib/libvulkan.so.1"));
        assert_eq!(search.find(), Err(Missing::Driver));
        write(&root.path().join("share/vulkan/icd.d/README"));
        assert_eq!(search.find(), Err(Missing::Driver), "only .json files describe drivers");
        write(&root.path().join("share/vulkan/icd.d/lvp_icd.x86_64.json"));
        assert_eq!(search.find(), Ok(()));
    }

    #[test]
    fn a_loader_in_the_linkers_cache_is_enough() {
        let root = tempfile::tempdir().expect("a folder");
        write(&root.path().join("share/vulkan/icd.d/lvp_icd.json"));
        let search = Search { loader_is_cached: true, ..search_in(root.path()) };
        assert_eq!(search.find(), Ok(()));
    }

    #[test]
    fn named_drivers_replace_the_usual_folders() {
        let root = tempfile::tempdir().expect("a folder");
        write(&root.path().join("share/vulkan/icd.d/lvp_icd.json"));
        write(&root.path().join("mine/icd.json"));
        let named = |paths: &[&str]| {
            let value = std::env::join_paths(paths.iter().map(|path| root.path().join(path))).expect("no colons");
            let search = search_in(root.path());
            Search { loader_is_cached: true, named: Some(("VK_DRIVER_FILES", value)), ..search }.find()
        };
        assert_eq!(named(&["absent.json", "mine/icd.json"]), Ok(()));
        assert_eq!(named(&["mine"]), Ok(()), "a folder of descriptions");
        let missing = named(&["absent.json"]).expect_err("no such file");
        assert!(missing.to_string().starts_with("VK_DRIVER_FILES names no Vulkan driver that exists: "));
    }

    #[test]
    fn the_environment_says_where_to_look() {
        let environment = |name: &str| -> Option<OsString> {
            let value = match name {
                "HOME" => "/home/me",
                "XDG_DATA_DIRS" => "/opt/a:/opt/b",
                "XDG_CONFIG_HOME" => "/home/me/settings",
                "VK_ICD_FILENAMES" => "/opt/icd.json",
                _ => return None,
            };
            Some(value.into())
        };
        let search = Search::of_environment(&environment);
        for folder in ["/opt/a", "/opt/b", "/etc/xdg", "/usr/share", "/home/me/settings", "/home/me/.local/share"] {
            assert!(search.data_folders.contains(&folder.into()), "{folder}");
        }
        assert_eq!(search.named, Some(("VK_ICD_FILENAMES", "/opt/icd.json".into())));
    }
}
