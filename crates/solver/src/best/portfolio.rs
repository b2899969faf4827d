//! Several ways to pack, under one budget.

use std::collections::BTreeMap;

use super::Candidate;
use super::reading::Reading;
use crate::packing::fill::{fill, top_up, values_of};
use crate::packing::{Packed, Packing, Problem, Steps, fluid, join, patterns, search};
use crate::plan::Part;

/// How much more large items count than their room, from one attempt at filling to the next.
const BULKS: [f64; 4] = [0.0, 0.1, 0.3, 1.0];
/// A packing this close to the bound is not improved any further.
const CLOSE: f64 = 1.003;
/// Items above this make the pattern programme slower than filling is worse.
const MOST_ITEMS: usize = 500;

/// Packings that are cheaper than the reference, those first that are most likely to survive the pass.
pub(crate) fn packings(reading: &Reading<'_>, reference: f64, steps: &mut Steps) -> Vec<Candidate> {
    let problem = &reading.problem;
    let counts: Vec<u32> = problem.items.iter().map(|item| if item.bins.is_empty() { 0 } else { item.count }).collect();
    if problem.bins.is_empty() || counts.iter().all(|count| *count == 0) {
        return Vec::new();
    }
    if !reading.zone_names.is_empty() {
        let mut found = in_zones(reading, &counts, steps);
        found.retain(|candidate| problem.cost(&candidate.packing) < reference * (1.0 - 1e-9));
        return with_joined(reading, found, steps);
    }
    let mut found: Vec<Candidate> = Vec::new();
    if reading.zones > 1 {
        let mut share = steps.share(50);
        found.extend(zone_by_zone(problem, &counts, reading.zones, &mut share));
        steps.spend(share);
    }
    let mut share = steps.share(70);
    found.extend(packed(problem, &counts, &mut share));
    steps.spend(share);
    // Pods that no bin holds cost something too, so that the comparison is in favour of the packing.
    found.retain(|candidate| problem.cost(&candidate.packing) < reference * (1.0 - 1e-9));
    with_joined(reading, found, steps)
}

/// Pods that have their zones: one zone after the other.
fn in_zones(reading: &Reading<'_>, counts: &[u32], steps: &mut Steps) -> Vec<Candidate> {
    let problem = &reading.problem;
    let zones = reading.zone_names.len();
    let (mut packing, mut part) = (Packing::new(), Part::Fill);
    for zone in (0..zones).map(Some).chain([None]) {
        let own: Vec<usize> =
            (0..counts.len()).filter(|item| reading.item_zones[*item] == zone && counts[*item] > 0).collect();
        if own.is_empty() {
            continue;
        }
        let left = zone.map_or(1, |zone| zones - zone) as u64;
        let mut share = steps.share(100 / left);
        let items = own.iter().map(|item| problem.items[*item].clone()).collect();
        let (part_of_it, bins) = Problem::new(items, &problem.bins);
        let own_counts: Vec<u32> = own.iter().map(|item| counts[*item]).collect();
        let best = packed(&part_of_it, &own_counts, &mut share).into_iter().next();
        steps.spend(share);
        let Some(best) = best else { return Vec::new() };
        part = best.part;
        packing.extend(best.packing.into_iter().map(|one| Packed {
            bin: bins[one.bin],
            load: one.load.into_iter().map(|(item, count)| (own[item], count)).collect(),
            times: one.times,
        }));
    }
    vec![Candidate { part, packing }]
}

/// Pods that must spread over zones: one zone is packed with its part of everything, and the others like it. What cannot
/// be divided comes on top.
fn zone_by_zone(problem: &Problem, counts: &[u32], zones: u32, steps: &mut Steps) -> Option<Candidate> {
    let part: Vec<u32> = counts.iter().map(|count| count / zones).collect();
    let mut share = steps.share(70);
    let first = packed(problem, &part, &mut share).into_iter().next();
    steps.spend(share);
    let first = first?;
    let mut packing: Packing =
        first.packing.into_iter().map(|one| Packed { times: one.times * zones, ..one }).collect();
    let mut left: Vec<u32> = counts.iter().map(|count| count % zones).collect();
    top_up(problem, &mut packing, &mut left, steps);
    if left.iter().any(|count| *count > 0) {
        packing.extend(packed(problem, &left, steps).into_iter().next()?.packing);
    }
    Some(Candidate { part: first.part, packing })
}

/// The cheapest first, one for each part of the portfolio.
pub(crate) fn packed(problem: &Problem, counts: &[u32], steps: &mut Steps) -> Vec<Candidate> {
    let prices = fluid::dual_prices(problem, counts, steps);
    let plain = values_of(problem, &prices, 0.0);
    let bound: f64 = plain.iter().zip(counts).map(|(value, count)| value * f64::from(*count)).sum();
    let mut found: Vec<Candidate> = Vec::new();
    let mut filled: Option<Packing> = None;
    for bulk in BULKS {
        let values = values_of(problem, &prices, bulk);
        let mut share = steps.share(15);
        let packing = fill(problem, &values, counts, &mut share);
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
            let outcome = patterns::solve(problem, counts, &packing, bound, &mut share);
            steps.spend(share);
            let mut share = steps.share(30);
            let rounded = patterns::rounded(problem, counts, &outcome, &mut share);
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
        let mut share = steps.share(80);
        let packing = search::improved(problem, &values, first.packing.clone(), &mut share);
        steps.spend(share);
        if problem.cost(&packing) < before {
            found.insert(0, Candidate { part: Part::Search, packing });
        }
    }
    found
}

/// After the cheapest packing the same with fewer bins, where there is such a one at no higher price. Not instead of it: rules that a
/// packing knows nothing about may break one and not the other.
fn with_joined(reading: &Reading<'_>, mut found: Vec<Candidate>, steps: &mut Steps) -> Vec<Candidate> {
    let Some(first) = found.first() else { return found };
    let zone = |one: &Packed| one.load.first().and_then(|(item, _)| reading.item_zones.get(*item).copied().flatten());
    let mut by_zone: BTreeMap<Option<usize>, Packing> = BTreeMap::new();
    for one in &first.packing {
        by_zone.entry(zone(one)).or_default().push(one.clone());
    }
    let part = first.part;
    let bins = |packing: &Packing| packing.iter().map(|one| one.times).sum::<u32>();
    let before = bins(&first.packing);
    let mut share = steps.share(50);
    let packing: Packing =
        by_zone.into_values().flat_map(|own| join::joined(&reading.problem, own, &mut share)).collect();
    steps.spend(share);
    if bins(&packing) < before {
        found.insert(1, Candidate { part, packing });
    }
    found
}
