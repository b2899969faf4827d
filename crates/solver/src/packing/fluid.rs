//! The fluid bound: pods as a liquid that fills bins to the brim.
//!
//! `min Σ price·bins` so that together they have enough of everything. The dual has a price per unit of each dimension,
//! and no bin is worth more than it costs; it is solved as it stands, because it starts feasible and has few columns.

use super::{Problem, Steps};

const EPSILON: f64 = 1e-11;

/// Prices per unit of each dimension under which no bin is worth more than it costs, and the total need is worth most.
pub(crate) fn dual_prices(problem: &Problem, counts: &[u32], steps: &mut Steps) -> Vec<f64> {
    let dimensions = problem.dimensions();
    let mut total = vec![0.0; dimensions];
    for (item, count) in problem.items.iter().zip(counts) {
        total.iter_mut().zip(&item.need).for_each(|(sum, need)| *sum += need * f64::from(*count));
    }
    // Bytes beside thousandths of a CPU: everything in units of the largest bin.
    let largest: Vec<f64> = (0..dimensions)
        .map(|axis| problem.bins.iter().map(|bin| bin.capacity[axis]).fold(0.0, f64::max))
        .map(|amount| if amount > 0.0 { amount } else { 1.0 })
        .collect();
    let mut tableau = Tableau::new(problem, &total, &largest);
    // Every pivot moves to another corner; as many as there are edges in practice.
    for _ in 0..20 * (dimensions + problem.bins.len()) {
        if !steps.take(tableau.size()) || !tableau.pivot() {
            break;
        }
    }
    let prices = tableau.values();
    let prices: Vec<f64> = prices.iter().zip(&largest).map(|(price, unit)| (price / unit).max(0.0)).collect();
    scaled_down(problem, prices)
}

/// Rounding must not make a bin worth more than its price.
fn scaled_down(problem: &Problem, mut prices: Vec<f64>) -> Vec<f64> {
    let worth = |bin: &super::Bin| -> f64 { bin.capacity.iter().zip(&prices).map(|(a, b)| a.max(0.0) * b).sum() };
    let over = problem.bins.iter().map(|bin| if bin.price > 0.0 { worth(bin) / bin.price } else { 1.0 });
    let over = over.fold(1.0, f64::max) * (1.0 + 1e-12);
    for price in &mut prices {
        *price /= over;
    }
    prices
}

/// Rows are bins, columns are dimensions and the right-hand side; the last row is the objective.
struct Tableau {
    rows: Vec<Vec<f64>>,
    /// Which variable each row stands for: dimensions first, then the slack of each bin.
    basic: Vec<usize>,
    /// Which variable each column stands for.
    nonbasic: Vec<usize>,
    /// Steps since the objective grew: a sign of going in circles.
    stalled: usize,
}

impl Tableau {
    fn new(problem: &Problem, total: &[f64], unit: &[f64]) -> Self {
        let dimensions = total.len();
        let mut rows: Vec<Vec<f64>> = problem
            .bins
            .iter()
            .map(|bin| {
                let mut row: Vec<f64> = bin.capacity.iter().zip(unit).map(|(a, unit)| a.max(0.0) / unit).collect();
                row.push(bin.price);
                row
            })
            .collect();
        let mut objective: Vec<f64> = total.iter().zip(unit).map(|(total, unit)| -total / unit).collect();
        objective.push(0.0);
        rows.push(objective);
        Self {
            basic: (dimensions..dimensions + problem.bins.len()).collect(),
            nonbasic: (0..dimensions).collect(),
            rows,
            stalled: 0,
        }
    }

    fn size(&self) -> usize {
        self.rows.len() * (self.nonbasic.len() + 1)
    }

    fn last(&self) -> &Vec<f64> {
        &self.rows[self.rows.len() - 1]
    }

    /// Whether there was anything to gain.
    fn pivot(&mut self) -> bool {
        let columns = self.nonbasic.len();
        let gains = (0..columns).filter(|column| self.last()[*column] < -EPSILON);
        let entering = if self.stalled > 2 * columns {
            // Bland's rule ends every circle.
            gains.min_by_key(|column| self.nonbasic[*column])
        } else {
            gains.min_by(|a, b| self.last()[*a].total_cmp(&self.last()[*b]))
        };
        let Some(entering) = entering else { return false };
        let ratio = |row: &usize| self.rows[*row][columns] / self.rows[*row][entering];
        let leaving = (0..self.basic.len())
            .filter(|row| self.rows[*row][entering] > EPSILON)
            .min_by(|a, b| ratio(a).total_cmp(&ratio(b)).then(self.basic[*a].cmp(&self.basic[*b])));
        // A dimension that no bin has: nothing limits its price, and nobody who needs it can be placed.
        let Some(leaving) = leaving else {
            let last = self.rows.len() - 1;
            self.rows[last][entering] = 0.0;
            return true;
        };
        let before = self.last()[columns];
        let pivot = self.rows[leaving][entering];
        let mut row = std::mem::take(&mut self.rows[leaving]);
        for value in &mut row {
            *value /= pivot;
        }
        row[entering] = 1.0 / pivot;
        for other in self.rows.iter_mut().filter(|other| !other.is_empty()) {
            let factor = other[entering];
            if factor != 0.0 {
                other[entering] = 0.0;
                for (column, (value, own)) in other.iter_mut().zip(&row).enumerate() {
                    *value -= factor * own * f64::from(u8::from(column != entering));
                }
                other[entering] = -factor / pivot;
            }
        }
        self.rows[leaving] = row;
        std::mem::swap(&mut self.basic[leaving], &mut self.nonbasic[entering]);
        self.stalled = if self.last()[columns] > before + EPSILON { 0 } else { self.stalled + 1 };
        true
    }

    fn values(&self) -> Vec<f64> {
        let columns = self.nonbasic.len();
        let mut values = vec![0.0; columns];
        for (row, variable) in self.basic.iter().enumerate().filter(|(_, variable)| **variable < columns) {
            values[*variable] = self.rows[row][columns];
        }
        values
    }
}
