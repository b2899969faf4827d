//! Zones that traffic is shifted away from (AWS-226).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// A shift as ARC describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShiftInfo {
    /// The zone's id.
    pub away_from: String,
    /// `APPLIED` or not.
    pub applied_status: String,
    pub expires: Timestamp,
}

/// Zones by id, and until when they are to be left alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShiftedZones(BTreeMap<String, Timestamp>);

impl ShiftedZones {
    /// An answer without any shift ends all of them; one with some says only how those are.
    pub fn answered(&mut self, shifts: &[ShiftInfo]) {
        if shifts.is_empty() {
            self.0.clear();
        }
        for shift in shifts {
            if shift.applied_status == "APPLIED" {
                self.0.insert(shift.away_from.clone(), shift.expires);
            } else {
                self.0.remove(&shift.away_from);
            }
        }
    }

    pub fn now(&self, now: Timestamp) -> BTreeSet<String> {
        self.0.iter().filter(|(_, expires)| now < **expires).map(|(zone, _)| zone.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn shift(zone: &str, status: &str, expires: i64) -> ShiftInfo {
        ShiftInfo { away_from: zone.to_owned(), applied_status: status.to_owned(), expires: at(expires) }
    }

    /// AWS-226, AC-271: until it expires; others keep theirs; an empty answer ends all.
    #[test]
    fn shifts_come_and_go() {
        let mut zones = ShiftedZones::default();
        zones.answered(&[shift("use1-az1", "APPLIED", 100), shift("use1-az2", "NOT_APPLIED", 100)]);
        assert_eq!(zones.now(at(99)), BTreeSet::from(["use1-az1".to_owned()]));
        assert!(zones.now(at(100)).is_empty());
        zones.answered(&[shift("use1-az3", "APPLIED", 200)]);
        assert_eq!(zones.now(at(50)).len(), 2);
        zones.answered(&[shift("use1-az1", "NOT_APPLIED", 100)]);
        assert_eq!(zones.now(at(50)), BTreeSet::from(["use1-az3".to_owned()]));
        zones.answered(&[]);
        assert!(zones.now(at(50)).is_empty());
    }
}
