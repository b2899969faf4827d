//! Finds rule ids in test code and test data.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::{Context as _, Result};
use regex::Regex;

use super::Named;

static ID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b(?:(?:API|SCH|SC|DIS|DC|LIF|LC|AWS|AC|V15|VC)-\d+|SEED-\d+-\d+)\b").expect("a constant pattern")
});
/// Ids of the registers of defects are short enough to be names of variables, so they count in comments only.
static SHORT_ID: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[QXYZ]\d+\b").expect("a constant pattern"));

/// Where tests are.
const FOLDERS: [&str; 5] = ["crates", "deploy", "modules", "examples", "cdk"];

/// The ids named by tests below `root`, with the files that name them.
pub(super) fn named_ids(root: &Path) -> Result<Named> {
    let mut files = BTreeSet::new();
    for folder in FOLDERS.map(|folder| root.join(folder)).iter().filter(|folder| folder.exists()) {
        collect(folder, &mut files)?;
    }
    let mut named: Named = BTreeMap::new();
    let mut whole: BTreeSet<PathBuf> = files.iter().filter(|f| is_test_file(f)).cloned().collect();
    let mut texts = BTreeMap::new();
    for file in files.iter().filter(|f| has_text(f)) {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        whole.extend(test_modules(&text).into_iter().flat_map(|name| module_files(file, &name)));
        texts.insert(file, text);
    }
    for (file, text) in texts {
        let tests = if whole.contains(file) { text } else { inline_tests(&text) };
        let place = file.strip_prefix(root).unwrap_or(file).display().to_string();
        for id in ids(&tests) {
            named.entry(id).or_default().insert(place.clone());
        }
    }
    Ok(named)
}

fn collect(folder: &Path, files: &mut BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        // Snapshots repeat what a test printed; the claim is in the test.
        if path.is_dir() && !path.ends_with("snapshots") {
            collect(&path, files)?;
        } else if path.is_file() {
            files.insert(path);
        }
    }
    Ok(())
}

fn has_text(file: &Path) -> bool {
    let extension = file.extension().and_then(|e| e.to_str()).unwrap_or_default();
    ["rs", "py", "ts", "hcl", "yaml", "yml", "json", "txt", "toml", "md"].contains(&extension)
}

fn is_test_file(file: &Path) -> bool {
    let in_folder = file.parent().is_some_and(|p| p.iter().any(|part| part == "tests" || part == "testdata"));
    in_folder || file.file_name().is_some_and(|name| name == "tests.rs")
}

/// Names of modules that stand in a file of their own and are only compiled for tests.
fn test_modules(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    lines
        .windows(2)
        .filter(|pair| pair[0] == "#[cfg(test)]")
        .filter_map(|pair| pair[1].strip_suffix(';')?.rsplit_once("mod ").map(|(_, name)| name.to_owned()))
        .collect()
}

fn module_files(declared_in: &Path, name: &str) -> [PathBuf; 2] {
    let folder = declared_in.parent().unwrap_or(Path::new(""));
    let stem = declared_in.file_stem().unwrap_or_default();
    let beside = ["lib", "main", "mod"].iter().any(|root| stem == *root);
    let folder = if beside { folder.to_owned() } else { folder.join(stem) };
    [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")]
}

/// The bodies of `#[cfg(test)] mod … {` in formatted code: up to the brace that stands where the module began.
fn inline_tests(text: &str) -> String {
    let mut tests = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let starts = lines.peek().is_some_and(|next| next.trim_start().starts_with("mod ") && next.ends_with('{'));
        if line.trim() == "#[cfg(test)]" && starts {
            let end = format!("{}}}", &line[..line.len() - line.trim_start().len()]);
            for body in lines.by_ref().take_while(|body| *body != end) {
                tests += body;
                tests.push('\n');
            }
        }
    }
    tests
}

fn ids(text: &str) -> BTreeSet<String> {
    let long = ID.find_iter(text).map(|m| m.as_str().to_owned());
    let comments = text.lines().filter_map(|line| {
        let start = line.find("//").or_else(|| line.find("# "))?;
        Some(&line[start..])
    });
    long.chain(comments.flat_map(|c| SHORT_ID.find_iter(c).map(|m| m.as_str().to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join("crates").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        named_ids(dir.path()).unwrap().into_keys().collect()
    }

    #[test]
    fn ids_count_in_tests_only() {
        let product = "//! API-1\nfn f() {}\n\n#[cfg(test)]\nmod tests {\n    // API-2, V15-3 and SEED-0-4\n}\n\n/// API-5\nfn g() {}\n";
        for (name, files, want) in [
            ("inline module", vec![("a/src/lib.rs", product)], vec!["API-2", "SEED-0-4", "V15-3"]),
            ("test folder", vec![("a/tests/it/main.rs", "// AC-1")], vec!["AC-1"]),
            ("test data", vec![("a/testdata/x.yaml", "rule: AWS-1")], vec!["AWS-1"]),
            ("tests.rs", vec![("a/src/foo/tests.rs", "/// LIF-9")], vec!["LIF-9"]),
            (
                "declared",
                vec![("a/src/foo.rs", "#[cfg(test)]\nmod laws;\n"), ("a/src/foo/laws.rs", "// DC-7")],
                vec!["DC-7"],
            ),
            ("product", vec![("a/src/foo.rs", "// DC-7")], vec![]),
            ("snapshot", vec![("a/tests/snapshots/x.txt", "DC-7")], vec![]),
        ] {
            assert_eq!(found(&files), want, "{name}");
        }
    }

    #[test]
    fn ids_are_exact() {
        for (text, want) in [
            ("API-12", vec!["API-12"]),
            ("XAPI-12 API-12x", vec![]),
            ("API-1..3", vec!["API-1"]),
            ("let X1 = 2;", vec![]),
            ("// fixes X1", vec!["X1"]),
            ("a: 1 # Z12", vec!["Z12"]),
        ] {
            assert_eq!(ids(text).into_iter().collect::<Vec<_>>(), want, "{text}");
        }
    }
}
