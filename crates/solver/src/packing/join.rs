//! Fewer bins at no higher price: two loads go into one bin where that costs no more than their own two.
//!
//! Where prices follow sizes a search for cheap packings finds many small bins as good as few large ones. For a cluster they
//! are not: every node brings a kubelet, a lease and its share of the API server's work, and the smaller nodes are the more often a
//! scheduler that places pods one by one ends up with room that fits nobody.

use std::cmp::Ordering;

use super::fill::merged;
use super::patterns::compact;
use super::{Load, Packed, Packing, Problem, Steps, fits};

/// A packing of more different loads than this stays as it is: to compare all pairs would take longer than packing did.
const MOST_LOADS: usize = 400;
/// Prices are sums of floats.
const SAME: f64 = 1.0 + 1e-9;

/// A packing of the same items that costs no more, with as few bins as joining them in pairs comes to.
pub(crate) fn joined(problem: &Problem, packing: Packing, steps: &mut Steps) -> Packing {
    let mut loads = compact(problem, packing);
    if loads.len() > MOST_LOADS {
        return loads;
    }
    let largest = largest(problem);
    loads.sort_by(|a, b| by_turn(problem, &largest, a, b));
    let mut at = 0;
    while at < loads.len() {
        let Some((other, bin, load)) = partner(problem, &loads, at, &largest, steps) else {
            at += 1;
            continue;
        };
        let times = if other == at { loads[at].times / 2 } else { loads[at].times.min(loads[other].times) };
        loads[at].times -= times;
        loads[other].times -= times;
        let both = Packed { bin, load, times };
        let place = loads.partition_point(|known| by_turn(problem, &largest, known, &both).is_lt());
        loads.insert(place, both);
        at = at.min(place);
        at -= loads[..at].iter().filter(|one| one.times == 0).count();
        loads.retain(|one| one.times > 0);
    }
    compact(problem, loads)
}

/// Those first that can share a bin with few others, then the smallest, which have most to gain from company.
fn by_turn(problem: &Problem, largest: &[f64], a: &Packed, b: &Packed) -> Ordering {
    let alone = |one: &Packed| {
        let need = problem.need_of(&one.load);
        need.iter().zip(largest).filter(|(need, most)| **need * 2.0 > **most).count()
    };
    let price = |one: &Packed| problem.bins[one.bin].price;
    let turns = alone(b).cmp(&alone(a));
    turns.then_with(|| price(a).total_cmp(&price(b))).then_with(|| a.load.cmp(&b.load))
}

/// The most of each dimension that any bin has: what exceeds it fits nowhere.
fn largest(problem: &Problem) -> Vec<f64> {
    let mut most = vec![0.0_f64; problem.dimensions()];
    for bin in &problem.bins {
        most.iter_mut().zip(&bin.capacity).for_each(|(most, capacity)| *most = most.max(*capacity));
    }
    most
}

/// With whom the load shares a bin to save most, and the bin for both; of equal ones the first, which is hardest to find company for.
fn partner(
    problem: &Problem,
    loads: &[Packed],
    at: usize,
    largest: &[f64],
    steps: &mut Steps,
) -> Option<(usize, usize, Load)> {
    let one = &loads[at];
    let need = problem.need_of(&one.load);
    let mut best: Option<(f64, usize, usize)> = None;
    for (other, two) in loads.iter().enumerate() {
        if other == at && one.times < 2 {
            continue;
        }
        if !steps.take(need.len()) {
            return None;
        }
        let both: Vec<f64> = need.iter().zip(problem.need_of(&two.load)).map(|(a, b)| a + b).collect();
        if !fits(&both, largest) {
            continue;
        }
        let apart = problem.bins[one.bin].price + problem.bins[two.bin].price;
        let Some(bin) = problem.cheapest(&merged(&one.load, &two.load)) else { continue };
        steps.take(problem.bins.len());
        let price = problem.bins[bin].price;
        let saved = apart - price;
        if price <= apart * SAME && best.is_none_or(|(known, ..)| saved > known + 1e-9) {
            best = Some((saved, other, bin));
        }
    }
    best.map(|(_, other, bin)| (other, bin, merged(&one.load, &loads[other].load)))
}
