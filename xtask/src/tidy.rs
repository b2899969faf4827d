//! `cargo xtask tidy`: what the compiler does not check about the repository.

mod edges;
mod graph;
mod licences;
mod manifests;

use anyhow::{Result, bail};

use self::graph::Graph;
use crate::gen_command;

/// Runs every check and fails with all that was found, so that one run shows everything.
pub(crate) fn run() -> Result<()> {
    let graph = Graph::of_workspace()?;
    let mut problems = edges::problems(&graph);
    problems.extend(licences::problems(&graph));
    problems.extend(manifests::problems(&graph)?);
    if let Err(stale) = gen_command::run(true) {
        problems.push(format!("generated files: {stale:#}"));
    }
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{} found:\n  {}", count(problems.len()), problems.join("\n  "));
}

fn count(n: usize) -> String {
    if n == 1 { "1 problem".into() } else { format!("{n} problems") }
}
