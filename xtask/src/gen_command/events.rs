//! The page about events.

use std::fmt::Write as _;

use karpenter_aws::interruption::messages::Kind;
use karpenter_aws::interruption::reactions::{TERMINATING, TERMINATING_NODE, notice};
use karpenter_aws::provider::Notice;

/// Of messages and of instance status, in the order of the page.
const KINDS: [Kind; 9] = [
    Kind::SpotInterrupted,
    Kind::RebalanceRecommendation,
    Kind::CapacityReservationInterrupted,
    Kind::InstanceStopped,
    Kind::InstanceTerminated,
    Kind::ScheduledChange,
    Kind::InstanceStatus,
    Kind::SystemStatus,
    Kind::EventStatus,
];

/// Said by `aws-controllers`, which uses the SDK and is not built for this: object, type, reason, message.
const OTHERS: [[&str; 4]; 3] = [
    ["EC2NodeClass", "Normal", "WaitingOnNodeClaimTermination", "Waiting on NodeClaim termination for NODECLAIMS"],
    ["NodePool", "Warning", "ZonalShiftActive", "Zonal shift away from ZONE is active, nothing is launched there"],
    ["NodePool", "Normal", "ZonalShiftCleared", "Zonal shift away from ZONE is over"],
];

pub(super) fn page() -> String {
    format!(
        "# Events\n\n\
         Written by `cargo xtask gen` from the code; do not edit. Words in capitals stand for what differs. An event about the same\n\
         object that says the same is not repeated within the pause; `always` has none.\n\n\
         ```sh\nkubectl get events -A --field-selector source=karpenter\n```\n\n\
         | object | type | reason | message | pause |\n|---|---|---|---|---|\n{}\n\
         ## AWS\n\n| object | type | reason | message |\n|---|---|---|---|\n{}",
        karpenter_controllers::events::reference(),
        of_aws()
    )
}

fn of_aws() -> String {
    let type_ = |warning: bool| if warning { "Warning" } else { "Normal" };
    let mut rows: Vec<[&str; 4]> = Vec::new();
    for said in KINDS.into_iter().filter_map(notice) {
        let row = ["NodeClaim, Node", type_(said.warning), said.reason, said.message];
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    rows.push(["NodeClaim", type_(TERMINATING.warning), TERMINATING.reason, TERMINATING.message]);
    rows.push(["Node", type_(TERMINATING.warning), TERMINATING.reason, TERMINATING_NODE]);
    rows.push(["NodePool, NodeClaim", "Warning", "", Notice::NoClassForPool("").message()]);
    rows.push(["NodeClaim", "Warning", "", Notice::SPOT_ROLE_MISSING]);
    rows.extend(OTHERS);
    let mut out = String::new();
    for [object, type_, reason, message] in rows {
        let reason = if reason.is_empty() { "–".to_owned() } else { format!("`{reason}`") };
        // Writing to a string cannot fail.
        let _ = writeln!(out, "| {object} | {type_} | {reason} | {message} |");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// AWS-238: what cannot be asked for is compared with the source, word for word and in both directions.
    #[test]
    fn events_of_the_controllers_of_aws_are_on_the_page() {
        let report = include_str!("../../../crates/aws-controllers/src/report.rs");
        let shifts = include_str!("../../../crates/aws-controllers/src/zonal_shift.rs");
        let source = format!("{report}{shifts}");
        for [_, type_, reason, message] in OTHERS {
            assert!(source.contains(&format!("EventType::{type_}, \"{reason}\"")), "{reason}");
            let constant = message.split("NODECLAIMS").flat_map(|part| part.split("ZONE"));
            for part in constant.filter(|part| !part.is_empty()) {
                assert!(source.contains(part), "{reason}: {part:?}");
            }
        }
        let said = source
            .split("EventType::")
            .filter(|rest| rest.starts_with("Normal, \"") || rest.starts_with("Warning, \""));
        assert_eq!(said.count(), OTHERS.len(), "an event is not on the page");
    }

    /// AWS-218: every kind but the one that nobody hears of.
    #[test]
    fn every_kind_of_message_is_on_the_page() {
        let page = of_aws();
        for kind in KINDS {
            assert!(page.contains(notice(kind).unwrap().reason), "{kind:?}");
        }
        assert_eq!(notice(Kind::NoOp), None);
    }
}
