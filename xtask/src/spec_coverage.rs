//! `cargo xtask spec-coverage`: which rules of the specification are named by tests.
//!
//! A rule counts as named when its id stands in test code or test data. That does not prove that the test is good; it shows
//! what nobody has looked at, and it finds ids that do not exist.

mod rules;
mod scan;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use self::rules::{Mark, Section};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Fail when a required rule is not named by any test, or a test names a rule that does not exist; print totals only
    #[arg(long)]
    check: bool,
    /// List every rule of the sections whose title starts with this, e.g. `API` or `API 1.1`
    #[arg(long)]
    section: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask is in a folder of the workspace")?;
    let list = root.join("docs/spec-rules.txt");
    let text = std::fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let sections = rules::parse(&text).with_context(|| format!("cannot read {}", list.display()))?;
    let named = scan::named_ids(root)?;
    let report = match &options.section {
        Some(start) => details(&sections, &named, start)?,
        // What is missing is said by the failure; a check that passes says so in one line.
        None if options.check => totals(&sections, &named),
        None => summary(&sections, &named),
    };
    std::io::stdout().write_all(report.as_bytes())?;
    let problems = problems(&sections, &named);
    if options.check && !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(())
}

/// Where each id is named.
type Named = BTreeMap<String, BTreeSet<String>>;

fn summary(sections: &[Section], named: &Named) -> String {
    let mut lines = vec![String::from("named / all   required   section")];
    let mut totals = [0; 4];
    for section in sections {
        let is_named = |id: &str| named.contains_key(id);
        let required = || section.rules.iter().filter(|r| r.mark == Mark::Required);
        let counts = [
            section.rules.iter().filter(|r| is_named(&r.id)).count(),
            section.rules.len(),
            required().filter(|r| is_named(&r.id)).count(),
            required().count(),
        ];
        for (total, count) in totals.iter_mut().zip(counts) {
            *total += count;
        }
        lines.push(line(counts, &section.title));
        let missing: Vec<_> = required().filter(|r| !is_named(&r.id)).map(|r| r.id.as_str()).collect();
        if !missing.is_empty() {
            lines.push(format!("{:28}no test names {}", "", missing.join(", ")));
        }
    }
    lines.push(line(totals, "all"));
    lines.join("\n") + "\n"
}

fn totals(sections: &[Section], named: &Named) -> String {
    summary(sections, named).lines().last().map(|line| format!("{line}\n")).unwrap_or_default()
}

fn line([named, all, required_named, required]: [usize; 4], title: &str) -> String {
    let required = if required == 0 { String::new() } else { format!("{required_named} of {required}") };
    format!("{named:5} / {all:<5} {required:>11}   {title}")
}

fn details(sections: &[Section], named: &Named, start: &str) -> Result<String> {
    // `API 1` means section 1 and its parts, not section 10 or the sections from 1.10 on.
    let wanted = |title: &str| {
        let rest = title.strip_prefix(start);
        rest.is_some_and(|r| !r.starts_with(|c: char| c.is_ascii_digit()))
    };
    let mut lines = Vec::new();
    for section in sections.iter().filter(|s| wanted(&s.title)) {
        lines.push(section.title.clone());
        for rule in &section.rules {
            let places = named.get(&rule.id).map_or_else(
                || String::from("-"),
                |files| files.iter().map(String::as_str).collect::<Vec<_>>().join(", "),
            );
            lines.push(format!("  {:8} {:18} {}", rule.id, rule.mark.to_string(), rule.title));
            lines.push(format!("{:11}{places}", ""));
        }
    }
    if lines.is_empty() {
        bail!("no section starts with `{start}`; run without --section to see them");
    }
    Ok(lines.join("\n") + "\n")
}

fn problems(sections: &[Section], named: &Named) -> Vec<String> {
    let rules = || sections.iter().flat_map(|s| &s.rules);
    let known: BTreeSet<&str> = rules().map(|r| r.id.as_str()).collect();
    let unnamed = rules().filter(|r| r.mark == Mark::Required && !named.contains_key(&r.id));
    let unknown = named.iter().filter(|(id, _)| !known.contains(id.as_str()));
    unnamed
        .map(|r| format!("no test names {} ({})", r.id, r.title))
        .chain(unknown.map(|(id, files)| {
            let files: Vec<&str> = files.iter().map(String::as_str).collect();
            format!("{id} is named in {} but is no rule", files.join(", "))
        }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "## API 1.1 Pools\nAPI-1\trequired\tColumns\nAPI-2\tlater:controller\tLoop\n\n## API 1.10 Claims\nAPI-3\t-\tColumns\n";

    fn named(ids: &[&str]) -> Named {
        ids.iter().map(|id| ((*id).to_owned(), BTreeSet::from(["a/tests.rs".to_owned()]))).collect()
    }

    #[test]
    fn only_required_rules_must_be_named() {
        let sections = rules::parse(LIST).unwrap();
        assert_eq!(problems(&sections, &named(&["API-1"])), Vec::<String>::new());
        assert_eq!(problems(&sections, &named(&["API-2"])), ["no test names API-1 (Columns)"]);
    }

    #[test]
    fn ids_that_do_not_exist_are_found() {
        let sections = rules::parse(LIST).unwrap();
        assert_eq!(problems(&sections, &named(&["API-1", "API-99"])), ["API-99 is named in a/tests.rs but is no rule"]);
    }

    #[test]
    fn the_summary_counts() {
        let text = summary(&rules::parse(LIST).unwrap(), &named(&["API-3"]));
        assert!(text.contains("no test names API-1\n"), "{text}");
        assert!(text.ends_with("    1 / 3          0 of 1   all\n"), "{text}");
    }

    #[test]
    fn a_section_is_chosen_by_its_number() {
        let sections = rules::parse(LIST).unwrap();
        let text = details(&sections, &named(&["API-1"]), "API 1.1").unwrap();
        assert!(text.contains("API-2") && !text.contains("API-3"), "{text}");
        assert!(text.contains("a/tests.rs"), "{text}");
        assert!(details(&sections, &named(&[]), "API").unwrap().contains("API-3"));
        assert!(details(&sections, &named(&[]), "API 9").is_err());
    }
}
