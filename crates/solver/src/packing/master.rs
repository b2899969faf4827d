//! The master programme: how often each known pattern is used, so that everything is covered at the least cost.
//!
//! A revised simplex with a dense inverse: as many rows as items, and columns come along as they are found.

use std::collections::BTreeSet;

use super::{Load, Steps};

const EPSILON: f64 = 1e-9;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Pattern {
    pub(super) bin: usize,
    /// By row.
    pub(super) load: Load,
    pub(super) price: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variable {
    Pattern(usize),
    /// More than was asked for.
    Surplus(usize),
}

#[derive(Debug)]
pub(super) struct Master {
    demand: Vec<f64>,
    pub(super) patterns: Vec<Pattern>,
    known: BTreeSet<(usize, Load)>,
    basis: Vec<Variable>,
    inverse: Vec<Vec<f64>>,
    amounts: Vec<f64>,
    /// What one more of each item would cost.
    pub(super) duals: Vec<f64>,
    is_basic: Vec<bool>,
    surplus_is_basic: Vec<bool>,
}

impl Master {
    /// Starts from one pattern per row that holds that row's item alone.
    pub(super) fn new(demand: &[u32], alone: Vec<Pattern>) -> Self {
        let rows = demand.len();
        let unit = |row: usize| (0..rows).map(|column| f64::from(u8::from(row == column))).collect::<Vec<f64>>();
        let inverse: Vec<Vec<f64>> = (0..rows)
            .map(|row| {
                let each = f64::from(alone[row].load[0].1);
                unit(row).iter().map(|entry| entry / each).collect()
            })
            .collect();
        let demand: Vec<f64> = demand.iter().map(|count| f64::from(*count)).collect();
        let amounts = (0..rows).map(|row| demand[row] * inverse[row][row]).collect();
        let duals = (0..rows).map(|row| alone[row].price * inverse[row][row]).collect();
        Self {
            demand,
            basis: (0..rows).map(Variable::Pattern).collect(),
            inverse,
            amounts,
            duals,
            is_basic: vec![true; rows],
            surplus_is_basic: vec![false; rows],
            known: alone.iter().map(|one| (one.bin, one.load.clone())).collect(),
            patterns: alone,
        }
    }

    /// Whether it was new.
    pub(super) fn add(&mut self, pattern: Pattern) -> bool {
        let fresh = self.known.insert((pattern.bin, pattern.load.clone()));
        if fresh {
            self.patterns.push(pattern);
            self.is_basic.push(false);
        }
        fresh
    }

    pub(super) fn value_of(&self, load: &[(usize, u32)]) -> f64 {
        load.iter().map(|(row, count)| self.duals[*row] * f64::from(*count)).sum()
    }

    pub(super) fn cost(&self) -> f64 {
        self.demand.iter().zip(&self.duals).map(|(demand, dual)| demand * dual).sum()
    }

    /// Pivots until no known pattern would help; `false` when the steps ran out first.
    pub(super) fn optimize(&mut self, steps: &mut Steps) -> bool {
        let rows = self.demand.len();
        // Degenerate corners can go round in circles; nobody needs more pivots than this.
        for _ in 0..50 * (rows + 10) {
            // Long rows are quick work: eight of their entries make a step.
            if !steps.take(rows * rows / 8 + self.patterns.len()) {
                return false;
            }
            let Some((entering, gain)) = self.entering() else { return true };
            if !self.pivot(entering, gain) {
                return true;
            }
        }
        true
    }

    fn entering(&self) -> Option<(Variable, f64)> {
        let patterns =
            self.patterns.iter().enumerate().filter(|(index, _)| !self.is_basic[*index]).map(|(index, one)| {
                // In proportion to the price, so that large bins are not preferred for being large.
                let gain = self.value_of(&one.load) - one.price;
                (Variable::Pattern(index), gain, gain / one.price.max(EPSILON))
            });
        let surplus = (0..self.demand.len())
            .filter(|row| !self.surplus_is_basic[*row])
            .map(|row| (Variable::Surplus(row), -self.duals[row], -self.duals[row]));
        let better = patterns.chain(surplus).filter(|(_, _, rank)| *rank > EPSILON);
        let best = better.fold(None, |best: Option<(Variable, f64, f64)>, one| match best {
            Some(known) if known.2 >= one.2 => Some(known),
            _ => Some(one),
        });
        best.map(|(variable, gain, _)| (variable, gain))
    }

    fn column(&self, variable: Variable) -> Vec<f64> {
        match variable {
            Variable::Pattern(index) => {
                let load = &self.patterns[index].load;
                let entry = |row: &Vec<f64>| load.iter().map(|(item, count)| row[*item] * f64::from(*count)).sum();
                self.inverse.iter().map(entry).collect()
            }
            Variable::Surplus(item) => self.inverse.iter().map(|row| -row[item]).collect(),
        }
    }

    fn pivot(&mut self, entering: Variable, gain: f64) -> bool {
        let column = self.column(entering);
        let candidates = column.iter().enumerate().filter(|(_, entry)| **entry > EPSILON);
        let leaving = candidates.fold(None, |best: Option<(usize, f64)>, (row, entry)| {
            let ratio = self.amounts[row].max(0.0) / entry;
            match best {
                Some((known, least)) if ratio > least + 1e-12 || (ratio >= least && column[known] >= *entry) => best,
                _ => Some((row, ratio)),
            }
        });
        let Some((row, ratio)) = leaving else { return false };
        let pivot = column[row];
        let own: Vec<f64> = self.inverse[row].iter().map(|entry| entry / pivot).collect();
        self.duals.iter_mut().zip(&own).for_each(|(dual, entry)| *dual -= gain * entry);
        for (index, factor) in column.iter().enumerate().filter(|(index, factor)| *index != row && **factor != 0.0) {
            self.inverse[index].iter_mut().zip(&own).for_each(|(value, own)| *value -= factor * own);
            self.amounts[index] -= factor * ratio;
        }
        self.inverse[row] = own;
        self.amounts[row] = ratio;
        match self.basis[row] {
            Variable::Pattern(index) => self.is_basic[index] = false,
            Variable::Surplus(item) => self.surplus_is_basic[item] = false,
        }
        match entering {
            Variable::Pattern(index) => self.is_basic[index] = true,
            Variable::Surplus(item) => self.surplus_is_basic[item] = true,
        }
        self.basis[row] = entering;
        true
    }

    /// What a pattern costs beyond what its load is worth.
    pub(super) fn reduced(&self, pattern: &Pattern) -> f64 {
        pattern.price - self.value_of(&pattern.load)
    }

    /// Patterns in use, with how often.
    pub(super) fn solution(&self) -> Vec<(usize, f64)> {
        let used = self.basis.iter().zip(&self.amounts).filter_map(|(variable, amount)| match variable {
            Variable::Pattern(index) if *amount > EPSILON => Some((*index, *amount)),
            _ => None,
        });
        used.collect()
    }
}
