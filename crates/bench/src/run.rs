//! Solving a scenario, and what it took.

use std::time::{Duration, Instant};

use karpenter_solver::{Options, Plan, check};
use serde::Serialize;

use crate::scenarios::{Preferences, Scenario};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Planner {
    Reference,
    Best,
}

impl Planner {
    pub const ALL: [Self; 2] = [Self::Reference, Self::Best];

    pub fn name(self) -> &'static str {
        match self {
            Self::Reference => "reference",
            Self::Best => "best",
        }
    }
}

/// A plan, and how long each part of making it took.
#[derive(Debug)]
pub struct Solved {
    pub plan: Plan,
    /// Until the first pod is looked at; `None` where there is none.
    pub compile: Option<Duration>,
    pub solve: Duration,
    /// It was stopped before the end.
    pub stopped: bool,
}

impl Solved {
    pub fn total(&self) -> Duration {
        self.compile.unwrap_or_default() + self.solve
    }
}

/// How the scenario is to be planned for.
pub fn options(scenario: &Scenario, planner: Planner) -> Options {
    Options {
        preferences: match scenario.preferences {
            Preferences::Respected => karpenter_solver::Preferences::Respect,
            Preferences::Ignored => karpenter_solver::Preferences::Ignore,
        },
        planner: match planner {
            Planner::Reference => karpenter_solver::Planner::Reference,
            Planner::Best => karpenter_solver::Planner::Best,
        },
        ..Options::default()
    }
}

/// Plans once. Never inlined, so that a profiler can be told to count in here and nowhere else.
#[inline(never)]
pub fn solve(scenario: &Scenario, planner: Planner, limit: Duration) -> Solved {
    let started = Instant::now();
    let (mut stopped, mut compiled, mut asked) = (false, None, 0_u32);
    // It is asked before each pod; so it is first asked when everything is compiled.
    let mut should_stop = || {
        compiled.get_or_insert_with(|| started.elapsed());
        asked = asked.wrapping_add(1);
        // Looking at the clock for every pod would be most of what is measured.
        stopped |= asked.is_multiple_of(64) && started.elapsed() > limit;
        stopped
    };
    let options = options(scenario, planner);
    let plan = karpenter_solver::plan_until(&scenario.snapshot, &scenario.rules, &options, &mut should_stop);
    let solve = started.elapsed().saturating_sub(compiled.unwrap_or_default());
    Solved { plan, compile: compiled, solve, stopped }
}

/// What a planner made of a scenario.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub scenario: String,
    pub family: String,
    pub pods: usize,
    pub planner: Planner,
    pub runs: usize,
    /// Of the fastest run.
    pub compile_ms: Option<f64>,
    pub solve_ms: f64,
    /// What the independent checker took for the plan.
    pub check_ms: f64,
    pub pods_per_second: f64,
    pub allocations: Option<u64>,
    pub peak_bytes: Option<u64>,
    pub nodes: usize,
    pub cost: f64,
    pub lower_bound: Option<f64>,
    pub bound_kind: Option<&'static str>,
    pub gap: Option<f64>,
    pub unplaced: usize,
    /// What the checker objects to.
    pub violations: Vec<String>,
    /// Stopped at the time limit: costs and counts are of what had a place by then.
    pub stopped: bool,
}

impl Row {
    pub fn total_ms(&self) -> f64 {
        self.compile_ms.unwrap_or_default() + self.solve_ms
    }
}

/// How long to go on with one scenario and planner.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// Of one run.
    pub limit: Duration,
    /// The fastest of this many counts.
    pub runs: usize,
    /// No further run begins after this long.
    pub total: Duration,
}

/// Plans several times and judges the plan.
pub fn measure(scenario: &Scenario, family: &str, planner: Planner, budget: Budget) -> Row {
    let started = Instant::now();
    let mut best = solve(scenario, planner, budget.limit);
    let mut runs = 1;
    while runs < budget.runs && !best.stopped && started.elapsed() < budget.total {
        let next = solve(scenario, planner, budget.limit);
        runs += 1;
        if next.total() < best.total() {
            best = next;
        }
    }
    if best.plan.bound.is_none() && !best.stopped {
        // Not part of the reference's time: it plans without it.
        let options = options(scenario, planner);
        best.plan.bound = Some(karpenter_solver::appraise(&scenario.snapshot, &scenario.rules, &options, &best.plan));
    }
    row(scenario, family, planner, runs, &best)
}

#[expect(clippy::cast_precision_loss, reason = "counts of pods")]
fn row(scenario: &Scenario, family: &str, planner: Planner, runs: usize, solved: &Solved) -> Row {
    let pods = scenario.snapshot.pending.len();
    let started = Instant::now();
    let violations = check::violations(&scenario.snapshot, &scenario.rules, &solved.plan);
    let check_ms = started.elapsed().as_secs_f64() * 1e3;
    Row {
        scenario: scenario.name.to_owned(),
        family: family.to_owned(),
        pods,
        planner,
        runs,
        compile_ms: solved.compile.map(|compile| compile.as_secs_f64() * 1e3),
        solve_ms: solved.solve.as_secs_f64() * 1e3,
        check_ms,
        pods_per_second: pods as f64 / solved.total().as_secs_f64(),
        allocations: None,
        peak_bytes: None,
        nodes: solved.plan.claims.len(),
        cost: solved.plan.cost_per_hour(),
        lower_bound: solved.plan.bound.as_ref().map(|bound| bound.per_hour),
        bound_kind: solved.plan.bound.as_ref().map(|bound| bound.kind.as_str()),
        gap: solved.plan.gap(),
        unplaced: solved.plan.unplaced.len() + solved.plan.untried.len(),
        violations: violations.iter().map(ToString::to_string).collect(),
        stopped: solved.stopped,
    }
}

/// By how much the time grows when the pods double, from one row of a family to a larger one.
#[expect(clippy::cast_precision_loss, reason = "counts of pods")]
pub fn growth_per_doubling(smaller: &Row, larger: &Row) -> Option<f64> {
    let sizes = larger.pods as f64 / smaller.pods as f64;
    let times = larger.total_ms() / smaller.total_ms();
    (sizes > 1.0 && times.is_finite() && times > 0.0 && !larger.stopped).then(|| 2_f64.powf(times.ln() / sizes.ln()))
}

/// Draws for [`one_pod`]; the ten slowest of a thousand may be slower than what it returns.
const DRAWS: usize = 2000;

/// How long one pod takes in an empty cluster with 400 types, in 99 of 100 cases: pods of the mix, one after the other,
/// by a solver that has seen the types before.
pub fn one_pod() -> Option<Duration> {
    let pods = crate::named("mix-2000")?;
    let mut solver = karpenter_solver::Solver::new(&pods.rules);
    let mut snapshot = pods.snapshot.clone();
    let waiting = std::mem::take(&mut snapshot.pending);
    let mut times: Vec<f64> = Vec::with_capacity(DRAWS);
    for (id, pod) in waiting.into_iter().take(DRAWS) {
        snapshot.pending.insert(id.clone(), pod);
        let started = Instant::now();
        let plan = solver.plan(&snapshot, &Options::default());
        times.push(started.elapsed().as_secs_f64());
        if plan.claims.len() != 1 {
            return None;
        }
        snapshot.pending.clear();
    }
    times.sort_by(f64::total_cmp);
    crate::goals::quantile(&times, 99).map(Duration::from_secs_f64)
}
