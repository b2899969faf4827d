//! Packing without Kubernetes: items of a few sizes into bins of many types and prices.
//!
//! An item is a demand class: so many pods that need the same and may use the same bins. A bin is a column of the
//! catalogue: what a pool's instance type leaves for pods, and what its cheapest usable offering costs. Whatever else a
//! rule says about pods is not here; plans are replayed by a pass, which refuses what breaks a rule.
//!
//! [`fluid`] and [`patterns`] bound the cost from below, [`fill`], [`patterns`] and [`search`] find packings. Everything is
//! counted in steps and nothing reads a clock, so that equal problems get equal answers on every machine.

pub(crate) mod bits;
pub(crate) mod fill;
pub(crate) mod fluid;
pub(crate) mod join;
pub(crate) mod knapsack;
mod ladder;
mod master;
pub(crate) mod patterns;
mod relaxation;
pub(crate) mod search;

#[cfg(test)]
mod tests;

use self::bits::Bits;

/// With more bins than this only some of each size are filled.
const MOST_BINS: usize = 100;
/// How much dearer the next size is then.
const STEP: f64 = 1.12;
/// Amounts are sums of floats; a node is not too small for what rounding makes of them.
pub(crate) const SLACK: f64 = 1e-9;

/// Pods that need the same and may use the same bins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    /// By dimension, none negative.
    pub(crate) need: Vec<f64>,
    pub(crate) count: u32,
    /// The bins that can hold one.
    pub(crate) bins: Bits,
}

/// A bin to be had as often as one likes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bin {
    pub(crate) capacity: Vec<f64>,
    /// Per hour; finite and not negative.
    pub(crate) price: f64,
}

/// Items and bins; bins are ordered by price.
#[derive(Debug, Clone, Default)]
pub(crate) struct Problem {
    pub(crate) items: Vec<Item>,
    pub(crate) bins: Vec<Bin>,
    /// For each bin, the items that it can hold.
    pub(crate) holds: Vec<Vec<usize>>,
}

/// What is left of a budget. One step is about one multiplication.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steps {
    left: u64,
    used: u64,
}

impl Steps {
    pub(crate) fn new(left: u64) -> Self {
        Self { left, used: 0 }
    }

    /// Whether there was something left for the work.
    pub(crate) fn take(&mut self, steps: usize) -> bool {
        let steps = steps as u64;
        self.used += steps;
        let enough = self.left > 0;
        self.left = self.left.saturating_sub(steps);
        enough
    }

    pub(crate) fn used(&self) -> u64 {
        self.used
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// How often there is enough for work of this many steps.
    pub(crate) fn afford(&self, steps: usize) -> u32 {
        u32::try_from(self.left / (steps as u64).max(1)).unwrap_or(u32::MAX)
    }

    /// Part of what is left, for work that must leave something to those after it.
    pub(crate) fn share(&self, percent: u64) -> Self {
        Self::new(self.left / 100 * percent)
    }

    pub(crate) fn spend(&mut self, other: Self) {
        self.used += other.used;
        self.left = self.left.saturating_sub(other.used);
    }
}

/// Items in one bin: what and how many, by item.
pub(crate) type Load = Vec<(usize, u32)>;

/// The same load in several bins of one type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Packed {
    pub(crate) bin: usize,
    pub(crate) load: Load,
    pub(crate) times: u32,
}

pub(crate) type Packing = Vec<Packed>;

impl Problem {
    /// Bins that no item can use, and bins that another replaces at no higher price, are left out. Returns which of the
    /// given bins were kept, in the order of the new ones.
    pub(crate) fn new(mut items: Vec<Item>, bins: &[Bin]) -> (Self, Vec<usize>) {
        let mut members: Vec<Bits> = vec![Bits::new(items.len()); bins.len()];
        for (index, item) in items.iter().enumerate() {
            item.bins.iter().for_each(|bin| members[bin].insert(index));
        }
        let mut order: Vec<usize> = (0..bins.len()).filter(|bin| !members[*bin].is_empty()).collect();
        order.sort_by(|a, b| bins[*a].price.total_cmp(&bins[*b].price).then(a.cmp(b)));
        let mut kept: Vec<usize> = Vec::new();
        for candidate in order {
            let replaces = |other: &usize| {
                let larger = bins[*other].capacity.iter().zip(&bins[candidate].capacity).all(|(a, b)| a >= b);
                larger && members[candidate].is_subset(&members[*other])
            };
            if !kept.iter().any(replaces) {
                kept.push(candidate);
            }
        }
        for item in &mut items {
            let old = std::mem::replace(&mut item.bins, Bits::new(kept.len()));
            kept.iter().enumerate().filter(|(_, bin)| old.contains(**bin)).for_each(|(new, _)| item.bins.insert(new));
        }
        let holds = kept.iter().map(|bin| members[*bin].iter().collect()).collect();
        let bins = kept.iter().map(|bin| bins[*bin].clone()).collect();
        (Self { items, bins, holds }, kept)
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> Vec<u32> {
        self.items.iter().map(|item| item.count).collect()
    }

    /// Enough bins to choose from: of very many, some of each size. Loads move to the cheapest bin of all in the end.
    pub(crate) fn shortlist(&self) -> Vec<usize> {
        if self.bins.len() <= MOST_BINS {
            return (0..self.bins.len()).collect();
        }
        let mut chosen = Bits::new(self.bins.len());
        let mut last = 0.0;
        for (index, bin) in self.bins.iter().enumerate() {
            if bin.price >= last * STEP {
                chosen.insert(index);
                last = bin.price;
            }
        }
        // Everybody can use one of them.
        for item in &self.items {
            let mut usable = item.bins.clone();
            usable.intersect(&chosen);
            if usable.is_empty() {
                item.bins.iter().take(1).for_each(|bin| chosen.insert(bin));
            }
        }
        chosen.iter().collect()
    }

    pub(crate) fn dimensions(&self) -> usize {
        self.bins.first().map_or(0, |bin| bin.capacity.len())
    }

    pub(crate) fn need_of(&self, load: &[(usize, u32)]) -> Vec<f64> {
        let mut total = vec![0.0; self.dimensions()];
        for (item, count) in load {
            for (sum, need) in total.iter_mut().zip(&self.items[*item].need) {
                *sum += need * f64::from(*count);
            }
        }
        total
    }

    /// The cheapest bin that holds the load.
    pub(crate) fn cheapest(&self, load: &[(usize, u32)]) -> Option<usize> {
        let need = self.need_of(load);
        let mut usable = self.items[load.first()?.0].bins.clone();
        for (item, _) in load {
            usable.intersect(&self.items[*item].bins);
        }
        usable.iter().find(|bin| fits(&need, &self.bins[*bin].capacity))
    }

    pub(crate) fn cost(&self, packing: &[Packed]) -> f64 {
        packing.iter().map(|packed| self.bins[packed.bin].price * f64::from(packed.times)).sum()
    }
}

pub(crate) fn fits(need: &[f64], capacity: &[f64]) -> bool {
    need.iter().zip(capacity).all(|(need, capacity)| *need <= capacity + capacity.abs() * SLACK)
}

/// How often `need` goes into `room`, at most `limit`.
pub(crate) fn times_in(need: &[f64], room: &[f64], limit: u32) -> u32 {
    need.iter().zip(room).filter(|(need, _)| **need > 0.0).fold(limit, |times, (need, room)| {
        let fitting = (room / need + SLACK).floor();
        times.min(whole(fitting))
    })
}

/// A float that holds a count; what is negative counts as none.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub(crate) fn whole(count: f64) -> u32 {
    count.max(0.0) as u32
}
