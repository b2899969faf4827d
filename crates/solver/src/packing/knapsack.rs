//! The most valuable load of one bin.

use super::ladder::Ladder;
use super::relaxation::{Choice, ceiling, optimum, worth};
use super::{Load, Problem, SLACK, Steps, times_in, whole};

/// What a search found.
#[derive(Debug, Clone)]
pub(crate) struct Best {
    pub(crate) value: f64,
    pub(crate) load: Load,
    /// No load of the bin is worth more.
    pub(crate) ceiling: f64,
}

/// How hard to look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Effort {
    /// Loads worth no more than this do not matter.
    pub(crate) floor: f64,
    /// How many partial loads are looked at.
    pub(crate) nodes: u32,
}

/// Searches for more partial loads than this are worth the work of better bounds.
const HARD: u32 = 400;
/// A load that could be worth this much more than it need be is not worth the work either.
const NEARLY: f64 = 1.003;
/// In how many dimensions whole items are looked at.
const LADDERS: usize = 2;

/// Fills the bin with what `values` makes most of, at most `counts` of each item.
pub(crate) fn best_load(
    problem: &Problem,
    bin: usize,
    values: &[f64],
    counts: &[u32],
    effort: Effort,
    steps: &mut Steps,
) -> Best {
    let capacity = &problem.bins[bin].capacity;
    let shares: Vec<f64> = capacity.iter().map(|amount| if *amount > 0.0 { 1.0 / amount } else { 0.0 }).collect();
    let usable = problem.holds[bin].iter().filter(|item| values[**item] > 0.0 && counts[**item] > 0);
    let mut choices: Vec<Choice> = usable
        .filter_map(|item| {
            let need = &problem.items[*item].need;
            let limit = times_in(need, capacity, counts[*item]);
            let need = need.iter().zip(&shares).map(|(need, share)| need * share).collect();
            (limit > 0).then_some(Choice { item: *item, value: values[*item], need, limit, taken: 0.0 })
        })
        .collect();
    let dimensions = capacity.len();
    steps.take(problem.holds[bin].len() * dimensions);
    let (prices, taken) = optimum(&choices, dimensions, steps);
    choices.iter_mut().zip(taken).for_each(|(choice, taken)| choice.taken = taken);
    let above = ceiling(&choices, &prices);
    if above <= effort.floor {
        return Best { value: 0.0, load: Load::new(), ceiling: above };
    }
    let keen = |choice: &Choice| choice.value / worth(&choice.need, &prices).max(1e-12);
    let bulk = |choice: &Choice| choice.need.iter().copied().fold(0.0, f64::max);
    // Around the best fractional load; and, where that finds nothing, the bulky ones first and the small ones after.
    let near = |choice: &Choice| if choice.taken >= 0.5 { 1e6 + bulk(choice) } else { keen(choice) };
    let orders: [&dyn Fn(&Choice) -> f64; 3] = [&near, &keen, &bulk];
    let mut best = Best { value: 0.0, load: Load::new(), ceiling: above };
    // A search passes over every item once on its way down.
    let effort = Effort { nodes: effort.nodes.min(steps.afford(choices.len() * 2)), ..effort };
    for rank in orders {
        choices.sort_by(|a, b| rank(b).total_cmp(&rank(a)).then(b.value.total_cmp(&a.value)).then(a.item.cmp(&b.item)));
        let mut search = Search::new(&choices, &prices, effort);
        if effort.nodes > HARD && best.ceiling > effort.floor * NEARLY {
            search.ladders = dearest(&prices).map(|axis| Ladder::new(&choices, &prices, axis, steps)).collect();
            let room = vec![1.0; dimensions];
            let sure = search.ladders.iter().map(|ladder| ladder.above(0, &room)).fold(best.ceiling, f64::min);
            best.ceiling = sure * (1.0 + SLACK);
            if sure <= effort.floor * (1.0 + SLACK) {
                return best;
            }
        }
        search.descend(0, 0, 0.0);
        steps.take(search.looked_at as usize * (dimensions + 2) + search.passed_over * 2 + choices.len() * 8);
        if search.best > best.value {
            let taken = choices.iter().zip(&search.best_counts).filter(|(_, count)| **count > 0);
            best.value = search.best;
            best.load = taken.map(|(choice, count)| (choice.item, *count)).collect();
            best.load.sort_unstable();
        }
        if search.looked_at <= effort.nodes {
            best.ceiling = (search.best.max(effort.floor) * (1.0 + SLACK)).min(best.ceiling);
            break;
        }
        if best.value > effort.floor && effort.floor > 0.0 {
            break;
        }
    }
    best
}

/// The dimensions whose room is worth most.
fn dearest(prices: &[f64]) -> impl Iterator<Item = usize> + use<> {
    let mut order: Vec<(f64, usize)> = prices.iter().copied().zip(0..).filter(|(price, _)| *price > 0.0).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    order.into_iter().take(LADDERS).map(|(_, axis)| axis)
}

/// Depth first, the keenest item first and as many of it as fit.
struct Search<'a> {
    choices: &'a [Choice],
    prices: &'a [f64],
    ladders: Vec<Ladder>,
    /// From each item on: what the rest could add beyond the worth of the room.
    rest: Vec<f64>,
    /// What an item takes from that worth.
    worths: Vec<f64>,
    effort: Effort,
    looked_at: u32,
    /// Items that did not fit.
    passed_over: usize,
    counts: Vec<u32>,
    /// The room left at each level, one level after the other.
    rooms: Vec<f64>,
    best: f64,
    best_counts: Vec<u32>,
}

impl<'a> Search<'a> {
    fn new(choices: &'a [Choice], prices: &'a [f64], effort: Effort) -> Self {
        let worths: Vec<f64> = choices.iter().map(|choice| worth(&choice.need, prices)).collect();
        let mut rest = vec![0.0; choices.len() + 1];
        for (index, choice) in choices.iter().enumerate().rev() {
            let extra = (choice.value - worths[index]).max(0.0);
            rest[index] = rest[index + 1] + f64::from(choice.limit) * extra;
        }
        let none = vec![0; choices.len()];
        Self {
            choices,
            prices,
            ladders: Vec::new(),
            rest,
            worths,
            effort,
            looked_at: 0,
            passed_over: 0,
            counts: none.clone(),
            rooms: vec![1.0; (choices.len() + 1) * prices.len()],
            best: 0.0,
            best_counts: none,
        }
    }

    /// `level` says where in `rooms` the room left is; items before `from` are decided.
    fn descend(&mut self, from: usize, level: usize, value: f64) {
        self.looked_at += 1;
        if value > self.best {
            self.best = value;
            self.best_counts.clone_from(&self.counts);
        }
        let width = self.prices.len();
        let here = level * width..(level + 1) * width;
        let room = &self.rooms[here.clone()];
        // Items that no longer fit are passed over without a level of their own.
        let fitting = (from..self.choices.len()).find(|index| times_in(&self.choices[*index].need, room, 1) > 0);
        self.passed_over += fitting.unwrap_or(self.choices.len()) - from;
        let Some(index) = fitting else { return };
        let (choices, own) = (self.choices, self.worths[index]);
        let choice = &choices[index];
        let most = times_in(&choice.need, room, choice.limit);
        let room_worth = worth(room, self.prices);
        // As many as the fractional load has, rounded down, then fewer and fewer, then more; of what it has not at all, as
        // many as fit.
        let start = if choice.taken >= 0.5 { whole(choice.taken).min(most) } else { most };
        for count in (0..=start).rev().chain(start + 1..=most) {
            // The first way down is the greedy load, which is found in any case.
            if self.looked_at > self.effort.nodes && self.best > 0.0 {
                return;
            }
            let amount = f64::from(count);
            let gained = value + choice.value * amount;
            let hope = gained + (room_worth - own * amount).max(0.0) + self.rest[index + 1];
            if hope <= self.best.max(self.effort.floor) * (1.0 + SLACK) && self.best > 0.0 {
                continue;
            }
            for axis in 0..width {
                self.rooms[here.end + axis] = self.rooms[here.start + axis] - choice.need[axis] * amount;
            }
            if !self.ladders.is_empty() && self.best > 0.0 {
                let room = &self.rooms[here.end..here.end + width];
                let above =
                    self.ladders.iter().map(|ladder| ladder.above(index + 1, room)).fold(f64::INFINITY, f64::min);
                if gained + above <= self.best.max(self.effort.floor) * (1.0 + SLACK) {
                    continue;
                }
            }
            self.counts[index] = count;
            self.descend(index + 1, level + 1, gained);
            self.counts[index] = 0;
        }
    }
}
