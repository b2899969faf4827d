//! Small problems against brute force, and the two workloads whose optimum is known.

use proptest::prelude::*;

use super::bits::Bits;
use super::knapsack::{Effort, best_load};
use super::*;

fn problem(items: &[(&[f64], u32)], bins: &[(&[f64], f64)]) -> Problem {
    let items = items.iter().map(|(need, count)| {
        let mut usable = Bits::new(bins.len());
        let holding = bins.iter().enumerate().filter(|(_, (capacity, _))| fits(need, capacity));
        holding.for_each(|(index, _)| usable.insert(index));
        Item { need: need.to_vec(), count: *count, bins: usable }
    });
    let items = items.collect();
    Problem::new(
        items,
        &bins.iter().map(|(capacity, price)| Bin { capacity: capacity.to_vec(), price: *price }).collect::<Vec<_>>(),
    )
    .0
}

/// Pods one by one, every way to put them together.
fn optimum(problem: &Problem) -> f64 {
    let pods: Vec<usize> =
        problem.items.iter().enumerate().flat_map(|(i, item)| vec![i; item.count as usize]).collect();
    let mut best = vec![f64::INFINITY; 1 << pods.len()];
    best[0] = 0.0;
    let load_of = |set: usize| {
        let mut load = Load::new();
        for (_, item) in pods.iter().enumerate().filter(|(index, _)| set >> index & 1 == 1) {
            load = fill::merged(&load, &[(*item, 1)]);
        }
        load
    };
    let prices: Vec<f64> = (0..best.len())
        .map(|set| problem.cheapest(&load_of(set)).map_or(f64::INFINITY, |bin| problem.bins[bin].price))
        .collect();
    for set in 1..best.len() {
        let mut part = set;
        while part > 0 {
            best[set] = best[set].min(best[set & !part] + prices[part]);
            part = (part - 1) & set;
        }
    }
    best[best.len() - 1]
}

fn assert_packs_all(problem: &Problem, packing: &Packing) {
    let mut seen = vec![0; problem.items.len()];
    for packed in packing {
        assert!(fits(&problem.need_of(&packed.load), &problem.bins[packed.bin].capacity), "{packed:?}");
        for (item, count) in &packed.load {
            assert!(problem.items[*item].bins.contains(packed.bin), "{packed:?}");
            seen[*item] += count * packed.times;
        }
    }
    assert_eq!(seen, problem.counts());
}

fn fluid_bound(problem: &Problem, steps: &mut Steps) -> f64 {
    let prices = fluid::dual_prices(problem, &problem.counts(), steps);
    let values = fill::values_of(problem, &prices, 0.0);
    values.iter().zip(&problem.items).map(|(value, item)| value * f64::from(item.count)).sum()
}

/// The KWOK catalogue below 32 CPU, in thousandths of a CPU, MiB and pods.
fn kwok() -> Vec<([f64; 3], f64)> {
    let shapes = [1.0, 2.0, 4.0, 8.0, 16.0].into_iter().flat_map(|cpu| [2.0, 4.0, 8.0].map(|ratio| (cpu, ratio)));
    let bin = |(cpu, ratio): (f64, f64)| {
        let memory = cpu * ratio * 1024.0;
        let price = 0.025 * cpu + 0.001 * memory * 1_048_576.0 / 1e9;
        ([cpu * 1000.0 - 100.0, memory - 10.0, 16.0 * cpu], price)
    };
    shapes.map(bin).collect()
}

/// Pods of half a node: the fluid bound is far off, the pattern bound is not.
#[test]
fn patterns_see_what_fluid_does_not() {
    let bins = kwok();
    let bins: Vec<(&[f64], f64)> = bins.iter().map(|(capacity, price)| (&capacity[..], *price)).collect();
    let problem = problem(&[(&[900.0, 3100.0, 1.0], 500), (&[3500.0, 28.0 * 1024.0, 1.0], 500)], &bins);
    let mut steps = Steps::new(10_000_000);
    let fluid = fluid_bound(&problem, &mut steps);
    assert!((fluid - 72.005).abs() < 0.001, "{fluid}");
    let counts = problem.counts();
    let outcome = patterns::solve(&problem, &counts, &[], fluid, &mut steps);
    assert!((outcome.bound - 74.073).abs() < 0.001, "{}", outcome.bound);
    let packing = patterns::rounded(&problem, &counts, &outcome, &mut steps).unwrap();
    assert_packs_all(&problem, &packing);
    assert!(problem.cost(&packing) < 74.1, "{}", problem.cost(&packing));
}

/// Bins that another replaces go; the others are kept in the order of their price.
#[test]
fn dominated_bins_go() {
    let mut narrow = Bits::new(4);
    for bin in [0, 1, 2] {
        narrow.insert(bin);
    }
    let mut picky = Bits::new(4);
    picky.insert(2);
    let items = vec![Item { need: vec![1.0], count: 1, bins: narrow }, Item { need: vec![1.0], count: 1, bins: picky }];
    let bin = |size: f64, price: f64| Bin { capacity: vec![size], price };
    // The second is smaller than the first and dearer, the third too, but somebody can use nothing else; the fourth holds nobody.
    let (problem, kept) = Problem::new(items, &[bin(4.0, 1.0), bin(3.0, 2.0), bin(2.0, 1.5), bin(9.0, 0.1)]);
    assert_eq!(kept, [0, 2]);
    assert_eq!(problem.holds, [vec![0], vec![0, 1]]);
    assert_eq!(problem.cheapest(&[(0, 1), (1, 1)]), Some(1));
    assert_eq!(problem.cheapest(&[(0, 2), (1, 1)]), None);
}

/// Without steps there is no packing and no bound, but no harm either.
#[test]
fn out_of_steps() {
    let problem = problem(&[(&[1.0], 3)], &[(&[2.0], 1.0)]);
    let mut none = Steps::new(0);
    assert_eq!(fill::fill(&problem, &[1.0], &[3], &mut none), None);
    assert!(patterns::solve(&problem, &[3], &[], 0.0, &mut none).bound <= 2.0);
}

/// Where prices follow sizes, small bins that cost as much as a large one become that one, as far as a rule about sharing allows.
#[test]
fn small_bins_are_joined() {
    // The second dimension says that no two of the second item may share a bin.
    let bins: [(&[f64], f64); 3] = [(&[1.0, 1.0], 1.0), (&[2.0, 1.0], 2.0), (&[4.0, 1.0], 4.0)];
    let problem = problem(&[(&[1.0, 0.0], 6), (&[1.0, 1.0], 2)], &bins);
    let one = |item, times| Packed { bin: 0, load: vec![(item, 1)], times };
    let joined = |steps| join::joined(&problem, vec![one(0, 6), one(1, 2)], &mut Steps::new(steps));
    let packing = joined(100_000);
    assert_packs_all(&problem, &packing);
    assert_eq!(packing, [Packed { bin: 2, load: vec![(0, 3), (1, 1)], times: 2 }]);
    let untouched = joined(0);
    assert_eq!(untouched.iter().map(|packed| packed.times).sum::<u32>(), 8, "out of steps, it stays as it is");
}

fn any_problem() -> impl Strategy<Value = Problem> {
    let need = (1..8_u8, 1..8_u8);
    let items = prop::collection::vec((need, 1..4_u32, 1..8_u8), 1..4);
    let bins = prop::collection::vec((2..14_u8, 2..14_u8, 1..40_u8), 1..4);
    (items, bins).prop_map(|(items, mut bins)| {
        // One that holds everybody, so that everything can be packed.
        bins.push((14, 14, 60));
        let capacity = |bin: &(u8, u8, u8)| vec![f64::from(bin.0), f64::from(bin.1)];
        let item = |((a, b), count, allowed): &((u8, u8), u32, u8)| {
            let need = vec![f64::from(*a), f64::from(*b)];
            let mut usable = Bits::new(bins.len());
            for (index, bin) in bins.iter().enumerate() {
                let may = index + 1 == bins.len() || allowed >> index & 1 == 1;
                if may && fits(&need, &capacity(bin)) {
                    usable.insert(index);
                }
            }
            Item { need, count: *count, bins: usable }
        };
        let items: Vec<Item> = items.iter().map(item).collect();
        let bins =
            bins.iter().map(|bin| Bin { capacity: capacity(bin), price: f64::from(bin.2) / 10.0 }).collect::<Vec<_>>();
        Problem::new(items, &bins).0
    })
}

proptest! {
    /// Bounds are below the optimum, packings are valid and not below it.
    #[test]
    fn bounds_and_packings_enclose_the_optimum(problem in any_problem()) {
        prop_assume!(problem.counts().iter().sum::<u32>() <= 8);
        let best = optimum(&problem);
        let mut steps = Steps::new(5_000_000);
        let fluid = fluid_bound(&problem, &mut steps);
        prop_assert!(fluid <= best * (1.0 + 1e-9), "fluid {} of {}", fluid, best);
        let counts = problem.counts();
        let outcome = patterns::solve(&problem, &counts, &[], fluid, &mut steps);
        prop_assert!(outcome.bound <= best * (1.0 + 1e-9), "pattern {} of {}", outcome.bound, best);
        let prices = fluid::dual_prices(&problem, &counts, &mut steps);
        let values = fill::values_of(&problem, &prices, 0.3);
        let filled = fill::fill(&problem, &values, &counts, &mut steps).unwrap();
        let rounded = patterns::rounded(&problem, &counts, &outcome, &mut steps).unwrap();
        let searched = search::improved(&problem, &values, filled.clone(), &mut steps);
        let joined = join::joined(&problem, searched.clone(), &mut steps);
        let bins = |packing: &Packing| packing.iter().map(|packed| packed.times).sum::<u32>();
        prop_assert!(bins(&joined) <= bins(&searched));
        prop_assert!(problem.cost(&joined) <= problem.cost(&searched) * (1.0 + 1e-9));
        for packing in [&filled, &rounded, &searched, &joined] {
            assert_packs_all(&problem, packing);
            prop_assert!(problem.cost(packing) >= best * (1.0 - 1e-9));
        }
        prop_assert!(problem.cost(&searched) <= problem.cost(&filled) * (1.0 + 1e-9));
    }

    /// The search for the best load finds it, or says how much better it could be.
    #[test]
    fn knapsacks(problem in any_problem(), values in prop::collection::vec(0..20_u8, 4), nodes in 1..200_u32) {
        let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
        let counts = problem.counts();
        for bin in 0..problem.bins.len() {
            let mut best: f64 = 0.0;
            let limits: Vec<u32> = counts.iter().map(|count| count + 1).collect();
            for number in 0..limits.iter().product::<u32>() {
                let mut rest = number;
                let digit = |limit: &u32| {
                    let digit = rest % limit;
                    rest /= limit;
                    digit
                };
                let load: Load = limits.iter().map(digit).enumerate().filter(|(_, count)| *count > 0).collect();
                let usable = load.iter().all(|(item, _)| problem.items[*item].bins.contains(bin));
                if usable && fits(&problem.need_of(&load), &problem.bins[bin].capacity) {
                    best = best.max(load.iter().map(|(item, count)| values[*item] * f64::from(*count)).sum());
                }
            }
            let mut steps = Steps::new(1_000_000);
            let found = best_load(&problem, bin, &values, &counts, Effort { floor: 0.0, nodes }, &mut steps);
            prop_assert!(found.value <= best + 1e-9 && best <= found.ceiling + 1e-6, "{:?} {}", found, best);
            let sure = best_load(&problem, bin, &values, &counts, Effort { floor: 0.0, nodes: 1_000_000 }, &mut steps);
            prop_assert!((sure.value - best).abs() < 1e-9, "{:?} {}", sure, best);
        }
    }
}
