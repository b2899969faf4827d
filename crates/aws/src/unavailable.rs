//! Who was just refused what: offerings that are not worth another try for a while (§3.9).

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// AWS-141.
const LASTS: SignedDuration = SignedDuration::from_mins(3);

/// A placement group that a refusal was about; without a partition it holds for all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupScope {
    pub group_id: String,
    pub partition: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct OfferingKey {
    pub capacity_type: String,
    pub instance_type: String,
    pub zone: String,
    pub group: Option<GroupScope>,
}

impl fmt::Display for OfferingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in {}", self.capacity_type, self.instance_type, self.zone)
    }
}

/// What is asked about before an offering is said to be available.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    pub capacity_type: &'a str,
    pub instance_type: &'a str,
    pub zone: &'a str,
    /// The class's subnets in the zone.
    pub subnets: &'a [&'a str],
    pub group_id: Option<&'a str>,
    pub partition: Option<&'a str>,
}

/// Counts marks and their ends, so that whoever keeps a list knows when it is out of date (AWS-144).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Sequences {
    by_type: BTreeMap<String, u64>,
    capacity_types: u64,
    subnets: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unavailable {
    offerings: BTreeMap<OfferingKey, Timestamp>,
    capacity_types: BTreeMap<String, Timestamp>,
    subnets: BTreeMap<String, Timestamp>,
    sequences: Sequences,
}

impl Unavailable {
    pub fn mark_offering(&mut self, key: OfferingKey, now: Timestamp) {
        *self.sequences.by_type.entry(key.instance_type.clone()).or_default() += 1;
        self.offerings.insert(key, end(now));
    }

    pub fn mark_capacity_type(&mut self, capacity_type: &str, now: Timestamp) {
        self.sequences.capacity_types += 1;
        self.capacity_types.insert(capacity_type.to_owned(), end(now));
    }

    pub fn mark_subnet(&mut self, subnet: &str, now: Timestamp) {
        self.sequences.subnets += 1;
        self.subnets.insert(subnet.to_owned(), end(now));
    }

    /// AWS-142, AWS-143: the general mark, and with a group also that of the group and of its partition.
    pub fn holds(&self, wanted: &Wanted<'_>, now: Timestamp) -> bool {
        let live = |until: Option<&Timestamp>| until.is_some_and(|until| now < *until);
        let key = |group| OfferingKey {
            capacity_type: wanted.capacity_type.to_owned(),
            instance_type: wanted.instance_type.to_owned(),
            zone: wanted.zone.to_owned(),
            group,
        };
        let mut scopes = vec![None];
        if let Some(group) = wanted.group_id {
            let scope = |partition: Option<&str>| {
                Some(GroupScope { group_id: group.to_owned(), partition: partition.map(ToOwned::to_owned) })
            };
            scopes.push(scope(None));
            scopes.extend(wanted.partition.map(|partition| scope(Some(partition))));
        }
        let no_address =
            !wanted.subnets.is_empty() && wanted.subnets.iter().all(|subnet| live(self.subnets.get(*subnet)));
        no_address
            || live(self.capacity_types.get(wanted.capacity_type))
            || scopes.into_iter().any(|scope| live(self.offerings.get(&key(scope))))
    }

    /// Forgets what is over. Call it before [`Unavailable::sequence`] and now and then (AWS-141: every 10 s).
    pub fn sweep(&mut self, now: Timestamp) {
        let Self { offerings, capacity_types, subnets, sequences } = self;
        offerings.retain(|key, until| {
            let lives = now < *until;
            if !lives {
                *sequences.by_type.entry(key.instance_type.clone()).or_default() += 1;
            }
            lives
        });
        sequences.capacity_types += ended(capacity_types, now);
        sequences.subnets += ended(subnets, now);
    }

    /// Moves whenever something changes that concerns the type, and only then.
    pub fn sequence(&self, instance_type: &str) -> u64 {
        let own = self.sequences.by_type.get(instance_type).copied().unwrap_or_default();
        own + self.sequences.capacity_types + self.sequences.subnets
    }
}

fn end(now: Timestamp) -> Timestamp {
    now.saturating_add(LASTS).unwrap_or(Timestamp::MAX)
}

fn ended(marks: &mut BTreeMap<String, Timestamp>, now: Timestamp) -> u64 {
    let before = marks.len();
    marks.retain(|_, until| now < *until);
    u64::try_from(before - marks.len()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn key(capacity_type: &str, instance_type: &str, zone: &str, group: Option<(&str, Option<&str>)>) -> OfferingKey {
        let group = group
            .map(|(id, partition)| GroupScope { group_id: id.to_owned(), partition: partition.map(ToOwned::to_owned) });
        let [capacity_type, instance_type, zone] = [capacity_type, instance_type, zone].map(str::to_owned);
        OfferingKey { capacity_type, instance_type, zone, group }
    }

    fn wanted<'a>(zone: &'a str, subnets: &'a [&'a str]) -> Wanted<'a> {
        Wanted { capacity_type: "spot", instance_type: "m5.large", zone, subnets, group_id: None, partition: None }
    }

    /// AWS-141, AWS-142, AC-146: marks of offerings, capacity types and subnets, three minutes each, longer when marked again.
    #[test]
    fn marks_last_three_minutes() {
        let mut marks = Unavailable::default();
        marks.mark_offering(key("spot", "m5.large", "a", None), at(0));
        assert!(marks.holds(&wanted("a", &["s1"]), at(179)));
        assert!(!marks.holds(&wanted("a", &["s1"]), at(180)));
        assert!(!marks.holds(&wanted("b", &["s1"]), at(0)));
        marks.mark_offering(key("spot", "m5.large", "a", None), at(100));
        assert!(marks.holds(&wanted("a", &["s1"]), at(279)));

        let mut marks = Unavailable::default();
        marks.mark_capacity_type("spot", at(0));
        assert!(marks.holds(&wanted("a", &[]), at(10)));
        assert!(!marks.holds(&Wanted { capacity_type: "on-demand", ..wanted("a", &[]) }, at(10)));

        let mut marks = Unavailable::default();
        marks.mark_subnet("s1", at(0));
        assert!(!marks.holds(&wanted("a", &["s1", "s2"]), at(10)), "another subnet is left");
        marks.mark_subnet("s2", at(0));
        assert!(marks.holds(&wanted("a", &["s1", "s2"]), at(10)));
        assert!(!marks.holds(&wanted("a", &[]), at(10)), "no subnets, nothing to be marked");
    }

    /// AWS-143, AC-153: marks of a group hold for that group only, those of a partition for that partition only.
    #[test]
    fn marks_of_placement_groups() {
        let mut marks = Unavailable::default();
        marks.mark_offering(key("spot", "m5.large", "a", Some(("pg-1", None))), at(0));
        marks.mark_offering(key("spot", "m5.large", "b", Some(("pg-1", Some("2")))), at(0));
        marks.mark_offering(key("spot", "m5.large", "c", None), at(0));
        for (zone, group_id, partition, want) in [
            ("a", None, None, false),
            ("a", Some("pg-1"), None, true),
            ("a", Some("pg-1"), Some("1"), true),
            ("a", Some("pg-2"), None, false),
            ("b", Some("pg-1"), Some("2"), true),
            ("b", Some("pg-1"), Some("1"), false),
            ("b", Some("pg-1"), None, false),
            ("c", Some("pg-1"), Some("1"), true),
        ] {
            let wanted = Wanted { group_id, partition, ..wanted(zone, &[]) };
            assert_eq!(marks.holds(&wanted, at(1)), want, "{wanted:?}");
        }
    }

    /// AWS-144, AC-144, AC-145.
    #[test]
    fn sequence_numbers() {
        let mut marks = Unavailable::default();
        let both = |marks: &Unavailable| (marks.sequence("m5.large"), marks.sequence("m5.xlarge"));
        assert_eq!(both(&marks), (0, 0));
        marks.mark_offering(key("on-demand", "m5.large", "a", None), at(0));
        assert_eq!(both(&marks), (1, 0));
        marks.mark_offering(key("on-demand", "m5.large", "a", None), at(1));
        assert_eq!(both(&marks), (2, 0));
        marks.mark_offering(key("on-demand", "m5.xlarge", "a", None), at(2));
        assert_eq!(both(&marks), (2, 1));
        marks.mark_capacity_type("spot", at(3));
        assert_eq!(both(&marks), (3, 2));
        marks.mark_subnet("subnet-1", at(4));
        assert_eq!(both(&marks), (4, 3));
        for (second, want) in [(180, (4, 3)), (181, (5, 3)), (182, (5, 4)), (183, (6, 5)), (184, (7, 6)), (999, (7, 6))]
        {
            marks.sweep(at(second));
            assert_eq!(both(&marks), want, "after {second} s");
        }
    }
}
