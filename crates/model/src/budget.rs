//! Disruption budgets: how many nodes of a pool may go at a time, and when.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

use crate::cron::{CronError, Schedule};
use crate::duration::GoDuration;

/// Why a node is disrupted. Budgets can be limited to some of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DisruptionReason {
    Underutilized,
    Empty,
    Drifted,
    Unhealthy,
}

impl DisruptionReason {
    pub const ALL: [Self; 4] = [Self::Underutilized, Self::Empty, Self::Drifted, Self::Unhealthy];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Underutilized => "Underutilized",
            Self::Empty => "Empty",
            Self::Drifted => "Drifted",
            Self::Unhealthy => "Unhealthy",
        }
    }
}

impl fmt::Display for DisruptionReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What an unlimited or inactive budget allows.
pub const UNLIMITED: u32 = i32::MAX as u32;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BudgetNodes {
    Count(u32),
    Percent(u32),
}

impl BudgetNodes {
    /// Percentages round up, so that a small pool still allows one (API-48).
    pub fn of(&self, nodes: u32) -> u32 {
        match *self {
            Self::Count(count) => count,
            Self::Percent(percent) => {
                let exact = u64::from(nodes) * u64::from(percent);
                u32::try_from(exact.div_ceil(100)).unwrap_or(UNLIMITED)
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    #[error("nodes {0:?} is neither a number nor a percentage from 0% to 100%")]
    Nodes(String),
    #[error(transparent)]
    Schedule(#[from] CronError),
}

impl FromStr for BudgetNodes {
    type Err = BudgetError;

    fn from_str(text: &str) -> Result<Self, BudgetError> {
        let digits = text.strip_suffix('%').unwrap_or(text);
        let malformed = || BudgetError::Nodes(text.to_owned());
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(malformed());
        }
        // The schema does not bound plain numbers; one too large for a count is as good as no limit.
        let number = digits.parse::<u32>().unwrap_or(UNLIMITED).min(UNLIMITED);
        match text.ends_with('%') {
            true if number <= 100 => Ok(Self::Percent(number)),
            true => Err(malformed()),
            false => Ok(Self::Count(number)),
        }
    }
}

/// When a budget applies: from each hit of the schedule for the duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    pub schedule: Schedule,
    pub duration: GoDuration,
}

impl Window {
    /// Active on `[hit, hit + duration)`; overlapping hits extend it (API-49).
    pub fn is_active(&self, now: Timestamp) -> bool {
        let Ok(start) = now.checked_sub(self.duration.as_signed()) else { return false };
        self.schedule.next_after(start).is_some_and(|hit| hit <= now)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Budget {
    pub nodes: BudgetNodes,
    /// `None` matches every reason, and so does an empty list: nobody writes a budget that limits nothing (X20).
    pub reasons: Option<Vec<DisruptionReason>>,
    pub window: Option<Window>,
}

impl Budget {
    pub fn matches(&self, reason: DisruptionReason) -> bool {
        self.reasons.as_ref().is_none_or(|reasons| reasons.is_empty() || reasons.contains(&reason))
    }

    pub fn is_active(&self, now: Timestamp) -> bool {
        self.window.as_ref().is_none_or(|window| window.is_active(now))
    }
}

/// The budgets of a pool. One that does not parse blocks the whole pool (API-50), so that state is part of the value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Budgets {
    Parsed(Vec<Budget>),
    Broken,
}

impl Budgets {
    /// Disruptions allowed for a reason among `nodes` counted nodes, before those under way are subtracted (API-48).
    pub fn allowed(&self, reason: DisruptionReason, nodes: u32, now: Timestamp) -> u32 {
        let Self::Parsed(budgets) = self else { return 0 };
        budgets
            .iter()
            .filter(|budget| budget.matches(reason) && budget.is_active(now))
            .map(|budget| budget.nodes.of(nodes))
            .min()
            .unwrap_or(UNLIMITED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn budget(nodes: &str, reasons: Option<&[DisruptionReason]>, window: Option<(&str, &str)>) -> Budget {
        Budget {
            nodes: nodes.parse().unwrap(),
            reasons: reasons.map(<[_]>::to_vec),
            window: window.map(|(schedule, duration)| Window {
                schedule: schedule.parse().unwrap(),
                duration: duration.parse().unwrap(),
            }),
        }
    }

    /// API-44: percentages from 0 to 100, plain numbers unbounded.
    #[test]
    fn nodes_text() {
        assert_eq!("100%".parse(), Ok(BudgetNodes::Percent(100)));
        assert_eq!("5".parse(), Ok(BudgetNodes::Count(5)));
        assert_eq!("99999999999999999999".parse(), Ok(BudgetNodes::Count(UNLIMITED)));
        for text in ["101%", "", "%", "-1", "+1", "1.5", "ten"] {
            assert_eq!(text.parse::<BudgetNodes>(), Err(BudgetError::Nodes(text.to_owned())));
        }
    }

    /// DIS-53, DIS-54, DIS-55, API-46, API-47, API-48: minimum over the matching active budgets, percentages rounded up.
    #[test]
    fn allowed_disruptions() {
        use DisruptionReason::{Drifted, Empty, Underutilized};
        let now = at("2026-11-15T12:00:00Z");
        for (name, budgets, reason, nodes, want) in [
            ("no budgets, no limit", vec![], Empty, 10, UNLIMITED),
            ("percent rounds up", vec![budget("10%", None, None)], Empty, 19, 2),
            ("percent of one node", vec![budget("10%", None, None)], Empty, 1, 1),
            ("percent of none", vec![budget("10%", None, None)], Empty, 0, 0),
            ("smallest wins", vec![budget("50%", None, None), budget("3", None, None)], Empty, 10, 3),
            ("other reason", vec![budget("0", Some(&[Drifted]), None)], Empty, 10, UNLIMITED),
            ("own reason", vec![budget("0", Some(&[Drifted, Empty]), None)], Empty, 10, 0),
            // X20
            ("empty reasons match all", vec![budget("0", Some(&[]), None)], Underutilized, 10, 0),
            ("inactive", vec![budget("0", None, Some(("@daily", "1h")))], Empty, 10, UNLIMITED),
            ("active", vec![budget("0", None, Some(("@daily", "13h")))], Empty, 10, 0),
        ] {
            assert_eq!(Budgets::Parsed(budgets).allowed(reason, nodes, now), want, "{name}");
        }
    }

    /// DC-44, DC-45, DIS-55: six budgets at once, and none that is active.
    #[test]
    fn dc_44_dc_45_several_budgets() {
        use DisruptionReason::{Drifted, Empty, Underutilized};
        let all = |window: Option<(&str, &str)>| {
            Budgets::Parsed(vec![
                budget("10", None, window),
                budget("100", None, window),
                budget("100%", None, window),
                budget("15", Some(&[Drifted, Underutilized]), window),
                budget("5", Some(&[Drifted]), window),
                budget("4", Some(&[Empty]), window),
            ])
        };
        let june = at("2026-06-15T00:00:00Z");
        for (reason, want) in [(Empty, 4), (Drifted, 5), (Underutilized, 10)] {
            assert_eq!(all(None).allowed(reason, 100, june), want, "DC-44");
            assert_eq!(all(Some(("@yearly", "1h"))).allowed(reason, 100, june), UNLIMITED, "DC-45");
        }
    }

    /// DIS-56, DC-46, API-50: one broken budget blocks every reason.
    #[test]
    fn broken_budgets_allow_nothing() {
        for reason in DisruptionReason::ALL {
            assert_eq!(Budgets::Broken.allowed(reason, 10, Timestamp::UNIX_EPOCH), 0);
        }
    }

    /// DIS-52, DC-51, DC-52, API-49: half open, and overlapping hits extend the window.
    #[test]
    fn windows_are_half_open() {
        let window = |schedule: &str, duration: &str| Window {
            schedule: schedule.parse().unwrap(),
            duration: duration.parse().unwrap(),
        };
        let daily = window("0 9 * * *", "1h");
        for (time, active) in [
            ("2026-11-15T08:59:59Z", false),
            ("2026-11-15T09:00:00Z", true),
            ("2026-11-15T09:59:59.999Z", true),
            ("2026-11-15T10:00:00Z", false),
        ] {
            assert_eq!(daily.is_active(at(time)), active, "{time}");
        }
        let overlapping = window("@hourly", "90m");
        assert!(overlapping.is_active(at("2026-11-15T10:59:00Z")));
        assert!(window("* * * * *", "1h").is_active(at("2026-11-15T10:59:30Z")), "DC-51");
        for (case, schedule, duration, time, active) in [
            ("DC-47, schedules are in UTC", "@daily", "30m", "2026-11-14T23:00:00Z", false),
            ("DC-48", "@yearly", "24h", "2026-01-01T12:00:00Z", true),
            ("DC-48, longer than the day", "@daily", "48h", "2026-06-15T17:00:00Z", true),
            ("DC-49", "30 6 * * SUN", "6h", "2026-11-15T00:00:00Z", false),
            ("DC-45", "@yearly", "1h", "2026-06-15T00:00:00Z", false),
        ] {
            assert_eq!(window(schedule, duration).is_active(at(time)), active, "{case}");
        }
        for text in ["@wrongly", "0 0 * * tue-mon"] {
            assert!(text.parse::<Schedule>().is_err(), "DC-46, DC-50: {text}");
        }
        assert!("1000a%".parse::<BudgetNodes>().is_err(), "DC-46");
        assert!(!window("@daily", "0s").is_active(at("2026-11-15T00:00:00Z")));
        assert!(!daily.is_active(Timestamp::MIN), "the earliest time does not overflow");
    }
}
