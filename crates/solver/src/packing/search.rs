//! Local search: dissolve the bins that give least for their price, and pack what was in them again.

use super::fill::{fill, merged, top_up};
use super::patterns::compact;
use super::{Load, Packed, Packing, Problem, Steps};

/// A repeatable source of variety; what it draws decides only where to look next.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        // Knuth's linear congruential generator; the high bits are the good ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % limit.max(1)
    }
}

/// Rounds without success after which a packing counts as settled.
const PATIENCE: u32 = 120;
/// Packings of more bins than this are left as they are: each round would touch a vanishing part of them.
const MOST_BINS: usize = 4_000;

/// The packing, or a cheaper one.
pub(crate) fn improved(problem: &Problem, values: &[f64], packing: Packing, steps: &mut Steps) -> Packing {
    let bins: u32 = packing.iter().map(|packed| packed.times).sum();
    if bins as usize > MOST_BINS || bins < 2 {
        return packing;
    }
    let single = |packed: &Packed| vec![Packed { times: 1, ..packed.clone() }; packed.times as usize];
    let mut current: Vec<Packed> = packing.iter().flat_map(single).collect();
    let mut draw = Draw(0x5eed);
    let mut failures = 0;
    while failures < PATIENCE && !steps.is_empty() && current.len() > 1 {
        let gone = victims(problem, values, &current, failures, &mut draw);
        steps.take(current.len() * 4);
        if let Some(better) = without(problem, values, &current, &gone, steps) {
            current = better;
            failures = 0;
        } else {
            failures += 1;
        }
    }
    compact(problem, current)
}

fn load_value(values: &[f64], load: &Load) -> f64 {
    load.iter().map(|(item, count)| values[*item] * f64::from(*count)).sum()
}

/// A few bins: the worst ones first, then also others.
fn victims(problem: &Problem, values: &[f64], current: &[Packed], round: u32, draw: &mut Draw) -> Vec<usize> {
    let ratio = |one: &Packed| load_value(values, &one.load) / problem.bins[one.bin].price.max(1e-9);
    let mut order: Vec<(f64, usize)> = current.iter().enumerate().map(|(index, one)| (ratio(one), index)).collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let wanted = (1 + round as usize % 6).min(current.len());
    let mut gone: Vec<usize> = Vec::new();
    // The bad end of the order is drawn from more often, but nobody is safe.
    for _ in 0..wanted {
        let reach =
            if draw.below(3) == 0 { current.len() } else { (current.len() / 5).max(wanted + 2).min(current.len()) };
        let index = order[draw.below(reach)].1;
        if !gone.contains(&index) {
            gone.push(index);
        }
    }
    if round == 0 {
        gone = vec![order[0].1];
    }
    gone
}

/// The packing with these bins packed anew, if that is cheaper.
fn without(
    problem: &Problem,
    values: &[f64],
    current: &[Packed],
    gone: &[usize],
    steps: &mut Steps,
) -> Option<Vec<Packed>> {
    let mut left = vec![0_u32; problem.items.len()];
    let mut before = 0.0;
    for index in gone {
        before += problem.bins[current[*index].bin].price;
        current[*index].load.iter().for_each(|(item, count)| left[*item] += count);
    }
    let mut kept: Vec<Packed> =
        current.iter().enumerate().filter(|(index, _)| !gone.contains(index)).map(|(_, one)| one.clone()).collect();
    // First anew with all of it, then what the others have room for and the rest anew.
    let whole = fill(problem, values, &left, steps)?;
    if problem.cost(&whole) < before * (1.0 - 1e-9) {
        kept.extend(singles(&whole));
        return Some(kept);
    }
    top_up(problem, &mut kept, &mut left, steps);
    let rest = fill(problem, values, &left, steps)?;
    if problem.cost(&rest) < before * (1.0 - 1e-9) {
        kept.extend(singles(&rest));
        return Some(kept);
    }
    None
}

fn singles(packing: &[Packed]) -> Vec<Packed> {
    let single = |packed: &Packed| {
        vec![Packed { times: 1, load: merged(&packed.load, &[]), bin: packed.bin }; packed.times as usize]
    };
    packing.iter().flat_map(single).collect()
}
