//! Files, folders and standard input.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::{InputError, Source};

/// Larger files are refused: no manifest is that long, and a mistyped path should not fill the memory.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// Reads every input; `-` is standard input, a folder means all manifests below it.
pub(crate) fn read_all(inputs: &[PathBuf], stdin: &mut dyn Read) -> (Vec<Source>, Vec<InputError>) {
    let (mut sources, mut errors) = (Vec::new(), Vec::new());
    for input in inputs {
        let mut keep = |result: Result<Source, InputError>| match result {
            Ok(source) => sources.push(source),
            Err(error) => errors.push(error),
        };
        if input.as_os_str() == "-" {
            keep(read("(stdin)", stdin));
        } else if input.is_dir() {
            match files_below(input) {
                Ok(files) if files.is_empty() => keep(Err(InputError::new(
                    &input.display().to_string(),
                    None,
                    "the folder has no *.yaml, *.yml or *.json files",
                ))),
                Ok(files) => files.iter().for_each(|file| keep(read_file(file))),
                Err(error) => keep(Err(error)),
            }
        } else {
            keep(read_file(input));
        }
    }
    (sources, errors)
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>, InputError> {
    let failed = |error: std::io::Error| {
        InputError::new(&folder.display().to_string(), None, format!("cannot list the folder: {error}"))
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        // A link to a folder is not followed, so there are no loops.
        if path.is_dir() && !path.is_symlink() {
            files.extend(files_below(&path)?);
        } else if path.is_file() && path.extension().is_some_and(|e| e == "yaml" || e == "yml" || e == "json") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &Path) -> Result<Source, InputError> {
    let name = path.display().to_string();
    let mut file =
        fs::File::open(path).map_err(|error| InputError::new(&name, None, format!("cannot open: {error}")))?;
    read(&name, &mut file)
}

fn read(name: &str, input: &mut dyn Read) -> Result<Source, InputError> {
    let mut bytes = Vec::new();
    input
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| InputError::new(name, None, format!("cannot read: {error}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(InputError::new(name, None, format!("larger than {} MiB", MAX_BYTES / 1024 / 1024)));
    }
    text(name, bytes)
}

fn text(name: &str, bytes: Vec<u8>) -> Result<Source, InputError> {
    if bytes.contains(&0) {
        return Err(InputError::new(name, None, "not a text file"));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { name: name.to_owned(), text }),
        Err(error) => {
            let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = before.split(|byte| *byte == b'\n').count() as u64;
            Err(InputError::new(name, Some(line), "not valid UTF-8"))
        }
    }
}
