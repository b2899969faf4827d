//! Bin-centric filling: which bin, filled with what is left, gives most for its price?

use super::knapsack::{Effort, best_load};
use super::{Load, Packed, Packing, Problem, Steps, times_in};

/// Partial loads looked at for each bin: a little more than greedy.
const NODES: u32 = 40;

/// Packs everything, one pattern after the other, each as often as it goes. `values` says what an item is worth; items that
/// no bin holds are left out. `None` when the steps ran out.
pub(crate) fn fill(problem: &Problem, values: &[f64], counts: &[u32], steps: &mut Steps) -> Option<Packing> {
    let mut left = counts.to_vec();
    let mut packing = Packing::new();
    let bins = problem.shortlist();
    // A load that was best for a bin stays so until an item of it runs short, and then the bin can hardly get better: the
    // best bins are asked again, the others when it is their turn.
    let mut known: Vec<Option<(f64, Load)>> = vec![None; problem.bins.len()];
    let mut fresh = vec![false; problem.bins.len()];
    loop {
        let ratio = |bin: usize, known: &[Option<(f64, Load)>]| {
            known[bin].as_ref().map_or(f64::INFINITY, |(value, _)| value / problem.bins[bin].price.max(1e-9))
        };
        let bin = loop {
            let best =
                bins.iter().copied().max_by(|a, b| ratio(*a, &known).total_cmp(&ratio(*b, &known)).then(b.cmp(a)));
            let Some(bin) = best else { return Some(packing) };
            if fresh[bin] {
                break bin;
            }
            let effort = Effort { floor: 0.0, nodes: NODES };
            let found = best_load(problem, bin, values, &left, effort, steps);
            known[bin] = Some((found.value, found.load));
            fresh[bin] = true;
        };
        if steps.is_empty() {
            return None;
        }
        let load = known[bin].as_ref().map(|(_, load)| load.clone()).unwrap_or_default();
        let times = load.iter().map(|(item, count)| left[*item] / count).min().unwrap_or(0);
        for (item, count) in &load {
            left[*item] -= count * times;
        }
        if times == 0 {
            return Some(packing);
        }
        for (bin, fresh) in fresh.iter_mut().enumerate() {
            let short = |load: &Load| load.iter().any(|(item, count)| left[*item] < *count);
            *fresh &= known[bin].as_ref().is_some_and(|(_, load)| !short(load));
        }
        packing.push(right_sized(problem, Packed { bin, load, times }));
    }
}

/// The same load in the cheapest bin that holds it.
pub(crate) fn right_sized(problem: &Problem, packed: Packed) -> Packed {
    let bin = problem.cheapest(&packed.load).unwrap_or(packed.bin);
    Packed { bin, ..packed }
}

/// What an item is worth when room has these prices. With `bulk` above zero large items count for more than their room:
/// they are placed first, and small ones fill what is left.
pub(crate) fn values_of(problem: &Problem, prices: &[f64], bulk: f64) -> Vec<f64> {
    let share = |need: &[f64]| -> f64 {
        let largest = problem.bins.iter().filter(|bin| super::fits(need, &bin.capacity));
        let part =
            |bin: &super::Bin| need.iter().zip(&bin.capacity).fold(0.0, |a: f64, (n, c)| a.max(n / c.max(1e-12)));
        largest.map(part).fold(1.0, f64::min)
    };
    let worth = |need: &[f64]| -> f64 { need.iter().zip(prices).map(|(need, price)| need * price).sum() };
    problem.items.iter().map(|item| worth(&item.need) * (1.0 + bulk * share(&item.need))).collect()
}

/// Puts what is in `left` into the room that bins of the packing still have; `left` keeps the rest.
pub(crate) fn top_up(problem: &Problem, packing: &mut Packing, left: &mut [u32], steps: &mut Steps) {
    let mut order: Vec<usize> = (0..left.len()).filter(|item| left[*item] > 0).collect();
    let size = |item: usize| {
        problem.items[item]
            .need
            .iter()
            .zip(&problem.bins[0].capacity)
            .map(|(n, c)| n / c.max(1e-12))
            .fold(0.0, f64::max)
    };
    order.sort_by(|a, b| size(*b).total_cmp(&size(*a)).then(a.cmp(b)));
    let mut fresh = Packing::new();
    for packed in packing.iter_mut() {
        let capacity = &problem.bins[packed.bin].capacity;
        let mut room: Vec<f64> = capacity.clone();
        room.iter_mut().zip(problem.need_of(&packed.load)).for_each(|(room, need)| *room -= need);
        while packed.times > 0 {
            steps.take(order.len() * room.len());
            let mut added = Load::new();
            let mut room = room.clone();
            for item in order.iter().copied() {
                if left[item] == 0 || !problem.items[item].bins.contains(packed.bin) {
                    continue;
                }
                let need = &problem.items[item].need;
                let count = times_in(need, &room, left[item]);
                if count > 0 {
                    left[item] -= count;
                    room.iter_mut().zip(need).for_each(|(room, need)| *room -= need * f64::from(count));
                    added.push((item, count));
                }
            }
            if added.is_empty() {
                break;
            }
            packed.times -= 1;
            fresh.push(Packed { bin: packed.bin, load: merged(&packed.load, &added), times: 1 });
        }
    }
    packing.retain(|packed| packed.times > 0);
    packing.extend(fresh);
}

/// Two loads in one bin.
pub(crate) fn merged(a: &[(usize, u32)], b: &[(usize, u32)]) -> Load {
    let mut all: Load = a.to_vec();
    for (item, count) in b {
        match all.iter_mut().find(|(known, _)| known == item) {
            Some((_, known)) => *known += count,
            None => all.push((*item, *count)),
        }
    }
    all.sort_unstable();
    all
}
