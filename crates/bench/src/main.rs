//! Runs the benchmarks. `make bench` builds and calls it.

use std::fs;
use std::io::{Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand, ValueEnum as _};
use karpenter_bench::consolidation::{Swept, compare, compare_multi_node, search_once, sweep};
use karpenter_bench::instructions::guard;
use karpenter_bench::run::{Budget, Planner, Row, measure, one_pod, solve};
use karpenter_bench::scenarios::aged::Aged;
use karpenter_bench::scenarios::{Recipe, SCENARIOS};
use karpenter_bench::{goals, table};
use serde_json::Value;

/// What the planners make of the scenarios.
#[derive(Debug, Parser)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// List the scenarios
    List,
    /// Plan the scenarios and print times, costs and violations
    Run(RunArgs),
    /// Plan one scenario once and print nothing, for profilers; planner `none` only makes the scenario
    Once { scenario: String, planner: String },
    /// Count instructions of the reference planner and fail where there are more than there may be
    Instructions,
    /// Look at every node of aged clusters for consolidation
    Consolidation {
        /// The largest cluster; smaller ones are half, a quarter and an eighth of it
        #[arg(long, default_value_t = 10_000)]
        nodes: usize,
    },
    /// Consolidate aged clusters until nothing is found any more, as specified and by value
    Fixpoint {
        #[arg(long, default_value_t = 200)]
        nodes: usize,
        #[arg(long, value_delimiter = ',', default_values_t = [92, 93, 94, 95])]
        seeds: Vec<u64>,
        /// The pods of the live benchmark instead
        #[arg(long)]
        live: bool,
        /// Nodes as the reference buys them from 605 types of EC2 up to so many CPUs instead
        #[arg(long, value_name = "CPUS", conflicts_with = "live")]
        bought: Option<i64>,
        /// Of a hundred pods so many are left
        #[arg(long, default_value_t = HALF, conflicts_with_all = ["live", "bought"])]
        stay: usize,
        /// Only the searches for several nodes: no single node goes before or after them
        #[arg(long)]
        multi_node: bool,
    },
    /// Search an aged cluster by value once, and say how long that takes
    Search {
        #[arg(long, default_value_t = 10_000)]
        nodes: usize,
        /// Nodes as the reference buys them from 605 types of EC2 up to so many CPUs instead
        #[arg(long, value_name = "CPUS")]
        bought: Option<i64>,
        /// Of a hundred pods so many are left
        #[arg(long, default_value_t = HALF, conflicts_with = "bought")]
        stay: usize,
    },
    /// Look at every node of an aged cluster again after a part of it has changed
    Churn {
        #[arg(long, default_value_t = 10_000)]
        nodes: usize,
        /// Of a hundred pods so many are left
        #[arg(long, value_delimiter = ',', default_values_t = [60, 95])]
        stay: Vec<usize>,
    },
}

#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Only scenarios with these names or first parts of names, separated by commas
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds after which a single plan is stopped; larger scenarios of its family are left out then
    #[arg(long, default_value_t = 20)]
    limit: u64,
    /// The fastest of this many runs counts; fewer where they take long
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Write the rows as JSON, too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// No further run of a scenario begins after this long, so that all of them take minutes.
const MOST_PER_SCENARIO: Duration = Duration::from_secs(6);

fn main() -> Result<ExitCode> {
    match Cli::parse().command {
        Task::List => {
            for recipe in SCENARIOS {
                writeln!(stdout(), "{:20} {}", recipe.name, recipe.about)?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Task::Run(args) => run(&args),
        Task::Once { scenario, planner } => once(&scenario, &planner),
        Task::Consolidation { nodes } => consolidation(nodes),
        Task::Search { nodes, bought, stay } => {
            search_once(&aged(nodes, bought, stay, 93), &mut stdout())?;
            Ok(ExitCode::SUCCESS)
        }
        Task::Fixpoint { nodes, seeds, live, bought, stay, multi_node } => {
            for seed in seeds {
                let aged = if live { Aged::scaled_in(4, seed) } else { aged(nodes, bought, stay, seed) };
                if multi_node {
                    writeln!(stdout(), "seed {seed}, {} nodes with {} pods:", aged.snapshot.nodes.len(), aged.pods())?;
                    compare_multi_node(aged, &mut stdout())?;
                } else {
                    compare(&format!("seed {seed}"), aged, &mut stdout())?;
                }
            }
            Ok(ExitCode::SUCCESS)
        }
        Task::Churn { nodes, stay } => churn(nodes, &stay),
        Task::Instructions => instructions(),
    }
}

/// Of a hundred.
const HALF: usize = 50;

/// Nodes of a few types of which so many pods in a hundred are left, or as they are bought from types of up to so many CPUs, of which
/// half are.
fn aged(nodes: usize, bought: Option<i64>, stay: usize, seed: u64) -> Aged {
    bought.map_or_else(|| Aged::new(nodes, stay, seed), |largest| Aged::bought(nodes, largest, seed))
}

/// The largest types of clusters that are bought, in CPUs.
const LARGEST: i64 = 32;

fn consolidation(nodes: usize) -> Result<ExitCode> {
    writeln!(stdout(), "load before: {}", load())?;
    let rows: Vec<Swept> = [8, 4, 2, 1].iter().map(|part| sweep(nodes / part)).collect();
    karpenter_bench::consolidation::write(&rows, &mut stdout())?;
    search_once(&Aged::new(nodes, HALF, 93), &mut stdout())?;
    // Carrying commands out one by one compiles the cluster for each, so the way to the end is gone with a tenth of it.
    compare("half of the pods are left", Aged::new(nodes / 10, HALF, 92), &mut stdout())?;
    compare("nodes as bought", Aged::bought(nodes / 50, LARGEST, 92), &mut stdout())?;
    compare("960 pods scaled in to 40 %", Aged::scaled_in(4, 94), &mut stdout())?;
    writeln!(stdout(), "load after: {}", load())?;
    let differ = rows.iter().any(|row| row.differ > 0);
    Ok(if differ { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn churn(nodes: usize, stay: &[usize]) -> Result<ExitCode> {
    writeln!(stdout(), "load before: {}", load())?;
    let mut good = true;
    for stay in stay {
        good &= karpenter_bench::churn::write(nodes, *stay, &mut stdout())?;
    }
    writeln!(stdout(), "load after: {}", load())?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn once(scenario: &str, planner: &str) -> Result<ExitCode> {
    let scenario = karpenter_bench::named(scenario).context("there is no such scenario")?;
    if planner != "none" {
        let planner = Planner::from_str(planner, false).map_err(anyhow::Error::msg)?;
        drop(solve(&scenario, planner, Duration::MAX));
    }
    Ok(ExitCode::SUCCESS)
}

fn run(args: &RunArgs) -> Result<ExitCode> {
    let wanted = |recipe: &&Recipe| args.only.is_empty() || args.only.iter().any(|name| is_meant(recipe.name, name));
    let limit = Duration::from_secs(args.limit);
    let budget = Budget { limit, runs: args.runs, total: limit.min(MOST_PER_SCENARIO) };
    let mut rows: Vec<Row> = Vec::new();
    let began = Instant::now();
    writeln!(stdout(), "load before: {}", load())?;
    for recipe in SCENARIOS.iter().filter(wanted) {
        let scenario = recipe.make();
        for planner in Planner::ALL {
            let slow = |row: &&Row| row.family == recipe.family && row.planner == planner && row.stopped;
            if let Some(row) = rows.iter().find(slow) {
                writeln!(stderr(), "{} {}: left out, {} was stopped", recipe.name, planner.name(), row.scenario)?;
                continue;
            }
            writeln!(stderr(), "{} {} ...", recipe.name, planner.name())?;
            let began = Instant::now();
            let mut row = measure(&scenario, recipe.family, planner, budget);
            if !row.stopped {
                count_memory(&mut row)?;
            }
            writeln!(stderr(), "    took {:.1} s", began.elapsed().as_secs_f64())?;
            rows.push(row);
        }
    }
    table::write(&rows, &mut stdout())?;
    let one_pod = one_pod().filter(|_| args.only.iter().all(|name| is_meant("mix-1", name)));
    goals::write(&rows, one_pod.map(|time| time.as_secs_f64() * 1e3), &mut stdout())?;
    writeln!(stdout(), "load after: {}; took {:.0} s", load(), began.elapsed().as_secs_f64())?;
    if let Some(path) = &args.json {
        fs::write(path, serde_json::to_string_pretty(&rows)?)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let broken = rows.iter().filter(|row| !row.violations.is_empty()).count();
    Ok(if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `mix` means all of `mix-1`, `mix-100` and so on; nothing means everything.
fn is_meant(scenario: &str, by: &str) -> bool {
    by.is_empty() || scenario.strip_prefix(by).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// What else the machine does, for whoever reads the times.
fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_else(|_| "unknown".to_owned());
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    format!("{} on {cores} cores", load.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

/// Asks the program beside this one, which counts allocations.
fn count_memory(row: &mut Row) -> Result<()> {
    let program = sibling("karpenter-bench-memory")?;
    let output = Command::new(&program)
        .args([&row.scenario, row.planner.name()])
        .output()
        .with_context(|| format!("cannot run {}; build it with this program", program.display()))?;
    let counts: Value =
        serde_json::from_slice(&output.stdout).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    row.allocations = counts["allocations"].as_u64();
    row.peak_bytes = counts["peakBytes"].as_u64();
    Ok(())
}

fn sibling(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().context("cannot tell where this program is")?;
    Ok(this.parent().unwrap_or(Path::new(".")).join(name))
}

fn instructions() -> Result<ExitCode> {
    let good = guard(&std::env::current_exe()?, &mut stdout())?;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
