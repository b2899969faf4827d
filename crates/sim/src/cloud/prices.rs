//! Prices that move, as a function of the time: nothing has to remember them, and a repeated run finds the same ones.

use std::time::Duration;

use jiff::Timestamp;
use karpenter_model::instance_type::Price;
use karpenter_model::labels;

use crate::chance::Chance;

/// How far prices move around their rest.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Swing {
    /// How often the price list is a new one.
    pub period: Duration,
    /// A spot price lies within this share around its rest.
    pub spot: f64,
    /// An on-demand price likewise; a new list comes every thirty days.
    pub on_demand: f64,
}

impl Swing {
    /// Prices that stay where they are.
    pub const NONE: Self = Self { period: Duration::from_hours(24), spot: 0.0, on_demand: 0.0 };
}

impl Default for Swing {
    fn default() -> Self {
        Self { period: Duration::from_mins(10), spot: 0.25, on_demand: 0.02 }
    }
}

/// Spot prices drift for about this long before they turn.
const WAVE: u64 = 6 * 3600;
const LIST: u64 = 30 * 24 * 3600;

/// Which price list is in force.
pub(super) fn period(swing: Swing, now: Timestamp) -> u64 {
    seconds(now) / swing.period.as_secs().max(1)
}

pub(super) fn price(seed: u64, swing: Swing, now: Timestamp, name: &Sold<'_>, rest: Price) -> Price {
    let moment = period(swing, now) * swing.period.as_secs().max(1);
    let factor = match name.capacity_type {
        labels::CAPACITY_TYPE_SPOT => 1.0 + swing.spot * wave(seed, moment, WAVE, name),
        labels::CAPACITY_TYPE_ON_DEMAND => {
            // In steps, and the same in all zones, as price lists are.
            let of_type = Sold { zone: "", ..*name };
            1.0 + swing.on_demand * point(seed, moment / LIST, &of_type)
        }
        _ => 1.0,
    };
    // Rounded to what a price list shows, and never free.
    let rounded = (rest.per_hour() * factor * 1e5).round() / 1e5;
    Price::new(rounded.max(1e-5)).unwrap_or(rest)
}

/// One thing that has a price.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sold<'a> {
    pub instance_type: &'a str,
    pub zone: &'a str,
    pub capacity_type: &'a str,
}

/// From -1 to 1, without jumps: between two drawn points the way is straight.
fn wave(seed: u64, moment: u64, length: u64, name: &Sold<'_>) -> f64 {
    let (index, part) = (moment / length, moment % length);
    let (from, to) = (point(seed, index, name), point(seed, index + 1, name));
    #[expect(clippy::cast_precision_loss, reason = "hours in seconds")]
    let share = part as f64 / length as f64;
    from + (to - from) * share
}

fn point(seed: u64, index: u64, name: &Sold<'_>) -> f64 {
    let Sold { instance_type, zone, capacity_type } = name;
    2.0 * Chance::about(seed, &["price", instance_type, zone, capacity_type, &index.to_string()]).fraction() - 1.0
}

fn seconds(now: Timestamp) -> u64 {
    u64::try_from(now.as_second()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spot_prices_move_slowly_and_stay_in_range() {
        let name = Sold { instance_type: "m5.large", zone: "a", capacity_type: "spot" };
        let rest = Price::new(1.0).unwrap();
        let at = |minute: i64| {
            price(3, Swing::default(), Timestamp::from_second(minute * 60).unwrap(), &name, rest).per_hour()
        };
        let day: Vec<f64> = (0..24 * 60).map(at).collect();
        assert!(day.iter().all(|price| (0.75..=1.25).contains(price)));
        assert!(day.windows(2).all(|pair| (pair[0] - pair[1]).abs() < 0.02), "no jumps");
        assert!(day.iter().any(|price| (price - day[0]).abs() > 0.05), "but they move");
        assert_eq!(at(11).to_bits(), at(19).to_bits(), "one list holds for ten minutes");
    }

    #[test]
    fn on_demand_prices_change_with_the_list() {
        let rest = Price::new(1.0).unwrap();
        let at = |day: i64, zone: &str| {
            let name = Sold { instance_type: "m5.large", zone, capacity_type: "on-demand" };
            price(3, Swing::default(), Timestamp::from_second(day * 86_400).unwrap(), &name, rest)
        };
        assert_eq!(at(1, "a"), at(29, "b"));
        assert_ne!(at(1, "a"), at(31, "a"));
        let still = Swing { spot: 0.0, on_demand: 0.0, ..Swing::default() };
        let name = Sold { instance_type: "m5.large", zone: "a", capacity_type: "on-demand" };
        assert_eq!(price(3, still, Timestamp::UNIX_EPOCH, &name, rest), rest);
    }
}
