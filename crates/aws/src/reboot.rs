//! Restarts of instances (§14.3).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use karpenter_platform::{CallError, RebootError};

use crate::cloud::ApiError;

/// EC2 takes no client token for a reboot, so we remember.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(30);

const CALL: &str = "RebootInstances";

/// Operations that EC2 has accepted (AWS-307).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceptedReboots(BTreeMap<String, Timestamp>);

impl AcceptedReboots {
    pub fn accepted(&mut self, operation: &str, now: Timestamp) {
        self.0.retain(|_, at| now.duration_since(*at) < REMEMBERED);
        self.0.insert(operation.to_owned(), now);
    }

    pub fn knows(&self, operation: &str, now: Timestamp) -> bool {
        self.0.get(operation).is_some_and(|at| now.duration_since(*at) < REMEMBERED)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NotNow(String);

/// Whether an instance in this state can be rebooted now.
pub fn rebootable(id: &str, state: &str, zone_is_shifted: bool) -> Result<(), RebootError> {
    let not_now = |why: String| Err(CallError::new(CALL, NotNow(why)).into());
    match state {
        "shutting-down" | "terminated" => Err(RebootError::NotFound(format!("instance {id} is {state}"))),
        _ if zone_is_shifted => not_now(format!("traffic is shifted away from the zone of instance {id}")),
        "running" => Ok(()),
        "stopping" | "stopped" => Err(RebootError::Failed(format!("instance {id} is {state}"))),
        _ => not_now(format!("instance {id} is {state}")),
    }
}

/// What an error of the call means: gone, hopeless or to be tried again (AWS-308).
pub fn reboot_error(id: &str, error: ApiError) -> RebootError {
    const HOPELESS: [&str; 4] =
        ["UnauthorizedOperation", "UnsupportedOperation", "InvalidInstanceID.Malformed", "IncorrectInstanceState"];
    if error.is_not_found() {
        RebootError::NotFound(format!("instance {id}"))
    } else if HOPELESS.contains(&error.code.as_str()) {
        RebootError::Failed(format!("instance {id}: {error}"))
    } else {
        CallError::new(CALL, error).into()
    }
}

#[cfg(test)]
mod tests {
    use karpenter_platform::Remedy;

    use super::*;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).unwrap()
    }

    /// AWS-307, AC-299: an operation that was accepted is not repeated for half an hour.
    #[test]
    fn one_operation_reboots_once() {
        let mut accepted = AcceptedReboots::default();
        assert!(!accepted.knows("op-1", at(0)));
        accepted.accepted("op-1", at(0));
        assert!(accepted.knows("op-1", at(29)) && !accepted.knows("op-2", at(29)) && !accepted.knows("op-1", at(30)));
        accepted.accepted("op-2", at(40));
        assert_eq!(accepted, AcceptedReboots(BTreeMap::from([("op-2".to_owned(), at(40))])));
    }

    fn kind(error: &RebootError) -> &'static str {
        match error {
            RebootError::NotFound(_) => "gone",
            RebootError::Failed(_) => "failed",
            RebootError::Call(_) => "again",
            RebootError::NotImplemented => "never",
        }
    }

    /// AWS-308, AC-300: states and codes.
    #[test]
    fn what_an_error_means() {
        for (state, shifted, want) in [
            ("running", false, None),
            ("running", true, Some("again")),
            ("pending", false, Some("again")),
            ("stopping", false, Some("failed")),
            ("stopped", false, Some("failed")),
            ("terminated", false, Some("gone")),
            ("shutting-down", true, Some("gone")),
        ] {
            assert_eq!(rebootable("i-1", state, shifted).err().as_ref().map(kind), want, "{state}");
        }
        for (code, want) in [
            ("InvalidInstanceID.NotFound", "gone"),
            ("UnauthorizedOperation", "failed"),
            ("UnsupportedOperation", "failed"),
            ("InvalidInstanceID.Malformed", "failed"),
            ("IncorrectInstanceState", "failed"),
            ("RequestLimitExceeded", "again"),
            ("", "again"),
        ] {
            let error = reboot_error("i-1", ApiError::new(code, "text"));
            assert_eq!(kind(&error), want, "{code}");
            assert_eq!(error.remedy() == Remedy::Backoff, want == "again", "{code}");
        }
    }
}
