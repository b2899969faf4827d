//! Raw values: flag before environment before default (API-153 … API-155).

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use karpenter_model::duration::GoDuration;

use super::SettingProblem;
use super::rows::{self, Kind, Row};

/// Reads typed values and collects what is wrong.
///
/// A malformed flag is a problem. A malformed number, bool or duration in the environment is silently replaced by the
/// default, because charts and users of the target rely on that; a malformed choice is a problem in both.
pub(super) struct Reader<'a> {
    flags: BTreeMap<&'static str, String>,
    env: &'a dyn Fn(&str) -> Option<String>,
    help: bool,
    problems: Vec<SettingProblem>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(args: impl Iterator<Item = String>, env: &'a dyn Fn(&str) -> Option<String>) -> Self {
        let mut reader = Self { flags: BTreeMap::new(), env, help: false, problems: Vec::new() };
        reader.read_flags(args);
        reader
    }

    pub(super) fn help_wanted(&self) -> bool {
        self.help
    }

    pub(super) fn into_problems(self) -> Vec<SettingProblem> {
        self.problems
    }

    pub(super) fn problem(&mut self, row: &Row, message: impl Into<String>) {
        self.problem_at(format!("--{}", row.flag), message.into());
    }

    fn problem_at(&mut self, setting: String, message: String) {
        self.problems.push(SettingProblem { setting, message });
    }

    /// `--flag value`, `--flag=value`, one dash or two; a bool takes its value only after `=`.
    fn read_flags(&mut self, mut args: impl Iterator<Item = String>) {
        while let Some(arg) = args.next() {
            let Some(given) = arg.strip_prefix("--").or_else(|| arg.strip_prefix('-')).filter(|text| !text.is_empty())
            else {
                self.problem_at(arg, "unexpected argument; settings are given as flags".to_owned());
                continue;
            };
            let (name, value) = match given.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (given, None),
            };
            if matches!(name, "help" | "h") {
                self.help = true;
                continue;
            }
            let Some(row) = rows::find(name) else {
                self.problem_at(arg, "unknown flag".to_owned());
                continue;
            };
            let value = match (value, row.kind) {
                (Some(value), _) => Some(value),
                (None, Kind::Bool) => Some("true".to_owned()),
                (None, _) => args.next(),
            };
            match value {
                Some(value) => drop(self.flags.insert(row.flag, value)),
                None => self.problem(row, "needs a value"),
            }
        }
    }

    /// Text as given, and whether a flag gave it.
    fn raw(&self, row: &Row) -> Option<(String, Source)> {
        let flag = self.flags.get(row.flag).cloned().map(|text| (text, Source::Flag));
        flag.or_else(|| (self.env)(row.env).map(|text| (text, Source::Env)))
    }

    /// A variable that is set but empty overrides the default.
    pub(super) fn text(&mut self, row: &Row) -> String {
        self.raw(row).map_or_else(|| row.default.to_owned(), |(text, _)| text)
    }

    pub(super) fn int(&mut self, row: &Row) -> i64 {
        self.typed(row, "an integer", parsed::<i64>, parsed::<i64>)
    }

    pub(super) fn float(&mut self, row: &Row) -> f64 {
        let number = |text: &str| text.parse::<f64>().ok().filter(|number| number.is_finite());
        self.typed(row, "a number", number, number)
    }

    pub(super) fn duration(&mut self, row: &Row) -> GoDuration {
        self.typed(row, "a duration such as 10s or 1m30s", parsed::<GoDuration>, parsed::<GoDuration>)
    }

    pub(super) fn boolean(&mut self, row: &Row) -> bool {
        let flag = |text: &str| parsed::<bool>(text);
        self.typed(row, "true or false", flag, boolean)
    }

    pub(super) fn port(&mut self, row: &Row) -> u16 {
        let port = self.int(row);
        u16::try_from(port).unwrap_or_else(|_| {
            self.problem(row, format!("{port} is not a port; use 0 to 65535"));
            0
        })
    }

    /// One of a list; the first is returned when the text is none of them.
    pub(super) fn choice<T: Copy>(&mut self, row: &Row, choices: &[(&str, T)]) -> T {
        let text = self.text(row);
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == text) {
            return *choice;
        }
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        self.problem(row, format!("{text:?} is not one of {}", names.join(", ")));
        choices[0].1
    }

    /// Text with a grammar of its own, checked whatever its source.
    pub(super) fn parsed<T: Default, E: Display>(&mut self, row: &Row, parse: impl Fn(&str) -> Result<T, E>) -> T {
        let text = self.text(row);
        parse(&text).unwrap_or_else(|error| {
            self.problem(row, error.to_string());
            T::default()
        })
    }

    fn typed<T: Default>(
        &mut self,
        row: &Row,
        expected: &str,
        flag: impl Fn(&str) -> Option<T>,
        env: impl Fn(&str) -> Option<T>,
    ) -> T {
        let default = || flag(row.default).unwrap_or_default();
        match self.raw(row) {
            Some((text, Source::Flag)) => flag(&text).unwrap_or_else(|| {
                self.problem(row, format!("{text:?} is not {expected}"));
                default()
            }),
            Some((text, Source::Env)) => env(&text).unwrap_or_else(default),
            None => default(),
        }
    }
}

enum Source {
    Flag,
    Env,
}

fn parsed<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// The spellings that environment variables and gates may use.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}
