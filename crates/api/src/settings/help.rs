//! The text of `--help`.

use std::fmt::Write;

use super::FeatureGates;
use super::rows::{ALL, Row, Scope};

/// All settings with type, default and environment name.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: karpenter-controller [FLAGS]\n\n\
         Every setting is a flag or an environment variable; the flag wins.\n",
    );
    for (scope, title) in [
        (Scope::Core, "Settings"),
        (Scope::Kwok, "Settings of the kwok provider"),
        (Scope::Aws, "Settings of the aws provider"),
    ] {
        let _ = write!(text, "\n{title}:\n");
        for row in ALL.iter().filter(|row| row.scope == scope) {
            entry(&mut text, row);
        }
    }
    let gates: Vec<_> = FeatureGates::ALL.iter().map(|(name, default)| format!("{name}={default}")).collect();
    let _ = write!(text, "\nFeature gates and their defaults:\n  {}\n", gates.join("\n  "));
    text
}

fn entry(text: &mut String, row: &Row) {
    let default = if row.default.is_empty() { "none" } else { row.default };
    let _ =
        write!(text, "  --{} ({}; default {default}; {})\n      {}\n", row.flag, row.kind.name(), row.env, row.help);
}
