//! What a claim says about the command that it is part of, so that whoever leads next can carry it on or take it back (X24).
//!
//! The annotation is written before anything else happens to the node: a claim with it is part of a command, whatever
//! became of the process that started it.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karpenter_disruption::command::Decision;
use karpenter_disruption::methods::{Method, RepairOf};
use serde::{Deserialize, Serialize};

/// On claims that go: the command as [`Record`].
pub(crate) const COMMAND: &str = "karpenter.sh/disruption-command";
/// On claims that take their place: the command's id.
pub(crate) const REPLACES: &str = "karpenter.sh/replacement-for";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) method: MethodName,
    pub(crate) decision: DecisionName,
    pub(crate) started: Timestamp,
    /// How many claims go.
    pub(crate) nodes: usize,
    /// How many claims take their place.
    pub(crate) replacements: usize,
    /// What was wrong with the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) repair: Option<RepairRecord>,
}

/// What is done and counted when a sick node is deleted (V15-48, V15-50).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RepairRecord {
    pub(crate) condition: String,
    /// Pods have so many seconds to leave; `None`: as long as the claim says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bound_seconds: Option<i64>,
}

impl RepairRecord {
    pub(crate) fn of(repair: &RepairOf) -> Self {
        let bound_seconds = repair.bound.map(|bound| bound.as_secs());
        Self { condition: repair.condition_type.clone(), bound_seconds }
    }

    pub(crate) fn bound(&self) -> Option<SignedDuration> {
        self.bound_seconds.map(SignedDuration::from_secs)
    }
}

impl Record {
    pub(crate) fn of(annotations: &BTreeMap<String, String>) -> Option<Result<Self, serde_json::Error>> {
        annotations.get(COMMAND).map(|text| serde_json::from_str(text))
    }

    pub(crate) fn text(&self) -> String {
        // A struct of plain fields always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }

    pub(crate) fn method(&self) -> Method {
        self.method.into()
    }

    pub(crate) fn decision(&self) -> Decision {
        self.decision.into()
    }
}

macro_rules! names {
    ($name:ident for $of:ident { $($variant:ident),+ }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub(crate) enum $name { $($variant),+ }
        impl From<$of> for $name {
            fn from(value: $of) -> Self {
                match value { $($of::$variant => Self::$variant),+ }
            }
        }
        impl From<$name> for $of {
            fn from(value: $name) -> Self {
                match value { $($name::$variant => Self::$variant),+ }
            }
        }
    };
}

names!(MethodName for Method { Repair, Emptiness, StaticDrift, Drift, Multi, Single });
names!(DecisionName for Decision { NoOp, Delete, Replace, TerminateFirst, Reboot });

/// Names a command after what it is about and when it begins, in the form of a UUID (version 8: made by rules of our own). No
/// claim is part of two commands that begin at the same moment, so no two commands share a name, and no chance is needed.
pub(crate) fn identity<'a>(uids: impl IntoIterator<Item = &'a str>, started: Timestamp) -> String {
    let moment = started.as_nanosecond().to_be_bytes();
    let bytes = uids.into_iter().flat_map(|uid| uid.bytes().chain([0])).chain(moment);
    // FNV-1a with its 128-bit constants.
    let hash = bytes.fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b)
    });
    let marked = (hash & !(0xf << 76 | 0xc << 60)) | 0x8 << 76 | 0x8 << 60;
    let digits = format!("{marked:032x}");
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// X24: what was written is read back, by whoever comes next.
    #[test]
    fn a_record_is_read_as_it_was_written() {
        let record = Record {
            id: "u-1".to_owned(),
            method: Method::StaticDrift.into(),
            decision: Decision::TerminateFirst.into(),
            started: time(7),
            nodes: 2,
            replacements: 1,
            repair: None,
        };
        let text = record.text();
        assert_eq!(
            text,
            r#"{"id":"u-1","method":"static-drift","decision":"terminate-first","started":"1970-01-01T00:00:07Z","nodes":2,"replacements":1}"#
        );
        let annotations = |text: &str| [(COMMAND.to_owned(), text.to_owned())].into();
        assert_eq!(Record::of(&annotations(&text)).unwrap().unwrap(), record);
        assert!(Record::of(&annotations("{")).unwrap().is_err());
        assert!(Record::of(&BTreeMap::new()).is_none());
    }

    /// DIS-7: every command has a UUID of its own.
    #[test]
    fn names_differ_by_claims_and_time() {
        let names = [
            identity(["a", "b"], time(1)),
            identity(["ab"], time(1)),
            identity(["a", "b"], time(2)),
            identity(["b", "a"], time(1)),
        ];
        for (at, name) in names.iter().enumerate() {
            let groups: Vec<usize> = name.split('-').map(str::len).collect();
            assert_eq!(groups, [8, 4, 4, 4, 12], "{name}");
            assert_eq!((&name[14..15], &name[19..20] >= "8" && &name[19..20] <= "b"), ("8", true), "{name}");
            assert!(!names[..at].contains(name), "{name}");
        }
        assert_eq!(identity(["a", "b"], time(1)), names[0], "the same run again says the same");
    }
}
