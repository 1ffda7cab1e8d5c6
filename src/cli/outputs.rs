//! The files that `multihead run` writes: checked before anything is computed, written after everything is.

use std::path::{Path, PathBuf};

use multihead::plot::{AttentionMaps, PictureFormat};
use multihead::{AttentionOutput, Case, Error, io};

use super::args::RunArguments;

/// Refuses what could not be written in the end, or would replace what is read.
pub(super) fn check(arguments: &RunArguments, case: &Case) -> Result<(), Error> {
    if let Some(path) = &arguments.maps {
        PictureFormat::from_path(path)?;
        check_batch_entry(arguments, case).map_err(|error| error.in_file(&arguments.case))?;
    }
    let read = [("the case", Some(arguments.case.as_path())), ("the weights", arguments.how.weights())];
    let written = [
        ("the output", arguments.output.as_deref()),
        ("the picture", arguments.maps.as_deref()),
        ("the trace", arguments.profile_trace.as_deref()),
    ];
    check_places(&read, &written)
}

/// Refuses paths that cannot be written, that are read, or that are one file.
pub(super) fn check_places(read: &[(&str, Option<&Path>)], written: &[(&str, Option<&Path>)]) -> Result<(), Error> {
    // Devices and pipes can be shared.
    let file = |path: &Path| path.canonicalize().ok().filter(|path| path.is_file());
    let mut taken: Vec<(&str, PathBuf)> = read.iter().filter_map(|&(what, path)| Some((what, file(path?)?))).collect();
    for (what, path) in written.iter().filter_map(|&(what, path)| Some((what, path?))) {
        check_folder(path)?;
        let Some(place) = io::writable_place(path)? else { continue };
        if let Some((other, _)) = taken.iter().find(|(_, other)| *other == place) {
            let sentence = format!("{what} would replace {other}; give it another path");
            return Err(Error::Invalid(sentence).in_file(path));
        }
        taken.push((what, place));
    }
    Ok(())
}

/// Says what the system would say of folders, with the way out.
fn check_folder(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let reason = if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        "this is a folder"
    } else if folder.is_dir() {
        return Ok(());
    } else {
        "its folder does not exist"
    };
    Err(Error::Invalid(format!("cannot write here, {reason}; give the path of a file")).in_file(path))
}

fn check_batch_entry(arguments: &RunArguments, case: &Case) -> Result<(), Error> {
    let batch = case.inputs.query.shape().axes()[0];
    match batch.checked_sub(1) {
        None => Err(Error::Invalid("there is no batch entry to draw; leave --maps out".into())),
        Some(last) if arguments.batch_entry > last => Err(Error::OutOfRange {
            what: "--batch-entry".into(),
            value: arguments.batch_entry.to_string(),
            allowed: format!("the case has entries 0 to {last}"),
        }),
        Some(_) => case.tokens_of(arguments.batch_entry).map(drop),
    }
}

/// Where a sequence attends to itself its tokens label the keys too, and what the layer learned comes after them.
fn key_labels(tokens: &[String], case: &Case) -> Vec<String> {
    if case.inputs.key.is_some() || tokens.is_empty() {
        return Vec::new();
    }
    let learned = case.weights.as_ref().and_then(|weights| weights.bias_k.as_ref()).map(|_| "bias_k".to_owned());
    tokens.iter().cloned().chain(learned).collect()
}

/// Writes what was asked for.
pub(super) fn write(arguments: &RunArguments, case: &Case, result: &AttentionOutput) -> Result<(), Error> {
    let picture =
        arguments.maps.as_ref().map(|path| Ok((path, picture(path, arguments, case, result)?))).transpose()?;
    if let Some(path) = &arguments.output {
        let weights = result.attention_weights.as_ref().filter(|_| arguments.with_weights);
        let mut tensors = vec![("output", &result.output)];
        tensors.extend(weights.map(|weights| ("attention_weights", weights)));
        io::write_tensors(path, &tensors, &[])?;
    }
    match picture {
        Some((path, bytes)) => io::write_atomically(path, |writer| writer.write_all(&bytes)),
        None => Ok(()),
    }
}

fn picture(path: &Path, arguments: &RunArguments, case: &Case, result: &AttentionOutput) -> Result<Vec<u8>, Error> {
    let format = PictureFormat::from_path(path)?;
    let weights = result.attention_weights.as_ref().expect("maps should have been computed to be drawn");
    let tokens = case.tokens_of(arguments.batch_entry)?;
    let of_keys = key_labels(tokens, case);
    let title = case.about.clone().unwrap_or_else(|| "Attention maps".into());
    let caption = format!("{}, batch entry {}", arguments.case.display(), arguments.batch_entry);
    let maps = AttentionMaps {
        batch: arguments.batch_entry,
        query_tokens: tokens,
        key_tokens: &of_keys,
        title: &title,
        caption: &caption,
        ..AttentionMaps::new(weights)
    };
    maps.draw().and_then(|picture| picture.encode(format)).map_err(|error| error.in_file(path))
}
