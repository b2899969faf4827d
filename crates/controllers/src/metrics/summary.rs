//! Quantiles over the last ten minutes in bounded memory.
//!
//! Values are counted in classes whose bounds grow by 1 %, so that a quantile is off by at most 1 % of its value; the
//! smallest and the largest are kept exactly. Five windows of two minutes follow one another.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// API-183.
pub(super) const QUANTILES: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

const WINDOWS: usize = 5;
const WINDOW_SECONDS: i64 = 120;
const GROWTH: f64 = 1.01;

#[derive(Debug, Default)]
struct Sketch {
    /// Which window of time it is for: seconds since the epoch by the length of a window.
    period: i64,
    /// How many values per class; anything not above zero is in the lowest.
    classes: BTreeMap<i32, u64>,
    smallest: f64,
    largest: f64,
}

#[derive(Debug, Default)]
pub(super) struct Window {
    sketches: [Sketch; WINDOWS],
    sum: f64,
    count: u64,
}

impl Window {
    pub(super) fn observe(&mut self, value: f64, now: Timestamp) {
        self.sum += value;
        self.count += 1;
        let period = now.as_second().div_euclid(WINDOW_SECONDS);
        let place = usize::try_from(period.rem_euclid(5)).unwrap_or_default();
        let sketch = &mut self.sketches[place];
        if sketch.period != period || sketch.classes.is_empty() {
            *sketch = Sketch { period, classes: BTreeMap::new(), smallest: value, largest: value };
        }
        *sketch.classes.entry(class(value)).or_default() += 1;
        sketch.smallest = sketch.smallest.min(value);
        sketch.largest = sketch.largest.max(value);
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// One value for each of [`QUANTILES`]; not a number when nothing was observed lately.
    pub(super) fn quantiles(&self, now: Timestamp) -> [f64; 5] {
        let period = now.as_second().div_euclid(WINDOW_SECONDS);
        let recent = |sketch: &&Sketch| !sketch.classes.is_empty() && (0..5).contains(&(period - sketch.period));
        let recent: Vec<&Sketch> = self.sketches.iter().filter(recent).collect();
        let mut classes: BTreeMap<i32, u64> = BTreeMap::new();
        for (class, count) in recent.iter().flat_map(|sketch| &sketch.classes) {
            *classes.entry(*class).or_default() += count;
        }
        let total: u64 = classes.values().sum();
        if total == 0 {
            return [f64::NAN; 5];
        }
        let smallest = recent.iter().map(|sketch| sketch.smallest).fold(f64::INFINITY, f64::min);
        let largest = recent.iter().map(|sketch| sketch.largest).fold(f64::NEG_INFINITY, f64::max);
        QUANTILES.map(|quantile| {
            let rank = quantile * super::text::number(total);
            let mut seen = 0;
            let reached = classes.iter().find(|(_, count)| {
                seen += **count;
                super::text::number(seen) >= rank
            });
            match reached {
                Some((class, _)) if quantile > 0.0 && quantile < 1.0 => middle(*class).clamp(smallest, largest),
                _ if quantile > 0.0 => largest,
                _ => smallest,
            }
        })
    }
}

const LOWEST: i32 = i32::MIN;

fn class(value: f64) -> i32 {
    if value <= 0.0 || !value.is_finite() {
        return LOWEST;
    }
    // The logarithm of a finite number to the base 1.01 is below 72,000.
    #[expect(clippy::cast_possible_truncation, reason = "see above")]
    let class = (value.ln() / GROWTH.ln()).ceil() as i32;
    class
}

fn middle(class: i32) -> f64 {
    if class == LOWEST { 0.0 } else { GROWTH.powf(f64::from(class) - 0.5) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// API-183: quantiles 0, 0.5, 0.9, 0.99, 1 with an error of 0.01.
    #[test]
    fn quantiles_are_off_by_at_most_a_hundredth() {
        let mut window = Window::default();
        for value in 1..=1000 {
            window.observe(f64::from(value), at(1000));
        }
        let quantiles = window.quantiles(at(1000));
        for (have, want) in quantiles.iter().zip([1.0, 500.0, 900.0, 990.0, 1000.0]) {
            assert!((have - want).abs() <= want * 0.0101, "{quantiles:?}");
        }
        assert_eq!((window.count(), window.sum()), (1000, 500_500.0));
    }

    #[test]
    fn old_values_are_forgotten_but_counted() {
        let mut window = Window::default();
        window.observe(5.0, at(0));
        window.observe(0.0, at(300));
        let [low, middle, .., high] = window.quantiles(at(300));
        assert_eq!(format!("{low} {middle} {high}"), "0 0 5");
        assert!(window.quantiles(at(700)).iter().all(|value| value.abs() < f64::EPSILON));
        assert!(window.quantiles(at(2000))[0].is_nan());
        assert_eq!(window.count(), 2);
    }
}
