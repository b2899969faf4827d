//! Reading manifests: files, folders and standard input, many documents in one file, each value with its line.

mod sources;
mod tree;

use std::path::PathBuf;

pub(crate) use sources::read_all;
pub(crate) use tree::Tree;

/// Text that was read, with the name that messages use for it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// One object of a source.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) file: String,
    pub(crate) tree: Tree,
}

/// Input that could not be read or understood.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct InputError {
    pub(crate) file: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
    pub(crate) message: String,
}

impl InputError {
    fn new(file: &str, line: Option<u64>, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into() }
    }
}

impl std::fmt::Display for InputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// The objects of all inputs in order, and what could not be read. One bad input does not hide the others.
pub(crate) fn load(inputs: &[PathBuf], stdin: &mut dyn std::io::Read) -> (Vec<Document>, Vec<InputError>) {
    let (sources, mut errors) = read_all(inputs, stdin);
    let mut documents = Vec::new();
    for source in &sources {
        let (found, broken) = parse(source);
        documents.extend(found);
        errors.extend(broken);
    }
    (documents, errors)
}

/// The objects of one source; lists are taken apart.
pub(crate) fn parse(source: &Source) -> (Vec<Document>, Vec<InputError>) {
    let (mut documents, mut errors) = (Vec::new(), Vec::new());
    let mut anything = false;
    for parsed in tree::parse_all(&split(&source.text)) {
        match parsed {
            Ok(None) => {}
            Ok(Some(tree)) => {
                anything = true;
                unwrap_list(tree, &mut |tree| documents.push(Document { file: source.name.clone(), tree }));
            }
            Err((line, message)) => {
                anything = true;
                errors.push(InputError::new(&source.name, line, message));
            }
        }
    }
    if !anything {
        errors.push(InputError::new(&source.name, None, "no objects: the input is empty"));
    }
    (documents, errors)
}

/// Splits a stream into documents with the line that each begins on. A line that starts with `---` always begins one: YAML
/// allows that text nowhere else at the start of a line. Splitting first lets one broken document be skipped.
fn split(text: &str) -> Vec<(u64, &str)> {
    let mut documents = Vec::new();
    let (mut start, mut start_line, mut offset, mut line) = (0, 1, 0, 1);
    for piece in text.split_inclusive('\n') {
        let marker =
            piece.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\r', '\n']));
        // Comments and directives before the first marker belong to the document that follows.
        if marker && !only_prologue(&text[start..offset]) {
            documents.push((start_line, &text[start..offset]));
            (start, start_line) = (offset, line);
        }
        offset += piece.len();
        line += 1;
    }
    documents.push((start_line, &text[start..]));
    documents
}

fn only_prologue(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#') || line.starts_with('%'))
}

/// Hands each object of a `List` on, and anything else as it is.
fn unwrap_list(tree: Tree, push: &mut dyn FnMut(Tree)) {
    let is_list = tree.get("kind").and_then(Tree::as_str).is_some_and(|kind| kind.ends_with("List"));
    match tree.get("items").and_then(Tree::as_list).filter(|_| is_list) {
        Some(items) => items.iter().for_each(|item| push(item.clone())),
        None => push(tree),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (Vec<u64>, Vec<String>) {
        let (documents, errors) = parse(&Source { name: "f".into(), text: text.into() });
        (documents.iter().map(|d| d.tree.line).collect(), errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn documents_keep_their_lines() {
        for (name, text, lines) in [
            ("one", "a: 1\n", vec![1]),
            ("two", "a: 1\n---\nb: 2\n", vec![1, 3]),
            ("comment first", "# hi\n%YAML 1.2\n---\na: 1\n", vec![4]),
            ("empty between", "a: 1\n---\n---\n# nothing\n---\nb: 1", vec![1, 6]),
            ("on the marker's line", "--- {a: 1}\n--- {b: 1}\n", vec![1, 2]),
            ("no markers", "a: |\n  ---\n  x\n---x: 1\n", vec![1]),
            ("windows line ends", "a: 1\r\n---\r\nb: 2\r\n", vec![1, 3]),
            ("list", "kind: List\nitems:\n- a: 1\n- b: 2\n", vec![3, 4]),
            ("json", "{\n\t\"a\": 1\n}\n", vec![1]),
        ] {
            assert_eq!(parsed(text), (lines, vec![]), "{name}");
        }
    }

    #[test]
    fn a_broken_document_does_not_hide_the_others() {
        let (lines, errors) = parsed("a: 1\n---\nb: [1\n---\nc: 3\n");
        assert_eq!(lines, [1, 5]);
        assert_eq!(errors.len(), 1);
        assert!(errors[0].starts_with("f:3: ") || errors[0].starts_with("f:4: "), "{errors:?}");
    }

    #[test]
    fn nothing_at_all_is_an_error() {
        for text in ["", "\n\n", "# only a comment\n", "---\n---\n", "null"] {
            assert_eq!(parsed(text).1, ["f: no objects: the input is empty"], "{text:?}");
        }
    }
}
