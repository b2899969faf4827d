//! Whether a claim's node has been quiet for long enough (condition `Consolidatable`; DIS-64 … DIS-68).

use jiff::Timestamp;
use karpenter_model::claim::ClaimView;
use karpenter_model::duration::{GoDuration, NillableDuration};
use karpenter_model::pool::PoolView;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consolidatable {
    /// Not ours to say: the condition stays as it is (DIS-65).
    Untouched,
    /// The condition is taken away; look again then.
    No {
        again: Option<Timestamp>,
    },
    Yes,
}

/// When the window of a quiet node ends; `None` for a node that is not initialized, or a pool that never consolidates.
pub fn window_end(claim: &ClaimView, consolidate_after: NillableDuration) -> Option<Timestamp> {
    let after = consolidate_after.duration()?;
    let quiet_since = claim.last_pod_event.or(claim.initialized.is_true().then_some(claim.initialized.since))?;
    Some(quiet_since.saturating_add(after.as_signed()).unwrap_or(Timestamp::MAX))
}

/// `pool` is `None` for a claim without a pool, or whose pool is gone.
pub fn consolidatable(claim: &ClaimView, pool: Option<&PoolView>, now: Timestamp) -> Consolidatable {
    let Some(pool) = pool.filter(|pool| pool.replicas.is_none() && claim.deleting_since.is_none()) else {
        return Consolidatable::Untouched;
    };
    if !claim.initialized.is_true() {
        return Consolidatable::No { again: None };
    }
    match window_end(claim, pool.consolidate_after) {
        None => Consolidatable::No { again: None },
        // No time at all is never inside the window, also when the clock went back (DIS-68).
        Some(_) if pool.consolidate_after.duration().is_some_and(GoDuration::is_zero) => Consolidatable::Yes,
        Some(end) if now < end => Consolidatable::No { again: Some(end) },
        Some(_) => Consolidatable::Yes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use karpenter_model::claim::{ConditionView, Status};
    use karpenter_model::example;

    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn claim(status: Status, last_pod_event: Option<i64>) -> ClaimView {
        ClaimView {
            initialized: ConditionView { status, since: time(100) },
            last_pod_event: last_pod_event.map(time),
            ..example::claim("a")
        }
    }

    fn after(seconds: i64) -> PoolView {
        let consolidate_after = NillableDuration::After(GoDuration::from_secs(seconds));
        PoolView { consolidate_after, ..example::pool("p") }
    }

    /// DIS-64, DIS-65, DIS-66, DIS-67, DIS-68, DC-61 … DC-64, API-79, LIF-110: a claim initialized at 100, looked at at 200.
    #[test]
    fn quiet_for_long_enough() {
        use Consolidatable::{No, Untouched, Yes};
        let never = PoolView { consolidate_after: NillableDuration::Never, ..after(0) };
        let fixed = PoolView { replicas: Some(1), ..after(60) };
        let going = ClaimView { deleting_since: Some(time(1)), ..claim(Status::True, None) };
        for (case, claim, pool, want) in [
            (
                "DC-61, a pod came just now",
                claim(Status::True, Some(200)),
                Some(after(60)),
                No { again: Some(time(260)) },
            ),
            ("DC-61, a minute later", claim(Status::True, Some(140)), Some(after(60)), Yes),
            ("DC-62, no pod ever", claim(Status::True, None), Some(after(60)), Yes),
            ("DC-62", claim(Status::True, None), Some(after(101)), No { again: Some(time(201)) }),
            ("DC-63, never", claim(Status::True, None), Some(never), No { again: None }),
            ("DC-63, not initialized", claim(Status::False, Some(1)), Some(after(0)), No { again: None }),
            ("DC-63, unknown", claim(Status::Unknown, Some(1)), Some(after(0)), No { again: None }),
            ("DIS-68, no window", claim(Status::True, Some(200)), Some(after(0)), Yes),
            ("DIS-68, a clock that went back", claim(Status::True, Some(500)), Some(after(0)), Yes),
            ("DC-64, static", claim(Status::True, None), Some(fixed), Untouched),
            ("DIS-65, no pool", claim(Status::True, None), None, Untouched),
            ("DIS-65, going", going, Some(after(0)), Untouched),
        ] {
            assert_eq!(consolidatable(&claim, pool.as_ref(), time(200)), want, "{case}");
        }
    }
}
