//! How often planning allocates: a guard that needs no tool, where `make bench-instructions` needs valgrind.

use std::time::Duration;

use karpenter_bench::run::{Planner, solve};

/// Scenario, and how many allocations it may take: a tenth more than when this was written down. Whoever needs fewer
/// lowers the number, whoever needs more says why.
const BUDGETS: [(&str, u64); 4] = [("mix-1", 1_700), ("mix-1000", 7_000), ("mix-5000", 21_750), ("prefs-4000", 41_570)];

/// G1, G2, G5: everything compiled anew, the reference planner.
#[test]
fn planning_allocates_no_more_than_it_did() {
    for (name, most) in BUDGETS {
        let scenario = karpenter_bench::named(name).unwrap();
        let count = || {
            let info = allocation_counter::measure(|| {
                let solved = solve(&scenario, Planner::Reference, Duration::MAX);
                assert!(solved.plan.unplaced.is_empty() && !solved.stopped, "{name}");
            });
            info.count_total
        };
        let first = count();
        assert_eq!(first, count(), "{name}: the same work, the same allocations");
        assert!(first <= most && first >= most / 2, "{name}: {first} allocations, {most} allowed");
    }
}
