//! Counts what one plan allocates. A program of its own, so that counting does not slow down the one that takes times.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, ValueEnum as _};
use karpenter_bench::run::{Planner, solve};
use serde_json::json;

/// Prints how often and how much a planner allocates for a scenario, as JSON.
#[derive(Debug, Parser)]
struct Args {
    scenario: String,
    planner: String,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let scenario = karpenter_bench::named(&args.scenario).context("there is no such scenario")?;
    let planner = Planner::from_str(&args.planner, false).map_err(anyhow::Error::msg)?;
    let info = allocation_counter::measure(|| {
        drop(solve(&scenario, planner, Duration::MAX));
    });
    let counts = json!({"allocations": info.count_total, "bytes": info.bytes_total, "peakBytes": info.bytes_max});
    writeln!(std::io::stdout(), "{counts}")?;
    Ok(())
}
