//! Reads `docs/spec-rules.txt`.

use std::collections::BTreeSet;
use std::fmt;

use anyhow::{Context as _, Result, bail, ensure};

#[derive(Debug)]
pub(super) struct Section {
    /// Document, number and heading: `API 1.1 NodePool`.
    pub(super) title: String,
    pub(super) rules: Vec<Rule>,
}

#[derive(Debug)]
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) mark: Mark,
    pub(super) title: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Required,
    Later(String),
    Note(String),
    Open,
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Required => f.pad("required"),
            Self::Later(why) => f.pad(&format!("later:{why}")),
            Self::Note(why) => f.pad(&format!("note:{why}")),
            Self::Open => f.pad("-"),
        }
    }
}

pub(super) fn parse(text: &str) -> Result<Vec<Section>> {
    let mut sections: Vec<Section> = Vec::new();
    let mut seen = BTreeSet::new();
    for (number, line) in text.lines().enumerate().map(|(i, l)| (i + 1, l)) {
        if let Some(title) = line.strip_prefix("## ") {
            sections.push(Section { title: title.to_owned(), rules: Vec::new() });
        } else if !line.is_empty() && !line.starts_with('#') {
            let rule = rule(line).with_context(|| format!("line {number}"))?;
            ensure!(seen.insert(rule.id.clone()), "line {number}: {} is there twice", rule.id);
            sections.last_mut().with_context(|| format!("line {number}: no section above"))?.rules.push(rule);
        }
    }
    Ok(sections)
}

fn rule(line: &str) -> Result<Rule> {
    let [id, mark, title] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else {
        bail!("expected id, mark and title with tabs between");
    };
    let mark = match mark.split_once(':') {
        None if mark == "required" => Mark::Required,
        None if mark == "-" => Mark::Open,
        Some(("later", why)) if !why.is_empty() => Mark::Later(why.to_owned()),
        Some(("note", why)) if !why.is_empty() => Mark::Note(why.to_owned()),
        _ => bail!("unknown mark `{mark}`"),
    };
    Ok(Rule { id: id.to_owned(), mark, title: title.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_in_the_list_are_named_by_line() {
        for (text, want) in [
            ("API-1\t-\tx\n", "line 1: no section above"),
            ("## API 1 a\nAPI-1\t-\tx\nAPI-1\t-\tx\n", "line 3: API-1 is there twice"),
            ("## API 1 a\nAPI-1 - x\n", "line 2: expected id, mark and title"),
            ("## API 1 a\nAPI-1\tmaybe\tx\n", "line 2: unknown mark `maybe`"),
            ("## API 1 a\nAPI-1\tlater:\tx\n", "line 2: unknown mark `later:`"),
        ] {
            let found = format!("{:#}", parse(text).unwrap_err());
            assert!(found.starts_with(want), "{found}");
        }
    }

    #[test]
    fn the_list_of_the_project_is_readable() {
        let sections = parse(include_str!("../../../docs/spec-rules.txt")).unwrap();
        let required = sections.iter().flat_map(|s| &s.rules).filter(|r| r.mark == Mark::Required).count();
        assert!(required > 200, "{required}");
    }
}
