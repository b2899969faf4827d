//! What the rows say about the goals (`docs/benchmarks.md`).

use std::io::{Result, Write};

use crate::run::{Planner, Row};
use crate::scenarios::{Choice, SCENARIOS};

/// How much cheaper and how near the bound the plans are, over all scenarios that are about cost.
pub fn write(rows: &[Row], out: &mut dyn Write) -> Result<()> {
    for (choice, called, goal) in
        [(Choice::OneGeneration, "one generation", 0.92), (Choice::Ec2, "605 types of EC2", 0.78)]
    {
        let ratios = ratios(rows, choice);
        let worst = ratios.iter().copied().reduce(f64::max);
        if let (Some(mean), Some(worst)) = (geometric_mean(&ratios), worst) {
            writeln!(
                out,
                "cost of best over reference, {called}: geometric mean {mean:.4} (goal {goal}), worst {worst:.4} (goal 1), {} scenarios",
                ratios.len()
            )?;
        }
    }
    let mut gaps: Vec<f64> = about_cost(rows, Planner::Best).filter_map(|row| row.gap).collect();
    gaps.sort_by(f64::total_cmp);
    if let (Some(median), Some(high)) = (quantile(&gaps, 50), quantile(&gaps, 95)) {
        let (median, high) = (median * 100.0, high * 100.0);
        writeln!(
            out,
            "gap of best: median {median:.2} % (goal 1.5), p95 {high:.2} % (goal 5), {} scenarios",
            gaps.len()
        )?;
    }
    Ok(())
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
fn quantile(sorted: &[f64], percent: usize) -> Option<f64> {
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
}
