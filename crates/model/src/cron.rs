//! Cron schedules of disruption budgets: five fields or a descriptor, evaluated in UTC (API-49).

use std::str::FromStr;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};

/// A parsed schedule. Each field is a set of allowed values, one bit each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: DayField,
    months: u64,
    weekdays: DayField,
}

/// A day field remembers whether it was written as `*` (or `?`): when both day fields are restricted, either may match.
#[derive(Debug, Clone, PartialEq, Eq)]
struct DayField {
    allowed: u64,
    any: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CronError {
    #[error(
        "schedule {schedule:?} has {found} fields, expected 5 (minute hour day-of-month month day-of-week) or a descriptor such as @daily"
    )]
    FieldCount { schedule: String, found: usize },
    #[error("unknown schedule descriptor {0:?}")]
    Descriptor(String),
    #[error("{field} {text:?} of a schedule: {why}")]
    Field { field: &'static str, text: String, why: &'static str },
}

struct FieldKind {
    name: &'static str,
    min: u8,
    max: u8,
    names: &'static [&'static str],
}

const MINUTE: FieldKind = FieldKind { name: "minute", min: 0, max: 59, names: &[] };
const HOUR: FieldKind = FieldKind { name: "hour", min: 0, max: 23, names: &[] };
const DAY: FieldKind = FieldKind { name: "day-of-month", min: 1, max: 31, names: &[] };
const MONTH: FieldKind = FieldKind {
    name: "month",
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
const WEEKDAY: FieldKind =
    FieldKind { name: "day-of-week", min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] };

impl FromStr for Schedule {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        let five_fields = match text {
            "@annually" | "@yearly" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other if other.starts_with('@') => return Err(CronError::Descriptor(other.to_owned())),
            other => other,
        };
        let fields: Vec<&str> = five_fields.split_whitespace().collect();
        let [minute, hour, day, month, weekday] = fields[..] else {
            return Err(CronError::FieldCount { schedule: text.to_owned(), found: fields.len() });
        };
        Ok(Self {
            minutes: MINUTE.parse(minute)?.allowed,
            hours: HOUR.parse(hour)?.allowed,
            days: DAY.parse(day)?,
            months: MONTH.parse(month)?.allowed,
            weekdays: WEEKDAY.parse(weekday)?,
        })
    }
}

impl FieldKind {
    fn parse(&self, text: &str) -> Result<DayField, CronError> {
        let mut field = DayField { allowed: 0, any: false };
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let one = self.parse_part(part).map_err(|why| CronError::Field {
                field: self.name,
                text: text.to_owned(),
                why,
            })?;
            field.allowed |= one.allowed;
            field.any |= one.any;
        }
        if field.allowed == 0 {
            return Err(CronError::Field { field: self.name, text: text.to_owned(), why: "names no value" });
        }
        Ok(field)
    }

    fn parse_part(&self, part: &str) -> Result<DayField, &'static str> {
        let (range, step) = match part.split_once('/') {
            Some((range, step)) => (range, Some(step.parse::<u8>().map_err(|_| "the step is not a small number")?)),
            None => (part, None),
        };
        if step == Some(0) {
            return Err("the step must be at least 1");
        }
        let any = range == "*" || range == "?";
        let (low, high) = match range.split_once('-') {
            _ if any => (self.min, self.max),
            Some((low, high)) => (self.value(low)?, self.value(high)?),
            // `N/step` runs from N to the end of the field.
            None if step.is_some() => (self.value(range)?, self.max),
            None => (self.value(range)?, self.value(range)?),
        };
        if low > high {
            return Err("the range ends before it begins");
        }
        let step = step.unwrap_or(1);
        let allowed = (low..=high).step_by(usize::from(step)).fold(0, |bits, value| bits | 1 << value);
        Ok(DayField { allowed, any: any && step == 1 })
    }

    fn value(&self, text: &str) -> Result<u8, &'static str> {
        let named = self.names.iter().zip(self.min..).find(|(name, _)| text.eq_ignore_ascii_case(name));
        let value = match named {
            Some((_, value)) => value,
            None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().map_err(|_| "a value is not a number")?,
            None => return Err("a value is neither a number nor a known name"),
        };
        if (self.min..=self.max).contains(&value) { Ok(value) } else { Err("a value is out of range") }
    }
}

/// A schedule such as `0 0 30 2 *` never hits. Every one that hits at all does so within this many years: leap days
/// on a given weekday come back after at most 40 years (28, or 40 across a century that is not a leap year).
const SEARCH_YEARS: i16 = 41;

impl Schedule {
    /// The first hit strictly later than `after`, if there is one.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let start = after.to_zoned(TimeZone::UTC).datetime();
        let mut at =
            start.with().second(0).subsec_nanosecond(0).build().ok()?.checked_add(Span::new().minutes(1)).ok()?;
        let last_year = start.year().saturating_add(SEARCH_YEARS);
        while at.year() <= last_year {
            if self.months & (1 << at.month()) == 0 {
                at = next_month(at.date())?;
            } else if !self.day_matches(at.date()) {
                at = at.date().tomorrow().ok()?.at(0, 0, 0, 0);
            } else if self.hours & (1 << at.hour()) == 0 {
                at = at.with().minute(0).build().ok()?.checked_add(Span::new().hours(1)).ok()?;
            } else if self.minutes & (1 << at.minute()) == 0 {
                at = at.checked_add(Span::new().minutes(1)).ok()?;
            } else {
                return at.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp());
            }
        }
        None
    }

    fn day_matches(&self, date: Date) -> bool {
        let day = self.days.allowed & (1 << date.day()) != 0;
        let weekday = self.weekdays.allowed & (1 << date.weekday().to_sunday_zero_offset()) != 0;
        if self.days.any || self.weekdays.any { day && weekday } else { day || weekday }
    }
}

fn next_month(date: Date) -> Option<DateTime> {
    Some(date.last_of_month().tomorrow().ok()?.at(0, 0, 0, 0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn next(schedule: &str, after: &str) -> Option<String> {
        let schedule: Schedule = schedule.parse().unwrap_or_else(|e| panic!("{e}"));
        schedule.next_after(after.parse().unwrap()).map(|at| at.to_string())
    }

    /// API-49, DIS-51: UTC, five fields or a descriptor, strictly later than the given time.
    #[test]
    fn next_hits() {
        for (schedule, after, want) in [
            ("@daily", "2026-11-15T17:31:24Z", "2026-11-16T00:00:00Z"),
            ("@midnight", "2026-11-16T00:00:00Z", "2026-11-17T00:00:00Z"),
            ("@hourly", "2026-11-15T17:59:59.5Z", "2026-11-15T18:00:00Z"),
            ("@weekly", "2026-11-15T00:00:00Z", "2026-11-22T00:00:00Z"),
            ("@monthly", "2026-12-31T23:59:00Z", "2027-01-01T00:00:00Z"),
            ("@annually", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"),
            ("@yearly", "2025-12-31T00:00:00Z", "2026-01-01T00:00:00Z"),
            ("*/15 * * * *", "2026-11-15T17:31:24Z", "2026-11-15T17:45:00Z"),
            ("5/20 * * * *", "2026-11-15T17:31:24Z", "2026-11-15T17:45:00Z"),
            ("0 9 * * mon-fri", "2026-11-14T10:00:00Z", "2026-11-16T09:00:00Z"),
            ("0 9 * * SUN,6", "2026-11-15T10:00:00Z", "2026-11-21T09:00:00Z"),
            ("0 0 29 feb ?", "2026-11-15T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 0 13 * 5", "2026-11-15T00:00:00Z", "2026-11-20T00:00:00Z"), // both day fields: either matches
            ("0 0 */2 * 1", "2026-11-15T00:00:00Z", "2026-11-16T00:00:00Z"), // a stepped star counts as restricted
            ("0 0 29 2 1", "2099-03-01T00:00:00Z", "2100-02-01T00:00:00Z"),
            ("59 23 31 12 *", "2026-12-31T23:59:00Z", "2027-12-31T23:59:00Z"),
        ] {
            assert_eq!(next(schedule, after).as_deref(), Some(want), "{schedule} after {after}");
        }
        assert_eq!(next("0 0 30 2 *", "2026-11-15T00:00:00Z"), None);
    }

    /// API-45, API-50: what the CRD's pattern lets through still fails here.
    #[test]
    fn malformed_schedules() {
        for text in [
            "",
            "@dailyx",
            "@every 1h",
            "* * * *",
            "* * * * * *",
            "60 * * * *",
            "* 24 * * *",
            "* * 0 * *",
            "* * 32 * *",
            "* * * 13 *",
            "* * * * 7",
            "*/0 * * * *",
            "5-1 * * * *",
            "a * * * *",
            "-1 * * * *",
            "1- * * * *",
            ", * * * *",
            "TZ=UTC 0 0 * * *",
            "1/256 * * * *",
            "é * * * *",
            "+1 * * * *",
        ] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_fails_but_never_panics(text in "[0-9a-z@*?/, -]{0,30}") {
            if let Ok(schedule) = text.parse::<Schedule>() {
                let _ = schedule.next_after(Timestamp::UNIX_EPOCH);
            }
        }

        /// The search that jumps agrees with looking at every minute.
        #[test]
        fn hits_agree_with_a_walk_over_minutes(
            minute in 0_u8..60, hour in 0_u8..24, weekday in 0_u8..7, start in 0_i64..2_000_000_000
        ) {
            let schedule: Schedule = format!("{minute} {hour} * * {weekday}").parse().unwrap();
            let after = Timestamp::from_second(start).unwrap();
            let found = schedule.next_after(after).unwrap();
            let mut second = (start / 60 + 1) * 60;
            loop {
                let at = Timestamp::from_second(second).unwrap().to_zoned(TimeZone::UTC);
                if at.minute() == i8::try_from(minute).unwrap()
                    && at.hour() == i8::try_from(hour).unwrap()
                    && at.weekday().to_sunday_zero_offset() == i8::try_from(weekday).unwrap()
                {
                    break;
                }
                second += 60;
            }
            prop_assert_eq!(found.as_second(), second);
        }

        #[test]
        fn latest_times_do_not_panic(start in Timestamp::MAX.as_second() - 100_000_000..=Timestamp::MAX.as_second()) {
            let schedule: Schedule = "0 0 29 2 *".parse().unwrap();
            let _ = schedule.next_after(Timestamp::from_second(start).unwrap());
        }
    }
}
