//! The best fractional load of one bin: a linear programme with a row per dimension and a bound per item.

use super::Steps;

const EPSILON: f64 = 1e-10;

/// An item as one bin sees it.
#[derive(Debug, Clone)]
pub(super) struct Choice {
    pub(super) item: usize,
    pub(super) value: f64,
    /// In shares of the bin.
    pub(super) need: Vec<f64>,
    pub(super) limit: u32,
    /// How many the best fractional load has.
    pub(super) taken: f64,
}

/// The optimum: prices of the dimensions, what the bin's room is worth, and how much is taken of each item. Whatever the
/// prices are, as long as none is negative, [`ceiling`] is true.
pub(super) fn optimum(choices: &[Choice], dimensions: usize, steps: &mut Steps) -> (Vec<f64>, Vec<f64>) {
    let mut simplex = Simplex::new(choices, dimensions);
    simplex.begin_full();
    for _ in 0..4 * (choices.len() + dimensions) {
        if !steps.take((choices.len() + dimensions) * dimensions) || !simplex.step() {
            break;
        }
    }
    (simplex.prices().into_iter().map(|price| price.max(0.0)).collect(), simplex.taken())
}

pub(super) fn worth(need: &[f64], prices: &[f64]) -> f64 {
    need.iter().zip(prices).map(|(need, price)| need * price).sum()
}

/// No load of the bin is worth more, by weak duality.
pub(super) fn ceiling(choices: &[Choice], prices: &[f64]) -> f64 {
    let extra = |choice: &Choice| f64::from(choice.limit) * (choice.value - worth(&choice.need, prices)).max(0.0);
    prices.iter().sum::<f64>() + choices.iter().map(extra).sum::<f64>()
}

/// A row's variable: an item, or what is left of the dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variable {
    Item(usize),
    Left(usize),
}

struct Simplex<'a> {
    choices: &'a [Choice],
    basis: Vec<Variable>,
    /// The basis, inverted, by rows.
    inverse: Vec<Vec<f64>>,
    amounts: Vec<f64>,
    /// Items outside the basis that are taken to their limit.
    full: Vec<bool>,
    inside: Vec<bool>,
    left_inside: Vec<bool>,
}

impl<'a> Simplex<'a> {
    fn new(choices: &'a [Choice], dimensions: usize) -> Self {
        let unit = |row: usize| (0..dimensions).map(|column| f64::from(u8::from(row == column))).collect();
        Self {
            choices,
            basis: (0..dimensions).map(Variable::Left).collect(),
            inverse: (0..dimensions).map(unit).collect(),
            amounts: vec![1.0; dimensions],
            full: vec![false; choices.len()],
            inside: vec![false; choices.len()],
            left_inside: vec![true; dimensions],
        }
    }

    /// What gives most for its room is taken to its limit as long as it fits: most of it stays so.
    fn begin_full(&mut self) {
        let density = |choice: &Choice| choice.value / choice.need.iter().sum::<f64>().max(1e-12);
        let mut order: Vec<(f64, usize)> = self.choices.iter().map(density).zip(0..).collect();
        order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (_, index) in order {
            let choice = &self.choices[index];
            let limit = f64::from(choice.limit);
            let fits = self.amounts.iter().zip(&choice.need).all(|(left, need)| need * limit <= *left);
            if fits {
                self.full[index] = true;
                self.amounts.iter_mut().zip(&choice.need).for_each(|(left, need)| *left -= need * limit);
            }
        }
    }

    fn prices(&self) -> Vec<f64> {
        let mut prices = vec![0.0; self.basis.len()];
        for (row, variable) in self.basis.iter().enumerate() {
            if let Variable::Item(item) = variable {
                let value = self.choices[*item].value;
                prices.iter_mut().zip(&self.inverse[row]).for_each(|(price, entry)| *price += value * entry);
            }
        }
        prices
    }

    fn taken(&self) -> Vec<f64> {
        let full = |(choice, full): (&Choice, &bool)| if *full { f64::from(choice.limit) } else { 0.0 };
        let mut taken: Vec<f64> = self.choices.iter().zip(&self.full).map(full).collect();
        for (variable, amount) in self.basis.iter().zip(&self.amounts) {
            if let Variable::Item(item) = variable {
                taken[*item] = *amount;
            }
        }
        taken
    }

    fn limit(&self, variable: Variable) -> f64 {
        match variable {
            Variable::Item(item) => f64::from(self.choices[item].limit),
            Variable::Left(_) => f64::INFINITY,
        }
    }

    /// The variable whose change gains most, and whether it grows.
    fn entering(&self) -> Option<(Variable, f64)> {
        let prices = self.prices();
        let mut best: Option<(f64, Variable, f64)> = None;
        let mut offer = |gain: f64, variable: Variable, direction: f64| {
            if gain > EPSILON && best.is_none_or(|(known, _, _)| gain > known) {
                best = Some((gain, variable, direction));
            }
        };
        for (index, choice) in self.choices.iter().enumerate().filter(|(index, _)| !self.inside[*index]) {
            let gain = choice.value - worth(&choice.need, &prices);
            let direction = if self.full[index] { -1.0 } else { 1.0 };
            offer(gain * direction, Variable::Item(index), direction);
        }
        for (row, price) in prices.iter().enumerate().filter(|(row, _)| !self.left_inside[*row]) {
            offer(-price, Variable::Left(row), 1.0);
        }
        best.map(|(_, variable, direction)| (variable, direction))
    }

    fn column(&self, variable: Variable) -> Vec<f64> {
        match variable {
            Variable::Item(item) => self.inverse.iter().map(|row| worth(row, &self.choices[item].need)).collect(),
            Variable::Left(axis) => self.inverse.iter().map(|row| row[axis]).collect(),
        }
    }

    /// Whether there was anything to gain.
    fn step(&mut self) -> bool {
        let Some((entering, direction)) = self.entering() else { return false };
        let column = self.column(entering);
        let mut length = self.limit(entering);
        let mut leaving = None;
        for (row, entry) in column.iter().enumerate() {
            let change = entry * direction;
            let room = if change > EPSILON {
                self.amounts[row] / change
            } else if change < -EPSILON {
                (self.limit(self.basis[row]) - self.amounts[row]) / -change
            } else {
                continue;
            };
            if room < length {
                length = room.max(0.0);
                leaving = Some((row, change < 0.0));
            }
        }
        if !length.is_finite() {
            return false;
        }
        self.amounts.iter_mut().zip(&column).for_each(|(amount, entry)| *amount -= length * direction * entry);
        let Some((row, at_limit)) = leaving else {
            if let Variable::Item(item) = entering {
                self.full[item] = !self.full[item];
            }
            return true;
        };
        match self.basis[row] {
            Variable::Item(item) => (self.inside[item], self.full[item]) = (false, at_limit),
            Variable::Left(axis) => self.left_inside[axis] = false,
        }
        self.amounts[row] = match entering {
            Variable::Item(item) => {
                let start = if self.full[item] { self.limit(entering) } else { 0.0 };
                self.inside[item] = true;
                start + direction * length
            }
            Variable::Left(axis) => {
                self.left_inside[axis] = true;
                length
            }
        };
        self.basis[row] = entering;
        let own: Vec<f64> = self.inverse[row].iter().map(|entry| entry / column[row]).collect();
        for (other, entry) in self.inverse.iter_mut().zip(&column) {
            other.iter_mut().zip(&own).for_each(|(value, own)| *value -= entry * own);
        }
        self.inverse[row] = own;
        true
    }
}
