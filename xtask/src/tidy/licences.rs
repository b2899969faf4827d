//! Every dependency must be under a permissive licence. Reads SPDX expressions, and the older `A/B` form of crates.

use super::graph::Graph;

/// Licences that ask for no more than a notice.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Additions that only widen what their licence allows.
const EXCEPTIONS: &[&str] = &["LLVM-exception"];

pub(super) fn problems(graph: &Graph) -> Vec<String> {
    let judge = |expression: &str| match permissive(expression) {
        Ok(true) => None,
        Ok(false) => Some(format!("`{expression}` is not on the list of permissive licences")),
        Err(why) => Some(format!("`{expression}` is not an SPDX expression: {why}")),
    };
    let mut problems = Vec::new();
    for package in &graph.packages {
        let verdict = package.licence.as_deref().map_or_else(|| Some("no licence is given".into()), judge);
        problems.extend(verdict.map(|why| format!("licences: {} {}: {why}", package.name, package.version)));
    }
    problems
}

/// Whether there is a choice of licences that are all allowed.
fn permissive(expression: &str) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = Words(spaced.split_whitespace().collect::<Vec<_>>().into_iter().peekable());
    let verdict = either(&mut words)?;
    match words.0.next() {
        None => Ok(verdict),
        Some(word) => Err(format!("unexpected `{word}`")),
    }
}

struct Words<'a>(std::iter::Peekable<std::vec::IntoIter<&'a str>>);

impl<'a> Words<'a> {
    fn take(&mut self, word: &str) -> bool {
        self.0.next_if(|w| *w == word).is_some()
    }

    fn id(&mut self) -> Result<&'a str, String> {
        let word = self.0.next().ok_or("it ends too early")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-.+:".contains(c);
        let keyword = ["AND", "OR", "WITH"].contains(&word);
        if !keyword && word.chars().all(plain) { Ok(word) } else { Err(format!("unexpected `{word}`")) }
    }
}

// `AND` binds tighter than `OR`. Both sides are always read, so that a mistake is seen whatever the other side says.
fn either(words: &mut Words<'_>) -> Result<bool, String> {
    let mut verdict = both(words)?;
    while words.take("OR") {
        verdict |= both(words)?;
    }
    Ok(verdict)
}

fn both(words: &mut Words<'_>) -> Result<bool, String> {
    let mut verdict = one(words)?;
    while words.take("AND") {
        verdict &= one(words)?;
    }
    Ok(verdict)
}

fn one(words: &mut Words<'_>) -> Result<bool, String> {
    if words.take("(") {
        let verdict = either(words)?;
        return if words.take(")") { Ok(verdict) } else { Err("a `)` is missing".into()) };
    }
    let id = words.id()?;
    let allowed = ALLOWED.contains(&id.strip_suffix('+').unwrap_or(id));
    if words.take("WITH") {
        let exception = words.id()?;
        return Ok(allowed && EXCEPTIONS.contains(&exception));
    }
    Ok(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_judged() {
        for (expression, want) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("MIT OR GPL-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("MIT/Apache-2.0", true),
            ("GPL-2.0 OR MIT AND ISC", true),
            ("(GPL-2.0 OR MIT) AND MPL-2.0", false),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0", true),
            ("GPL-2.0 WITH Classpath-exception-2.0", false),
            ("Apache-2.0 WITH Classpath-exception-2.0", false),
            ("Apache-2.0+", true),
        ] {
            assert_eq!(permissive(expression), Ok(want), "{expression}");
        }
    }

    #[test]
    fn what_is_no_expression_is_an_error() {
        for expression in
            ["", "MIT OR", "(MIT", "MIT)", "MIT Apache-2.0", "OR MIT", "MIT WITH", "see LICENSE", "MIT, ISC"]
        {
            assert!(permissive(expression).is_err(), "{expression}");
        }
    }

    #[test]
    fn the_package_is_named() {
        let mut graph = Graph::sketch("model: left, right");
        graph.packages[1].licence = Some("AGPL-3.0".into());
        graph.packages[2].licence = None;
        let found = problems(&graph);
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found[0].starts_with("licences: left ") && found[0].contains("AGPL-3.0"), "{found:#?}");
        assert!(found[1].starts_with("licences: right ") && found[1].contains("no licence"), "{found:#?}");
    }

    #[test]
    fn this_workspace_is_permissive() {
        assert_eq!(problems(&Graph::of_workspace().unwrap()), Vec::<String>::new());
    }
}
