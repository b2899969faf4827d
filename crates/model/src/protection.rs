//! The annotation by which a pod's author keeps it where it is (DIS-41 … DIS-44, SCH-15).

use jiff::{SignedDuration, Timestamp};

use crate::duration::GoDuration;
use crate::moment::Moment;

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Protection {
    #[default]
    None,
    Always,
    /// From the start of the pod.
    For(SignedDuration),
    /// A value that says nothing we understand: no protection, but its author should hear of it.
    Invalid(String),
}

impl Protection {
    /// What the value of the annotation means.
    pub fn read(value: Option<&str>) -> Self {
        let Some(value) = value else { return Self::None };
        if value == "true" {
            return Self::Always;
        }
        match value.parse::<GoDuration>() {
            Ok(length) if length > GoDuration::ZERO => Self::For(length.as_signed()),
            _ => Self::Invalid(value.to_owned()),
        }
    }

    /// When it ends; `None` when it does not, or has not begun.
    pub fn until(&self, started_at: Option<Moment>) -> Option<Timestamp> {
        match self {
            Self::For(length) => started_at?.time().saturating_add(*length).ok(),
            Self::None | Self::Always | Self::Invalid(_) => None,
        }
    }

    /// A pod that has not been seen to start is protected: better once too often (DIS-43).
    pub fn holds(&self, started_at: Option<Moment>, now: Timestamp) -> bool {
        match self {
            Self::None | Self::Invalid(_) => false,
            Self::Always => true,
            Self::For(_) => self.until(started_at).is_none_or(|until| now < until),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// DIS-41, DIS-42, DIS-43, DIS-44, DC-27, DC-29, DC-30, DC-31, SCH-15, API-143: a pod that started at 100, looked at when the protection of a minute
    /// ends.
    #[test]
    fn protection_of_a_pod() {
        let time = |second| Timestamp::from_second(second).unwrap();
        for (value, before, at) in [
            (None, false, false),
            (Some("true"), true, true),
            (Some("1m"), true, false),
            (Some("30s30s"), true, false),
            (Some("false"), false, false),
            (Some(""), false, false),
            (Some("0s"), false, false),
            (Some("-1m"), false, false),
            (Some("soon"), false, false),
        ] {
            let protection = Protection::read(value);
            assert_eq!(protection.holds(Some(time(100).into()), time(159)), before, "{value:?}");
            assert_eq!(protection.holds(Some(time(100).into()), time(160)), at, "{value:?}");
        }
        assert!(Protection::read(Some("1m")).holds(None, time(9999)), "not started yet");
        assert_eq!(Protection::read(Some("x")), Protection::Invalid("x".into()));
    }
}
