//! How many instructions a plan takes: the same on a busy machine, so that a change can be judged by it.
//!
//! Counted by valgrind's callgrind in [`crate::run::solve`] alone, or by `perf stat` where valgrind is missing, then less
//! what making the scenario takes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// Only what happens in here is counted.
const MEASURED: &str = "karpenter_bench::run::solve";

/// What can count on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    Callgrind,
    Perf,
}

impl Counter {
    pub fn find() -> Result<Self> {
        let runs = |program: &str, args: &[&str]| {
            Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
        };
        if runs("valgrind", &["--version"]) {
            return Ok(Self::Callgrind);
        }
        // It is often installed where the machine has no counters to read.
        if runs("perf", &["stat", "-e", "instructions:u", "true"]) && perf(Path::new("true"), &[]).is_ok() {
            return Ok(Self::Perf);
        }
        bail!("instructions are counted by valgrind or perf; install one of them (package valgrind)")
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Callgrind => "callgrind",
            Self::Perf => "perf stat",
        }
    }

    /// Instructions of one plan. `program` is the benchmark itself.
    pub fn count(self, program: &Path, scenario: &str, planner: &str) -> Result<u64> {
        match self {
            Self::Callgrind => callgrind(program, &["once", scenario, planner]),
            Self::Perf => {
                let all = perf(program, &["once", scenario, planner])?;
                let making = perf(program, &["once", scenario, "none"])?;
                Ok(all.saturating_sub(making))
            }
        }
    }
}

fn callgrind(program: &Path, args: &[&str]) -> Result<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", &format!("--toggle-collect={MEASURED}")])
        .arg(program)
        .args(args)
        .output()
        .context("cannot run valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| line.split_once("Collected :")?.1.trim().parse().ok());
    match count {
        Some(count) if output.status.success() && count > 0 => Ok(count),
        _ => bail!("valgrind counted nothing in {MEASURED}:\n{text}"),
    }
}

fn perf(program: &Path, args: &[&str]) -> Result<u64> {
    let output = Command::new("perf")
        .args(["stat", "-x,", "-e", "instructions:u"])
        .arg(program)
        .args(args)
        .output()
        .context("cannot run perf")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let count = text.lines().find_map(|line| line.split(',').next()?.trim().parse().ok());
    count.filter(|_| output.status.success()).with_context(|| format!("perf counted nothing:\n{text}"))
}
