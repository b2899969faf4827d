//! Several ways to pack, under one budget.

use super::Candidate;
use super::reading::Reading;
use crate::packing::fill::{fill, values_of};
use crate::packing::{Packing, Steps, fluid, patterns, search};
use crate::plan::Part;

/// How much more large items count than their room, from one attempt at filling to the next.
const BULKS: [f64; 4] = [0.0, 0.1, 0.3, 1.0];
/// A packing this close to the bound is not improved any further.
const CLOSE: f64 = 1.003;
/// Items above this make the pattern programme slower than filling is worse.
const MOST_ITEMS: usize = 500;

/// Packings that are cheaper than the reference, the cheapest first, one for each part of the portfolio.
pub(crate) fn packings(reading: &Reading<'_>, reference: f64, steps: &mut Steps) -> Vec<Candidate> {
    let problem = &reading.problem;
    let counts: Vec<u32> = problem.items.iter().map(|item| if item.bins.is_empty() { 0 } else { item.count }).collect();
    if problem.bins.is_empty() || counts.iter().all(|count| *count == 0) {
        return Vec::new();
    }
    let prices = fluid::dual_prices(problem, &counts, steps);
    let plain = values_of(problem, &prices, 0.0);
    let bound: f64 = plain.iter().zip(&counts).map(|(value, count)| value * f64::from(*count)).sum();
    let mut found: Vec<Candidate> = Vec::new();
    let mut filled: Option<Packing> = None;
    for bulk in BULKS {
        let values = values_of(problem, &prices, bulk);
        let mut share = steps.share(15);
        let packing = fill(problem, &values, &counts, &mut share);
        steps.spend(share);
        let better =
            |packing: &Packing| filled.as_ref().is_none_or(|known| problem.cost(packing) < problem.cost(known));
        filled = packing.filter(better).or(filled);
    }
    let mut values = plain;
    if let Some(packing) = filled {
        let close = problem.cost(&packing) <= bound * CLOSE;
        if !close && counts.len() <= MOST_ITEMS {
            let mut share = steps.share(50);
            let outcome = patterns::solve(problem, &counts, &packing, bound, &mut share);
            steps.spend(share);
            let mut share = steps.share(30);
            let rounded = patterns::rounded(problem, &counts, &outcome, &mut share);
            steps.spend(share);
            if let Some(rounded) = rounded {
                values.clone_from(&outcome.values);
                found.push(Candidate { part: Part::Patterns, packing: rounded });
            }
        }
        found.push(Candidate { part: Part::Fill, packing });
    }
    found.sort_by(|a, b| problem.cost(&a.packing).total_cmp(&problem.cost(&b.packing)));
    if let Some(first) = found.first().filter(|first| problem.cost(&first.packing) > bound * CLOSE) {
        let before = problem.cost(&first.packing);
        let mut share = steps.share(60);
        let packing = search::improved(problem, &values, first.packing.clone(), &mut share);
        steps.spend(share);
        if problem.cost(&packing) < before {
            found.insert(0, Candidate { part: Part::Search, packing });
        }
    }
    // Pods that no bin holds cost something too, so that the comparison is in favour of the packing.
    found.retain(|candidate| problem.cost(&candidate.packing) < reference * (1.0 - 1e-9));
    found
}
