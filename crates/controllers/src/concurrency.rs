//! How much each controller does at a time and how often it tries again (API-307, LIF-132).

/// Grows evenly with the processor from one core to sixty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Workers {
    Always(u32),
    Between(u32, u32),
}

const CORES: u32 = 60;

/// By controller. Expiration and pod events have one worker in the table, which makes a hundred claims that expire together
/// wait for each other; here they have what their like have (Y29).
const TABLE: &[(&str, Workers)] = &[
    ("nodeclaim.lifecycle", Workers::Between(1000, 5000)),
    ("nodeclaim.hydration", Workers::Between(1000, 5000)),
    ("node.termination", Workers::Between(100, 5000)),
    ("eviction-queue", Workers::Between(100, 5000)),
    ("nodeclaim.disruption", Workers::Between(10, 1000)),
    ("nodeclaim.consistency", Workers::Between(10, 1000)),
    ("nodeclaim.expiration", Workers::Between(10, 1000)),
    ("nodeclaim.podevents", Workers::Between(10, 1000)),
    ("node.health", Workers::Between(10, 1000)),
    ("nodepool.hash", Workers::Between(10, 1000)),
    ("nodepool.readiness", Workers::Between(10, 1000)),
    ("nodepool.registrationhealth", Workers::Between(10, 1000)),
    ("nodepool.counter", Workers::Between(10, 1000)),
    ("disruption.queue", Workers::Between(100, 1000)),
    ("dynamicresources.deviceallocation", Workers::Between(10, 3000)),
    ("pod.deletioncost.queue", Workers::Between(100, 5000)),
    ("nodeclaim.reboot", Workers::Always(10)),
    ("static.provisioning", Workers::Always(10)),
    ("static.deprovisioning", Workers::Always(10)),
    ("capacitybuffer", Workers::Always(10)),
    ("provisioner.translation", Workers::Always(10)),
    ("nodeclass", Workers::Always(10)),
    ("nodeclass.hash", Workers::Always(10)),
];

/// How many objects a controller works on at a time; one for controllers that the table does not know.
pub fn workers(controller: &str, cores: u32) -> usize {
    let row = TABLE.iter().find(|(name, _)| *name == controller).map(|(_, workers)| *workers);
    let count = match row.unwrap_or(Workers::Always(1)) {
        Workers::Always(count) => count,
        Workers::Between(least, most) => {
            let beyond = cores.clamp(1, CORES) - 1;
            least + (most - least) * beyond / (CORES - 1)
        }
    };
    usize::try_from(count).unwrap_or(1)
}

/// Retries per second of a controller, shared by all its objects; ten times as many at once.
pub fn retries_per_second(controller: &str, workers: usize) -> f64 {
    let workers = f64::from(u32::try_from(workers).unwrap_or(u32::MAX));
    match controller {
        "eviction-queue" => workers,
        "node.termination" => workers / 10.0,
        "nodeclaim.lifecycle" => workers / 100.0,
        _ => 10.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-307, V15-118, Y29: L(a,b) of the table.
    #[test]
    fn workers_grow_with_the_processor() {
        for (controller, at_1, at_2, at_60, at_100) in [
            ("nodeclaim.lifecycle", 1000, 1067, 5000, 5000),
            ("node.termination", 100, 183, 5000, 5000),
            ("eviction-queue", 100, 183, 5000, 5000),
            ("nodepool.hash", 10, 26, 1000, 1000),
            ("nodeclaim.expiration", 10, 26, 1000, 1000),
            ("static.provisioning", 10, 10, 10, 10),
            ("nodeclaim.reboot", 10, 10, 10, 10),
            ("pod.deletioncost.queue", 100, 183, 5000, 5000),
            ("pod.deletioncost", 1, 1, 1, 1),
            ("state.nodeclaimgc", 1, 1, 1, 1),
        ] {
            let got = [0, 1, 2, 60, 100].map(|cores| workers(controller, cores));
            assert_eq!(got, [at_1, at_1, at_2, at_60, at_100], "{controller}");
        }
    }

    /// LIF-132.
    #[test]
    fn retries_are_shared() {
        for (controller, want) in
            [("nodeclaim.lifecycle", 10.0), ("node.termination", 10.0), ("eviction-queue", 100.0), ("other", 10.0)]
        {
            let got = retries_per_second(controller, workers(controller, 1));
            assert!((got - want).abs() < 1e-9, "{controller}: {got}");
        }
    }
}
