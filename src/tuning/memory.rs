//! The file in which choices are remembered, by adapter and driver.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::gpu::DeviceProfile;
use crate::io::write_atomically;
use crate::kernels::{ProductClass, Tile};

/// What such a file says it is. Another release has other kernels and measures anew.
const FORMAT: &str = concat!("multihead tiles ", env!("CARGO_PKG_VERSION"));

/// How every such file begins, of whatever release and whatever became of the rest: it may be written over.
const BEGINNING: &str = r#"{"format":"multihead tiles "#;

/// No more is read, and no longer file written: the oldest choices go.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Remembered {
    format: String,
    /// Oldest first.
    choices: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    adapter: String,
    backend: String,
    /// Name and version.
    driver: String,
    product: ProductClass,
    tile: Tile,
}

impl Entry {
    fn is_of(&self, profile: &DeviceProfile) -> bool {
        let DeviceProfile { name, backend, driver, .. } = profile;
        [&self.adapter, &self.backend, &self.driver] == [name, backend, driver]
    }
}

/// The choices for a device. A file that is damaged, not ours or not there has none.
pub(super) fn recall(path: &Path, profile: &DeviceProfile) -> BTreeMap<ProductClass, Tile> {
    let entries = entries(&read(path).unwrap_or_default());
    entries.into_iter().filter(|entry| entry.is_of(profile)).map(|entry| (entry.product, entry.tile)).collect()
}

/// Adds choices for a device, beside what others have added since.
///
/// # Errors
/// [`Error::File`] where the system refuses, or something is there that is not ours.
pub(super) fn remember(
    path: &Path,
    profile: &DeviceProfile,
    choices: &BTreeMap<ProductClass, Tile>,
) -> Result<(), Error> {
    let old = read(path)?;
    if !old.is_empty() && !old.starts_with(BEGINNING.as_bytes()) {
        return Err(foreign(path));
    }
    let mut entries = entries(&old);
    entries.retain(|entry| !(entry.is_of(profile) && choices.contains_key(&entry.product)));
    entries.extend(choices.iter().map(|(&product, &tile)| Entry {
        adapter: profile.name.clone(),
        backend: profile.backend.clone(),
        driver: profile.driver.clone(),
        product,
        tile,
    }));
    let text = text(entries);
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        let action = || format!("make the folder {}", folder.display());
        fs::create_dir_all(folder).map_err(|source| Error::Io { action: action(), source }.in_file(path))?;
    }
    write_atomically(path, |writer| writer.write_all(text.as_bytes()))
}

fn foreign(path: &Path) -> Error {
    let sentence = "is no file of remembered tiles and stays as it is; remove it, or name another";
    Error::Invalid(sentence.into()).in_file(path)
}

/// What the file begins with, nothing where there is none.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let refused = |source| Error::Io { action: "read".into(), source }.in_file(path);
    match fs::metadata(path) {
        Err(source) if source.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(refused(source)),
        Ok(about) if about.is_dir() => return Err(refused(ErrorKind::IsADirectory.into())),
        // To open a pipe would wait for whoever writes to it.
        Ok(about) if !about.is_file() => return Err(foreign(path)),
        Ok(_) => {}
    }
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(refused)
}

/// The text of a file, of the newest choices if all would be too long.
fn text(choices: Vec<Entry>) -> String {
    let mut file = Remembered { format: FORMAT.into(), choices };
    loop {
        let text = serde_json::to_string(&file).expect("names and numbers should be JSON");
        if text.len() as u64 <= MOST_BYTES || file.choices.is_empty() {
            return text;
        }
        // More than one at a time, for each time all is written anew.
        file.choices.drain(..file.choices.len().div_ceil(8));
    }
}

fn entries(bytes: &[u8]) -> Vec<Entry> {
    match serde_json::from_slice::<Remembered>(bytes) {
        Ok(file) if file.format == FORMAT => file.choices,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::products::example;
    use super::*;

    fn profile(name: &str, driver: &str) -> DeviceProfile {
        DeviceProfile { name: name.into(), driver: driver.into(), ..DeviceProfile::portable() }
    }

    fn choices(of: &[(usize, Tile)]) -> BTreeMap<ProductClass, Tile> {
        of.iter().map(|&(rows, tile)| (example(rows).class, tile)).collect()
    }

    /// A folder, and the path of a file in a folder in it that is not there yet.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cache/tiles.json");
        (folder, path)
    }

    #[test]
    fn choices_are_remembered_by_adapter_and_driver() {
        let (_folder, path) = place();
        let devices = [profile("A", "1"), profile("B", "1"), profile("A", "2")];
        assert_eq!(recall(&path, &devices[0]), BTreeMap::new());
        remember(&path, &devices[0], &choices(&[(4, Tile::Wide), (16, Tile::Square128)])).unwrap();
        remember(&path, &devices[1], &choices(&[(4, Tile::Square32)])).unwrap();
        remember(&path, &devices[0], &choices(&[(16, Tile::Square64), (64, Tile::Wide)])).unwrap();
        let of_first = choices(&[(4, Tile::Wide), (16, Tile::Square64), (64, Tile::Wide)]);
        let expected = [of_first, choices(&[(4, Tile::Square32)]), BTreeMap::new()];
        assert_eq!(devices.each_ref().map(|device| recall(&path, device)), expected);
        let webgpu = DeviceProfile { backend: "webgpu".into(), ..devices[0].clone() };
        assert_eq!(recall(&path, &webgpu), BTreeMap::new());
        let beside = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(beside, 1, "nothing stays beside the file");
    }

    #[test]
    fn the_file_says_what_it_is() {
        let (_folder, path) = place();
        remember(&path, &profile("A", "d 1"), &choices(&[(4, Tile::Wide)])).unwrap();
        insta::assert_snapshot!(fs::read_to_string(&path).unwrap(), @r#"{"format":"multihead tiles 0.1.0","choices":[{"adapter":"A","backend":"none","driver":"d 1","product":{"batches":1,"rows":4,"inner":8,"cols":4,"transpose_rhs":false,"skip_hidden":false},"tile":"32x128"}]}"#);
    }

    /// What became of our own file is thrown away; what never was ours is left alone.
    #[test]
    fn damaged_files_are_replaced_and_foreign_ones_kept() {
        let (device, new) = (profile("A", "1"), choices(&[(4, Tile::Wide)]));
        let (_folder, path) = place();
        remember(&path, &device, &new).unwrap();
        let whole = fs::read_to_string(&path).unwrap();
        let other_release = whole.replace(FORMAT, "multihead tiles 9.9.9");
        let impossible = whole.replace("32x128", "9x9");
        let (before, _) = whole.split_once("[{").unwrap();
        let (half, deep, unknown) =
            (&whole[..whole.len() / 2], before.to_owned() + &"[".repeat(100_000), whole.replace("rows", "row"));
        let long = BEGINNING.to_owned() + &" ".repeat(1 << 20);
        for damaged in ["", half, &deep, &unknown, &other_release, &impossible, &long] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(recall(&path, &device), BTreeMap::new(), "{damaged:.80}");
            remember(&path, &device, &new).unwrap();
            assert_eq!(recall(&path, &device), new, "{damaged:.80}");
        }
        let longer = "{".to_owned() + &" ".repeat(1 << 20);
        for foreign in ["{}", "[1, 2]", "a letter", "\u{0}\u{1}", "[[[[", &longer] {
            fs::write(&path, foreign).unwrap();
            assert_eq!(recall(&path, &device), BTreeMap::new(), "{foreign:.80}");
            let sentence = remember(&path, &device, &new).unwrap_err().to_string();
            assert!(
                sentence.ends_with("is no file of remembered tiles and stays as it is; remove it, or name another")
            );
            assert_eq!(fs::read_to_string(&path).unwrap(), foreign);
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_is_no_file_is_neither_read_nor_written() {
        let (folder, path) = place();
        fs::write(folder.path().join("cache"), "a file where the folder should be").unwrap();
        let refusal = |place: &Path| {
            let (device, new) = (profile("A", "1"), choices(&[(4, Tile::Wide)]));
            assert_eq!(recall(place, &device), BTreeMap::new());
            let sentence = remember(place, &device, &new).unwrap_err().to_string();
            sentence.replace(&folder.path().display().to_string(), "FOLDER")
        };
        insta::assert_snapshot!(refusal(folder.path()), @"FOLDER: cannot read: is a directory");
        insta::assert_snapshot!(refusal(&path), @"FOLDER/cache/tiles.json: cannot read: Not a directory (os error 20)");
        insta::assert_snapshot!(refusal(Path::new("/dev/zero")), @"/dev/zero: is no file of remembered tiles and stays as it is; remove it, or name another");
    }

    /// However long the names are, what is written can be read.
    #[test]
    fn the_oldest_choices_go() {
        let (_folder, path) = place();
        let name = |number: usize| format!("adapter {number} {}", "of many words ".repeat(number % 100));
        let of = |number: usize| choices(&[(4, Tile::ALL[number % 4])]);
        let entry = |number: usize| Entry {
            adapter: name(number),
            backend: "none".into(),
            driver: String::new(),
            product: example(4).class,
            tile: Tile::ALL[number % 4],
        };
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        // As many as fit, and then one more.
        let mut bytes = 0;
        let fits = |entry: &Entry| {
            bytes += serde_json::to_string(entry).unwrap().len() as u64 + 1;
            bytes + 100 <= MOST_BYTES
        };
        let full: Vec<_> = (0..5000).map(entry).take_while(fits).collect();
        let last = full.len() - 1;
        fs::write(&path, text(full)).unwrap();
        assert_eq!(recall(&path, &profile(&name(0), "")), of(0));
        remember(&path, &profile(&name(99), "new"), &of(3)).unwrap();
        let devices = [profile(&name(0), ""), profile(&name(last), ""), profile(&name(99), "new")];
        assert_eq!(devices.map(|device| recall(&path, &device)), [BTreeMap::new(), of(last), of(3)]);
        let length = fs::metadata(&path).unwrap().len();
        assert!((MOST_BYTES / 2..=MOST_BYTES).contains(&length), "{length}");
    }
}
