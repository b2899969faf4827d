//! Lint settings that Cargo and clippy do not inherit by themselves.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::edges::pure_crates;
use super::graph::Graph;

/// What no pure crate may call or name; a crate may forbid more.
const FORBIDDEN_IN_PURE: &[&str] = &[
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::env::var",
    "std::env::var_os",
    "std::collections::HashMap",
    "std::collections::HashSet",
];

pub(super) fn problems(graph: &Graph) -> Result<Vec<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is in a folder of the workspace")?;
    let shared = read(&root.join("clippy.toml"))?;
    let mut problems = Vec::new();
    for (_, package) in graph.ours() {
        let folder = package.folder.as_deref().context("ours have a folder")?;
        let name = &package.name;
        problems.extend(manifest_problem(name, &read(&folder.join("Cargo.toml"))?));
        if pure_crates().any(|pure| pure == name) {
            // A missing file is one without any key.
            let own = fs::read_to_string(folder.join("clippy.toml")).unwrap_or_default();
            problems.extend(clippy_problems(name, &shared, &own));
        }
    }
    Ok(problems)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn manifest_problem(name: &str, manifest: &str) -> Option<String> {
    let inherits = section(manifest, "[lints]").any(|line| line == "workspace = true");
    (!inherits)
        .then(|| format!("lints: {name} does not inherit the workspace's; add `[lints]` with `workspace = true`"))
}

/// The crate's own file replaces the workspace's, so it has to repeat every key of it.
fn clippy_problems(name: &str, shared: &str, own: &str) -> Vec<String> {
    let mut problems = Vec::new();
    for key in shared.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#')) {
        if !own.lines().any(|line| line.trim() == key) {
            problems.push(format!("lints: crates/{name}/clippy.toml lacks `{key}` of the workspace's file"));
        }
    }
    for path in FORBIDDEN_IN_PURE {
        if !own.contains(&format!("path = \"{path}\"")) {
            problems.push(format!("lints: crates/{name}/clippy.toml does not forbid {path}"));
        }
    }
    problems
}

/// The lines below a heading, up to the next one.
fn section<'a>(manifest: &'a str, heading: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = manifest.lines().map(str::trim);
    lines.skip_while(move |l| *l != heading).skip(1).take_while(|l| !l.starts_with('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lints_must_be_inherited() {
        assert_eq!(manifest_problem("a", "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"), None);
        for manifest in
            ["[package]\n", "[lints]\n\n[dependencies]\nworkspace = true\n", "[lints.rust]\nunsafe_code = \"allow\"\n"]
        {
            let found = manifest_problem("a", manifest).unwrap();
            assert!(found.contains("a does not inherit"), "{found}");
        }
    }

    #[test]
    fn a_pure_crate_repeats_the_shared_keys_and_forbids_clocks() {
        let shared = "# why\nallow-unwrap-in-tests = true\n";
        let forbidden: Vec<String> = FORBIDDEN_IN_PURE
            .iter()
            .map(|p| {
                format!(
                    "  {{ path = \"{p}\", reason = \"r\" }},
"
                )
            })
            .collect();
        let forbidden = forbidden.concat();
        let good = format!("{shared}disallowed-methods = [\n{forbidden}]\n");
        assert_eq!(clippy_problems("model", shared, &good), Vec::<String>::new());
        let lacks = |text: &str| clippy_problems("model", shared, &good.replace(text, ""));
        assert_eq!(lacks("allow-unwrap-in-tests = true\n").len(), 1);
        assert_eq!(lacks("  { path = \"std::env::var\", reason = \"r\" },\n").len(), 1);
        assert_eq!(clippy_problems("model", shared, "").len(), 1 + FORBIDDEN_IN_PURE.len());
    }

    #[test]
    fn this_workspace_is_in_order() {
        assert_eq!(problems(&Graph::of_workspace().unwrap()).unwrap(), Vec::<String>::new());
    }
}
