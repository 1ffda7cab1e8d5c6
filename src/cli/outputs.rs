//! The files that `multihead run` writes: checked before anything is computed, written after everything is.

use std::path::Path;

use multihead::plot::{AttentionMaps, PictureFormat};
use multihead::{AttentionOutput, Case, Error, io};

use super::args::RunArguments;

/// Refuses what could not be written in the end.
pub(super) fn check(arguments: &RunArguments, case: &Case) -> Result<(), Error> {
    if let Some(path) = &arguments.output {
        check_folder(path)?;
    }
    let Some(path) = &arguments.maps else {
        return Ok(());
    };
    PictureFormat::from_path(path)?;
    check_folder(path)?;
    let batch = case.inputs.query.shape().axes()[0];
    if arguments.batch_entry >= batch {
        return Err(Error::OutOfRange {
            what: "--batch-entry".into(),
            value: arguments.batch_entry.to_string(),
            allowed: format!("must be below the number of batch entries, {batch}"),
        });
    }
    Ok(())
}

fn check_folder(path: &Path) -> Result<(), Error> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if folder.is_dir() && !path.is_dir() {
        return Ok(());
    }
    let reason = if path.is_dir() { "it is a folder" } else { "its folder does not exist" };
    Err(Error::Invalid(format!("cannot write here, {reason}; give the path of a file")).in_file(path))
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
    let tokens =
        case.tokens.as_ref().and_then(|tokens| tokens.get(arguments.batch_entry)).map_or(&[][..], Vec::as_slice);
    let of_keys = if case.inputs.key.is_none() { tokens } else { &[] };
    let title = case.about.clone().unwrap_or_else(|| "Attention maps".into());
    let caption = format!("{}, batch entry {}", arguments.case.display(), arguments.batch_entry);
    let maps = AttentionMaps {
        batch: arguments.batch_entry,
        query_tokens: tokens,
        key_tokens: of_keys,
        title: &title,
        caption: &caption,
        ..AttentionMaps::new(weights)
    };
    maps.draw()?.encode(format)
}
