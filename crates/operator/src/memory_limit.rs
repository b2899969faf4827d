//! What is done when memory is short: nothing is kept that only saves time, and whoever reads the log is told (API-156).
//!
//! The target tells Go's collector how hard to work. Here memory is freed when its owner is gone, so all that can be given up
//! are tables that are kept from pass to pass; without them a pass takes longer. What the cluster itself needs stays: a
//! controller that forgets pods would be wrong, one that is killed starts again.

use std::sync::Arc;
use std::time::Duration;

use karpenter_controllers::Context;

use crate::process;

/// Nothing grows much faster than that but the first lists.
const EVERY: Duration = Duration::from_secs(10);
/// Memory is short until this much of the target is free again, so that the state does not flap.
const SLACK: f64 = 0.1;

/// Looks at the memory of the process until it ends. Without a target nobody looks.
pub(crate) fn watch(target: Option<i64>, context: &Arc<Context>) {
    let Some(target) = target else { return };
    let context = Arc::downgrade(context);
    tokio::spawn(async move {
        let mut target = Target::new(target);
        loop {
            tokio::time::sleep(EVERY).await;
            let (Some(context), Some(used)) = (context.upgrade(), process::resident_bytes()) else { return };
            match target.look(used) {
                Some(Supply::Short) => {
                    tracing::warn!(
                        used_bytes = used,
                        target_bytes = target.bytes,
                        "memory is short, passes keep nothing; raise the memory limit of the container"
                    );
                    context.be_frugal(true);
                }
                Some(Supply::Enough) => {
                    tracing::info!(used_bytes = used, target_bytes = target.bytes, "there is enough memory again");
                    context.be_frugal(false);
                }
                None => {}
            }
        }
    });
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Supply {
    Enough,
    Short,
}

#[derive(Debug)]
struct Target {
    bytes: f64,
    supply: Supply,
}

impl Target {
    #[expect(clippy::cast_precision_loss, reason = "nobody counts petabytes to the byte")]
    fn new(bytes: i64) -> Self {
        Self { bytes: bytes as f64, supply: Supply::Enough }
    }

    /// What has changed.
    fn look(&mut self, used: f64) -> Option<Supply> {
        let now = match self.supply {
            Supply::Enough if used > self.bytes => Supply::Short,
            Supply::Short if used < self.bytes * (1.0 - SLACK) => Supply::Enough,
            _ => return None,
        };
        self.supply = now;
        Some(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-156: short above the target, enough well below it, and each is said once.
    #[test]
    fn memory_is_short_above_the_target() {
        let mut target = Target::new(1000);
        for (used, want) in [
            (900.0, None),
            (1001.0, Some(Supply::Short)),
            (2000.0, None),
            (950.0, None),
            (899.0, Some(Supply::Enough)),
            (1000.0, None),
            (1001.0, Some(Supply::Short)),
        ] {
            assert_eq!(target.look(used), want, "{used}");
        }
        assert!(process::resident_bytes().is_some_and(|used| used > 1e6));
    }
}
