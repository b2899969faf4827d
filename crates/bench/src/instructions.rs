//! How many instructions a plan takes: the same on a busy machine, so that a change can be judged by it.
//!
//! Counted by valgrind's callgrind in [`crate::run::solve`] alone, or by `perf stat` where valgrind is missing, then less
//! what making the scenario takes.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

/// How many instructions the reference planner may take for a scenario, everything compiled anew: 15 % more than it took
/// when the number was written down. Who makes it faster lowers the number; who has a reason to make it slower raises it and
/// says why in the commit. `make bench-instructions` prints what to write.
const BUDGETS: [Budget; 4] = [
    Budget { scenario: "mix-1", most: 3_070_000 },
    Budget { scenario: "mix-1000", most: 13_925_000 },
    Budget { scenario: "mix-5000", most: 53_928_000 },
    Budget { scenario: "prefs-4000", most: 87_013_000 },
];

#[derive(Debug, Clone, Copy)]
struct Budget {
    scenario: &'static str,
    most: u64,
}

impl Budget {
    fn with_headroom(count: u64) -> u64 {
        count + count * 15 / 100
    }

    /// Far below is as wrong as above: the number guards nothing then.
    fn verdict(self, count: u64) -> Verdict {
        match count {
            _ if count > self.most => Verdict::TooMany,
            _ if Self::with_headroom(count + count / 10) < self.most => Verdict::Stale,
            _ => Verdict::Good,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Good,
    TooMany,
    Stale,
}

/// Counts the scenarios that have a budget; whether all of them keep it. `program` is the benchmark itself.
pub fn guard(program: &Path, out: &mut dyn Write) -> Result<bool> {
    let counter = Counter::find()?;
    writeln!(out, "counted by {}", counter.name())?;
    let mut good = true;
    for budget in BUDGETS {
        let scenario = budget.scenario;
        let pods = crate::named(scenario).context("there is no such scenario")?.snapshot.pending.len() as u64;
        let count = counter.count(program, scenario, "reference")?;
        let verdict = match budget.verdict(count) {
            Verdict::Good => "good".to_owned(),
            Verdict::TooMany => format!("too many; {} with headroom", Budget::with_headroom(count)),
            Verdict::Stale => format!("far fewer; make it {}", Budget::with_headroom(count)),
        };
        good &= budget.verdict(count) != Verdict::TooMany;
        let each = count / pods.max(1);
        writeln!(out, "{scenario}: {count} instructions, {each} per pod, at most {}: {verdict}", budget.most)?;
    }
    Ok(good)
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_have_an_upper_and_a_lower_end() {
        let budget = Budget { scenario: "any", most: Budget::with_headroom(1000) };
        for (count, verdict) in
            [(1150, Verdict::Good), (1151, Verdict::TooMany), (950, Verdict::Good), (800, Verdict::Stale)]
        {
            assert_eq!(budget.verdict(count), verdict, "{count}");
        }
    }
}
