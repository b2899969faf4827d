//! How much pods on one node can be worth at most.
//!
//! Prices for room make every pod cost something; what the room is worth then, and what pods are worth beyond it, is an
//! upper bound whatever the prices. They are improved one at a time, and what is left open is settled by trying.

use std::cmp::Reverse;

pub(super) struct Kind {
    pub(super) worth: f64,
    pub(super) need: Vec<f64>,
    pub(super) count: u32,
}

pub(super) struct Room {
    pub(super) capacity: Vec<f64>,
    pub(super) price: f64,
}

/// Steps downhill in search of prices.
const DESCENTS: usize = 400;
/// Partial loads looked at before the bound stays as it is.
const MOST_TRIES: u32 = 300_000;

/// Sorts as numbers do.
#[derive(PartialEq)]
struct Ordered(f64);

impl Eq for Ordered {}
impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Ordered {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

/// What fits: need by share of the room.
struct Fitting {
    worth: f64,
    share: Vec<f64>,
    most: u32,
}

/// No load is worth more. Below `enough` nobody asks how much less it is.
pub(super) fn most(kinds: &[&Kind], room: &Room, start: &[f64], enough: f64) -> f64 {
    let mut fitting: Vec<Fitting> = kinds.iter().filter_map(|kind| fit(kind, room)).collect();
    let mut prices: Vec<f64> = start.iter().zip(&room.capacity).map(|(price, amount)| price * amount).collect();
    let mut best = above(&fitting, &prices);
    for sweep in 0..6 {
        for axis in 0..prices.len() {
            improve(&fitting, &mut prices, axis);
        }
        let now = above(&fitting, &prices);
        let gained = best - now;
        best = best.min(now);
        if best <= enough || (sweep > 0 && gained < best * 1e-7) {
            break;
        }
    }
    if best > enough {
        (best, prices) = descend(&fitting, prices, best, enough);
    }
    if best <= enough * (1.0 + 1e-9) {
        return best;
    }
    let cost = |one: &Fitting| one.share.iter().zip(&prices).map(|(share, price)| share * price).sum::<f64>();
    fitting.sort_by_cached_key(|one| Reverse(Ordered(one.worth / cost(one).max(1e-12))));
    // What all from one on could add beyond the worth of the room.
    let mut beyond = vec![0.0; fitting.len() + 1];
    for (at, one) in fitting.iter().enumerate().rev() {
        beyond[at] = beyond[at + 1] + f64::from(one.most) * (one.worth - cost(one)).max(0.0);
    }
    let mut tries = Tries { fitting: &fitting, prices: &prices, beyond, left: MOST_TRIES, best: enough };
    tries.go(0, &vec![1.0; prices.len()], 0.0);
    if tries.left > 0 { tries.best.min(best) } else { best }
}

fn fit(kind: &Kind, room: &Room) -> Option<Fitting> {
    let mut most = kind.count;
    for (need, amount) in kind.need.iter().zip(&room.capacity).filter(|(need, _)| **need > 0.0) {
        most = most.min(times(*amount, *need));
    }
    let share = |(need, amount): (&f64, &f64)| if *amount > 0.0 { need / amount } else { 0.0 };
    let share = kind.need.iter().zip(&room.capacity).map(share).collect();
    (most > 0 && kind.worth > 0.0).then_some(Fitting { worth: kind.worth, share, most })
}

/// How often, with room for what rounding does.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
fn times(amount: f64, need: f64) -> u32 {
    (amount / need + 1e-9).max(0.0).floor() as u32
}

fn above(fitting: &[Fitting], prices: &[f64]) -> f64 {
    let extra = |one: &Fitting| {
        let cost: f64 = one.share.iter().zip(prices).map(|(share, price)| share * price).sum();
        f64::from(one.most) * (one.worth - cost).max(0.0)
    };
    prices.iter().sum::<f64>() + fitting.iter().map(extra).sum::<f64>()
}

/// All prices at once, downhill: each step as long as the distance to the goal suggests.
fn descend(fitting: &[Fitting], mut prices: Vec<f64>, mut best: f64, goal: f64) -> (f64, Vec<f64>) {
    let mut kept = prices.clone();
    let mut reach = 1.0;
    for turn in 0..DESCENTS {
        let mut slope = vec![1.0; prices.len()];
        for one in fitting {
            let cost: f64 = one.share.iter().zip(&prices).map(|(share, price)| share * price).sum();
            if one.worth > cost {
                slope.iter_mut().zip(&one.share).for_each(|(slope, share)| *slope -= share * f64::from(one.most));
            }
        }
        // Prices that are nothing and would be less stay what they are.
        slope
            .iter_mut()
            .zip(&prices)
            .filter(|(slope, price)| **slope > 0.0 && **price <= 0.0)
            .for_each(|(slope, _)| *slope = 0.0);
        let steep: f64 = slope.iter().map(|slope| slope * slope).sum();
        if steep <= 1e-18 {
            break;
        }
        let now = above(fitting, &prices);
        let step = reach * (now - goal).max(now * 1e-5) / steep;
        prices.iter_mut().zip(&slope).for_each(|(price, slope)| *price = (*price - step * slope).max(0.0));
        let next = above(fitting, &prices);
        if next < best {
            best = next;
            kept.clone_from(&prices);
        }
        if best <= goal {
            break;
        }
        if turn % 20 == 19 {
            reach *= 0.7;
            prices.clone_from(&kept);
        }
    }
    (best, kept)
}

/// The best price of one axis while the others stay: where as much is asked for as there is.
fn improve(fitting: &[Fitting], prices: &mut [f64], axis: usize) {
    let mut turns: Vec<(f64, f64)> = Vec::new();
    for one in fitting.iter().filter(|one| one.share[axis] > 0.0) {
        let others: f64 = one.share.iter().zip(&*prices).map(|(share, price)| share * price).sum();
        let rest = one.worth - (others - one.share[axis] * prices[axis]);
        turns.push((rest / one.share[axis], one.share[axis] * f64::from(one.most)));
    }
    turns.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut asked = 0.0;
    prices[axis] = 0.0;
    for (price, share) in turns {
        asked += share;
        if asked >= 1.0 {
            prices[axis] = price.max(0.0);
            return;
        }
    }
}

struct Tries<'a> {
    fitting: &'a [Fitting],
    prices: &'a [f64],
    beyond: Vec<f64>,
    left: u32,
    best: f64,
}

impl Tries<'_> {
    fn go(&mut self, at: usize, room: &[f64], worth: f64) {
        self.left = self.left.saturating_sub(1);
        self.best = self.best.max(worth);
        if at == self.fitting.len() || self.left == 0 {
            return;
        }
        let one = &self.fitting[at];
        let fits = |(room, share): (&f64, &f64)| if *share > 0.0 { times(room.max(0.0), *share) } else { u32::MAX };
        let most = room.iter().zip(&one.share).map(fits).min().unwrap_or(u32::MAX).min(one.most);
        for count in (0..=most).rev() {
            let amount = f64::from(count);
            let left: Vec<f64> = room.iter().zip(&one.share).map(|(room, share)| room - share * amount).collect();
            let value: f64 = left.iter().zip(self.prices).map(|(room, price)| room.max(0.0) * price).sum();
            let hope = worth + one.worth * amount + value + self.beyond[at + 1];
            if hope > self.best * (1.0 + 1e-9) {
                self.go(at + 1, &left, worth + one.worth * amount);
            }
            if self.left == 0 {
                return;
            }
        }
    }
}
