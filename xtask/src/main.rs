//! Generators and repository checks: `cargo xtask gen`, `cargo xtask tidy`, `cargo xtask spec-coverage`.

mod gen_command;
mod spec_coverage;
mod tidy;

use anyhow::Result;
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Generators and repository checks")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write the files that are made from Rust definitions
    Gen {
        /// Write nothing; fail with the list of files that are not up to date
        #[arg(long)]
        check: bool,
    },
    /// Check dependency edges, licences, lint settings and generated files
    Tidy,
    /// List the rules of the specification that tests name, and those that no test names
    SpecCoverage(spec_coverage::Options),
}

fn main() -> Result<()> {
    match Arguments::parse().command {
        Command::Gen { check } => gen_command::run(check),
        Command::Tidy => tidy::run(),
        Command::SpecCoverage(options) => spec_coverage::run(&options),
    }
}
