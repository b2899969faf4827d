//! Patterns: column generation, the bound that comes with it, and whole numbers in the end.

use super::fill::{fill, merged, right_sized, top_up};
use super::knapsack::{Effort, best_load};
use super::master::{Master, Pattern};
use super::{Load, Packed, Packing, Problem, Steps, times_in, whole};

/// What a run of column generation leaves, however early it was stopped.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    /// What each item is worth, scaled so that no load of any bin is worth more than the bin (Farley).
    pub(crate) duals: Vec<f64>,
    /// What everything is worth then: no packing costs less.
    pub(crate) bound: f64,
    /// What the master programme costs: patterns in fractions.
    pub(crate) relaxed: f64,
    /// The values that the last round worked with.
    pub(crate) values: Vec<f64>,
    /// Patterns that may still be of use, those of the solution first.
    pool: Vec<Pattern>,
    /// How often the first patterns of the pool are used.
    amounts: Vec<f64>,
}

/// Bins that every round of pricing looks at.
const FIRST_BINS: usize = 12;
/// Partial loads per bin that are looked at as long as that finds something.
const FIRST_NODES: u32 = 60;
/// Partial loads per bin that a proof may take; what is left open then makes the bound a little lower, not wrong.
const MOST_NODES: u32 = 32_000;
/// Nobody notices a difference smaller than this.
const CLOSE: f64 = 1e-3;
/// A bound this close to the programme is not improved any further: proofs take longer than searching.
const PROVEN: f64 = 5e-3;
/// Loads that are worth so much more than their bin do not matter where only a proof is missing.
const TRIFLE: f64 = 2e-3;

/// Solves the pattern programme for the items that some bin holds; `below` is a bound that is known already.
pub(crate) fn solve(problem: &Problem, counts: &[u32], seeds: &[Packed], below: f64, steps: &mut Steps) -> Outcome {
    let mut pool: Vec<Pattern> = Vec::new();
    for seed in seeds {
        pool.push(Pattern { bin: seed.bin, load: seed.load.clone(), price: problem.bins[seed.bin].price });
    }
    generate(problem, counts, pool, Rounds { most: u32::MAX, enough: below }, steps)
}

/// When to stop.
#[derive(Clone, Copy)]
struct Rounds {
    most: u32,
    /// A cost that cannot be beaten.
    enough: f64,
}

fn generate(problem: &Problem, counts: &[u32], pool: Vec<Pattern>, rounds: Rounds, steps: &mut Steps) -> Outcome {
    let rows: Vec<usize> = (0..counts.len()).filter(|item| counts[*item] > 0).collect();
    let mut row_of = vec![usize::MAX; counts.len()];
    rows.iter().enumerate().for_each(|(row, item)| row_of[*item] = row);
    let alone: Option<Vec<Pattern>> = rows.iter().map(|item| alone(problem, *item, counts[*item])).collect();
    let zero = vec![0.0; counts.len()];
    let mut outcome = Outcome { duals: zero.clone(), bound: 0.0, relaxed: 0.0, values: zero, pool, amounts: vec![] };
    let Some(mut alone) = alone.filter(|alone| !alone.is_empty()) else { return outcome };
    alone.iter_mut().enumerate().for_each(|(row, pattern)| pattern.load[0].0 = row);
    let demand: Vec<u32> = rows.iter().map(|item| counts[*item]).collect();
    let mut master = Master::new(&demand, alone);
    for pattern in &outcome.pool {
        let load = trimmed(&pattern.load, counts, &row_of);
        if !load.is_empty() {
            master.add(Pattern { load, ..*pattern });
        }
    }
    let mut pricing = Pricing::new(problem);
    for _ in 0..rounds.most {
        if !master.optimize(steps) {
            break;
        }
        rows.iter().enumerate().for_each(|(row, item)| outcome.values[*item] = master.duals[row].max(0.0));
        outcome.relaxed = master.cost();
        if outcome.relaxed <= rounds.enough * (1.0 + CLOSE) {
            break;
        }
        let (found, over) = pricing.round(counts, &outcome.values, steps);
        if let Some(over) = over {
            let worth = |item: &usize| outcome.values[*item] * f64::from(counts[*item]);
            let bound = rows.iter().map(worth).sum::<f64>() / over;
            if bound > outcome.bound {
                outcome.bound = bound;
                outcome.duals = outcome.values.iter().map(|value| value / over).collect();
            }
        }
        let mut grew = false;
        for (_, bin, load) in found {
            let load = load.iter().map(|(item, count)| (row_of[*item], *count)).collect();
            grew |= master.add(Pattern { bin, load, price: problem.bins[bin].price });
        }
        if steps.is_empty() || outcome.bound >= outcome.relaxed * (1.0 - PROVEN) || (!grew && !pricing.look_harder()) {
            break;
        }
    }
    keep(&mut outcome, &master, &rows);
    outcome
}

/// The patterns of the solution, then those that were nearly as good.
fn keep(outcome: &mut Outcome, master: &Master, rows: &[usize]) {
    let used = master.solution();
    let in_items =
        |one: &Pattern| Pattern { load: one.load.iter().map(|(row, count)| (rows[*row], *count)).collect(), ..*one };
    outcome.amounts = used.iter().map(|(_, amount)| *amount).collect();
    outcome.pool = used.iter().map(|(index, _)| in_items(&master.patterns[*index])).collect();
    let mut basic = vec![false; master.patterns.len()];
    for (index, _) in &used {
        basic[*index] = true;
    }
    let near = |(index, one): &(usize, &Pattern)| !basic[*index] && master.reduced(one) < 0.05 * one.price;
    outcome.pool.extend(master.patterns.iter().enumerate().filter(near).map(|(_, one)| in_items(one)));
}

/// Finds loads that are worth more than their bin.
struct Pricing<'a> {
    problem: &'a Problem,
    bins: Vec<usize>,
    /// By how much the best load of each bin exceeded its price when last looked at.
    ratios: Vec<f64>,
    nodes: u32,
}

impl<'a> Pricing<'a> {
    fn new(problem: &'a Problem) -> Self {
        Self { problem, bins: problem.shortlist(), ratios: vec![f64::INFINITY; problem.bins.len()], nodes: FIRST_NODES }
    }

    /// Nothing was found: look at all bins, then try harder, as long as that makes sense.
    fn look_harder(&mut self) -> bool {
        if self.bins.len() < self.problem.bins.len() {
            self.bins = (0..self.problem.bins.len()).collect();
            return true;
        }
        self.nodes *= 8;
        self.nodes <= MOST_NODES
    }

    /// Loads worth more than their bin, best first. When all bins were looked at, also by how much any load could exceed
    /// its bin's price.
    fn round(&mut self, counts: &[u32], values: &[f64], steps: &mut Steps) -> (Vec<(f64, usize, Load)>, Option<f64>) {
        let mut order: Vec<usize> = self.bins.clone();
        order.sort_by(|a, b| self.ratios[*b].total_cmp(&self.ratios[*a]).then(a.cmp(b)));
        let mut found: Vec<(f64, usize, Load)> = Vec::new();
        let mut over: f64 = 1.0;
        for (turn, bin) in order.iter().copied().enumerate() {
            // The bins that were good last time usually are again; the others are asked when those have nothing.
            if (turn >= FIRST_BINS && !found.is_empty()) || steps.is_empty() {
                return (best_first(found), None);
            }
            let price = self.problem.bins[bin].price;
            let trifle = if self.nodes > FIRST_NODES { TRIFLE } else { 0.0 };
            let effort = Effort { floor: price * (1.0 + trifle), nodes: self.nodes };
            let best = best_load(self.problem, bin, values, counts, effort, steps);
            over = over.max(best.ceiling / price.max(1e-12));
            self.ratios[bin] = best.ceiling / price.max(1e-12);
            if best.value > price * (1.0 + 1e-7) {
                found.push((best.value / price.max(1e-12), bin, best.load));
            }
        }
        // A bound is about all bins.
        (best_first(found), (self.bins.len() == self.problem.bins.len()).then_some(over))
    }
}

fn best_first(mut found: Vec<(f64, usize, Load)>) -> Vec<(f64, usize, Load)> {
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    found
}

/// The bin that holds the item alone at the least price per piece.
fn alone(problem: &Problem, item: usize, count: u32) -> Option<Pattern> {
    let need = &problem.items[item].need;
    let each = |bin: usize| times_in(need, &problem.bins[bin].capacity, count);
    let usable = problem.items[item].bins.iter().filter(|bin| each(*bin) > 0);
    let per_piece = |bin: &usize| problem.bins[*bin].price / f64::from(each(*bin));
    let bin = usable.min_by(|a, b| per_piece(a).total_cmp(&per_piece(b)).then(a.cmp(b)))?;
    Some(Pattern { bin, load: vec![(item, each(bin))], price: problem.bins[bin].price })
}

/// The pattern without more of an item than there is, by row.
fn trimmed(load: &Load, counts: &[u32], row_of: &[usize]) -> Load {
    let some = load.iter().filter(|(item, _)| counts[*item] > 0);
    some.map(|(item, count)| (row_of[*item], (*count).min(counts[*item]))).collect()
}

/// Whole numbers: patterns are fixed as often as the programme uses them, then the rest is solved again, until it is so
/// small that filling does as well.
pub(crate) fn rounded(problem: &Problem, counts: &[u32], outcome: &Outcome, steps: &mut Steps) -> Option<Packing> {
    let mut left = counts.to_vec();
    let mut packing = Packing::new();
    let mut current = outcome.clone();
    while !current.amounts.is_empty() && !steps.is_empty() {
        let mut order: Vec<(f64, usize)> = current.amounts.iter().copied().zip(0..).collect();
        order.sort_by(|a, b| b.0.fract().total_cmp(&a.0.fract()).then(a.1.cmp(&b.1)));
        let mut fixed = 0;
        for (amount, index) in &order {
            for _ in 0..whole(amount.floor()) {
                fixed += fix(problem, &current.pool[*index], &mut left, &mut packing);
            }
        }
        // What is nearly a whole is made one; the surest of the others too, when there is nothing else to fix.
        for (turn, (amount, index)) in order.iter().enumerate() {
            if amount.fract() > 0.7 || (fixed == 0 && turn < 1 + order.len() / 10) {
                fixed += fix(problem, &current.pool[*index], &mut left, &mut packing);
            }
        }
        if fixed == 0 {
            break;
        }
        let rounds = Rounds { most: 3, enough: 0.0 };
        current = generate(problem, &left, current.pool, rounds, steps);
    }
    let mut values = outcome.values.clone();
    values.iter_mut().zip(&current.values).for_each(|(value, last)| *value = value.max(*last));
    top_up(problem, &mut packing, &mut left, steps);
    packing.extend(fill(problem, &values, &left, steps)?);
    Some(compact(problem, packing))
}

/// One more bin of the pattern, as far as there are items left for it; how many bins that makes.
fn fix(problem: &Problem, pattern: &Pattern, left: &mut [u32], packing: &mut Packing) -> usize {
    let load: Load = pattern
        .load
        .iter()
        .map(|(item, count)| (*item, (*count).min(left[*item])))
        .filter(|(_, count)| *count > 0)
        .collect();
    let whole_pattern = load == pattern.load;
    // A torn pattern is worth a bin only when most of it is there.
    let amount = |load: &[(usize, u32)]| {
        problem
            .need_of(load)
            .iter()
            .zip(&problem.bins[pattern.bin].capacity)
            .map(|(n, c)| n / c.max(1e-12))
            .fold(0.0, f64::max)
    };
    if load.is_empty() || (!whole_pattern && amount(&load) < 0.8 * amount(&pattern.load)) {
        return 0;
    }
    for (item, count) in &load {
        left[*item] -= count;
    }
    packing.push(right_sized(problem, Packed { bin: pattern.bin, load, times: 1 }));
    1
}

/// Equal loads together.
pub(crate) fn compact(problem: &Problem, packing: Packing) -> Packing {
    let mut all: Vec<Packed> =
        packing.into_iter().map(|one| right_sized(problem, Packed { load: merged(&one.load, &[]), ..one })).collect();
    all.sort_by(|a, b| b.bin.cmp(&a.bin).then_with(|| a.load.cmp(&b.load)));
    let mut compacted = Packing::new();
    for one in all {
        match compacted.last_mut() {
            Some(last) if last.bin == one.bin && last.load == one.load => last.times += one.times,
            _ => compacted.push(one),
        }
    }
    compacted
}
