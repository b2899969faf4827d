//! What items can add to a load at most, with one dimension taken as it is and prices for the others.
//!
//! Prices for all dimensions forget that items are whole: two that need more than half a bin each count as if they shared
//! it, and halves of a CPU fill up a node that has a tenth less than a whole number of CPUs. Here one dimension is divided
//! into rungs and filled with whole items, each worth what it is worth beyond its need of the others. Needs are whole
//! numbers of rungs where that is possible, and rounded down otherwise, so that nothing that fits is left out.

use super::relaxation::{Choice, worth};
use super::{SLACK, Steps, whole};

/// Rungs where needs have no common measure.
const RUNGS: f64 = 768.0;
/// The most rungs for a common measure.
const MOST_RUNGS: f64 = 2048.0;
/// How far from a whole number of the common measure a need may be.
const NEAR: f64 = 1e-3;

/// For one dimension.
#[derive(Debug)]
pub(super) struct Ladder {
    axis: usize,
    /// In a whole bin.
    rungs: f64,
    /// Prices of the others; nothing for this one.
    prices: Vec<f64>,
    /// By item and rungs left: the most that it and all after it add.
    most: Vec<f64>,
}

impl Ladder {
    /// For choices in the order in which they will be decided.
    pub(super) fn new(choices: &[Choice], prices: &[f64], axis: usize, steps: &mut Steps) -> Self {
        let mut others = prices.to_vec();
        others[axis] = 0.0;
        let measure = common_measure(choices.iter().map(|choice| choice.need[axis]));
        let rungs = measure.map_or(RUNGS, |measure| 1.0 / measure);
        let width = whole((rungs + NEAR).floor()) as usize + 1;
        let mut most = vec![0.0; (choices.len() + 1) * width];
        for (index, choice) in choices.iter().enumerate().rev() {
            let (before, after) = most.split_at_mut((index + 1) * width);
            let row = &mut before[index * width..];
            row.copy_from_slice(&after[..width]);
            steps.take(width / 4);
            let profit = choice.value - worth(&choice.need, &others);
            let need =
                whole((choice.need[axis] * rungs + if measure.is_some() { NEAR } else { SLACK }).floor()) as usize;
            if profit <= 0.0 || need >= width {
                continue;
            }
            if need == 0 {
                let all = profit * f64::from(choice.limit);
                for value in row {
                    *value += all;
                }
                continue;
            }
            // As many as there are, in parts of 1, 2, 4 and so on.
            let fitting = u32::try_from((width - 1) / need).unwrap_or(u32::MAX);
            let (mut left, mut part) = (choice.limit.min(fitting), 1_u32);
            while left > 0 {
                let count = part.min(left);
                add(row, need * count as usize, profit * f64::from(count));
                steps.take(width / 4);
                left -= count;
                part = part.saturating_mul(2);
            }
        }
        Self { axis, rungs, prices: others, most }
    }

    /// The most that the items from `index` on add in this room, as shares of the bin.
    pub(super) fn above(&self, index: usize, room: &[f64]) -> f64 {
        let width = whole((self.rungs + NEAR).floor()) as usize + 1;
        let left = (whole((room[self.axis] * self.rungs + NEAR).floor()) as usize).min(width - 1);
        self.most[index * width + left] + worth(room, &self.prices)
    }
}

/// One more part, taken or not.
fn add(row: &mut [f64], need: usize, profit: f64) {
    for at in (need..row.len()).rev() {
        row[at] = row[at].max(row[at - need] + profit);
    }
}

/// What all needs are whole multiples of, if that is not too small a part of the bin.
fn common_measure(needs: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let mut measure = 0.0;
    for need in needs.clone().filter(|need| *need > 0.0) {
        let (mut large, mut small) = (f64::max(need, measure), f64::min(need, measure));
        while small * MOST_RUNGS > 0.5 {
            let rest = large % small;
            // What is left of rounding is nothing.
            let rest = if rest < small * NEAR || small - rest < small * NEAR { 0.0 } else { rest };
            (large, small) = (small, rest);
        }
        if small > 0.0 {
            return None;
        }
        measure = large;
    }
    let whole_multiple = |need: f64| (need / measure - (need / measure).round()).abs() < NEAR / 2.0;
    (measure * MOST_RUNGS >= 1.0 && needs.filter(|need| *need > 0.0).all(whole_multiple)).then_some(measure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures() {
        let of = |needs: &[f64]| common_measure(needs.iter().copied()).map(|measure| (1.0 / measure).round());
        // Thousandths of 14,900, as shares.
        let shares = |needs: &[f64]| needs.iter().map(|need| need / 14_900.0).collect::<Vec<f64>>();
        assert_eq!(of(&shares(&[100.0, 250.0, 500.0, 1500.0])), Some(298.0));
        assert_eq!(of(&shares(&[500.0, 1500.0, 1000.0])), Some(30.0));
        assert_eq!(of(&shares(&[500.0, 501.0])), None);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[0.0, 1.0]), Some(1.0));
    }
}
