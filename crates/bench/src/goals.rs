//! What the rows say about the goals (`docs/benchmarks.md`).

use std::io::{Result, Write};

use crate::run::{Planner, Row};
use crate::scenarios::{Choice, SCENARIOS};

/// Times of the reference that are goals, by scenario, in milliseconds: a thousandth of what Karpenter v1.15 takes on a
/// machine of this kind, or a second.
const TIMES: [(&str, &str, f64); 6] = [
    ("G1", "mix-1000", 1.4),
    ("G1", "mix-5000", 9.0),
    ("G1", "mix-20000", 82.0),
    ("G3", "mix-100000", 1000.0),
    ("G4", "million", 1000.0),
    ("G5", "prefs-4000", 91.0),
];

/// The most that one pod may take in an empty cluster, in milliseconds, in 99 of 100 cases.
const ONE_POD: f64 = 0.02;

/// One line per goal, as far as the rows have something to say about it. `one_pod`: milliseconds in 99 of 100 cases.
pub fn write(rows: &[Row], one_pod: Option<f64>, out: &mut dyn Write) -> Result<()> {
    let mut say = |goal: &str, what: &str, reached: String, met: bool| {
        writeln!(out, "{goal} {}: {what}: {reached}", if met { "met" } else { "missed" })
    };
    for (goal, scenario, most) in TIMES {
        let row = rows.iter().find(|row| row.scenario == scenario && row.planner == Planner::Reference);
        if let Some(row) = row {
            let total = row.total_ms();
            let reached = if row.stopped { "stopped".to_owned() } else { format!("{total:.2} ms") };
            let what = format!("{scenario}, compiling included, at most {most} ms");
            say(goal, &what, reached, !row.stopped && total <= most && row.unplaced == 0)?;
        }
    }
    if let Some(one_pod) = one_pod {
        let what = format!("one pod, 400 types, p99, at most {ONE_POD} ms");
        say("G2", &what, format!("{one_pod:.4} ms"), one_pod <= ONE_POD)?;
    }
    for (goal, choice, called, most) in
        [("G6", Choice::OneGeneration, "one generation", 0.92), ("G7", Choice::Ec2, "605 types of EC2", 0.78)]
    {
        let ratios = ratios(rows, choice);
        if let (Some(mean), Some(worst)) = (geometric_mean(&ratios), ratios.iter().copied().reduce(f64::max)) {
            let what = format!("cost of best over reference, {called}, geometric mean at most {most}, none above 1");
            let reached = format!("{mean:.4}, the worst {worst:.4}, of {} scenarios", ratios.len());
            say(goal, &what, reached, mean <= most && worst <= 1.0)?;
        }
    }
    let mut gaps: Vec<f64> = about_cost(rows, Planner::Best).filter_map(|row| row.gap).collect();
    gaps.sort_by(f64::total_cmp);
    if let (Some(median), Some(high)) = (quantile(&gaps, 50), quantile(&gaps, 95)) {
        let (median, high) = (median * 100.0, high * 100.0);
        let reached = format!("median {median:.2} %, p95 {high:.2} %, of {} scenarios", gaps.len());
        say(
            "G8",
            "certified gap of best, median at most 1.5 %, p95 at most 5 %",
            reached,
            median <= 1.5 && high <= 5.0,
        )?;
    }
    let broken = rows.iter().filter_map(|row| Some(format!("{} ({})", row.scenario, row.violations.first()?)));
    let broken: Vec<String> = broken.collect();
    let reached = if broken.is_empty() { "none".to_owned() } else { broken.join(", ") };
    say("-", "plans that the checker objects to", reached, broken.is_empty())
}

fn about_cost(rows: &[Row], planner: Planner) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |row| row.planner == planner && !row.stopped && choice(&row.scenario) != Choice::Speed)
}

fn choice(scenario: &str) -> Choice {
    SCENARIOS.iter().find(|recipe| recipe.name == scenario).map_or(Choice::Speed, |recipe| recipe.choice)
}

/// Costs of best over those of the reference, where both came to an end.
fn ratios(rows: &[Row], of: Choice) -> Vec<f64> {
    about_cost(rows, Planner::Best)
        .filter(|row| choice(&row.scenario) == of)
        .filter_map(|best| {
            let reference = about_cost(rows, Planner::Reference).find(|row| row.scenario == best.scenario)?;
            Some(best.cost / reference.cost).filter(|ratio| ratio.is_finite())
        })
        .collect()
}

#[expect(clippy::cast_precision_loss, reason = "a handful")]
fn geometric_mean(numbers: &[f64]) -> Option<f64> {
    let logarithms: f64 = numbers.iter().map(|number| number.ln()).sum();
    (!numbers.is_empty()).then(|| (logarithms / numbers.len() as f64).exp())
}

/// The smallest that at least so many percent do not exceed.
pub fn quantile(sorted: &[f64], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_and_quantiles() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
        let sorted = [1.0, 2.0, 3.0, 4.0];
        assert_eq!((quantile(&sorted, 50), quantile(&sorted, 95), quantile(&[], 50)), (Some(2.0), Some(4.0), None));
    }

    fn row(scenario: &str, planner: Planner, cost: f64, gap: f64) -> Row {
        Row {
            scenario: scenario.to_owned(),
            family: scenario.to_owned(),
            pods: 10,
            planner,
            runs: 1,
            compile_ms: Some(1.0),
            solve_ms: 0.2,
            check_ms: 0.0,
            pods_per_second: 1.0,
            allocations: None,
            peak_bytes: None,
            nodes: 1,
            cost,
            lower_bound: Some(1.0),
            bound_kind: None,
            gap: Some(gap),
            unplaced: 0,
            violations: Vec::new(),
            stopped: false,
        }
    }

    #[test]
    fn goals_are_met_or_missed() {
        let mut rows = vec![
            row("mix-1000", Planner::Reference, 1.0, 0.0),
            row("basic", Planner::Reference, 10.0, 0.0),
            row("basic", Planner::Best, 9.0, 0.01),
        ];
        let mut text = Vec::new();
        write(&rows, Some(0.03), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for (line, starts) in text.lines().zip(["G1 met: mix-1000", "G2 missed", "G6 met", "G8 met", "- met"]) {
            assert!(line.starts_with(starts), "{line}");
        }
        rows[2].cost = 11.0;
        rows[2].violations.push("overfull".to_owned());
        rows[0].unplaced = 1;
        let mut text = Vec::new();
        write(&rows, None, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for (line, starts) in text.lines().zip(["G1 missed", "G6 missed", "G8 met", "- missed"]) {
            assert!(line.starts_with(starts), "{line}");
        }
    }
}
