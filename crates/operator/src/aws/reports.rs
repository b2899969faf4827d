//! Metrics and events of what the provider does between its answers (§8).

use jiff::SignedDuration;
use karpenter_aws::batching::Observer;
use karpenter_aws::launch::failures::LaunchFailure;
use karpenter_aws::provider::{Notice, Reports};
use karpenter_controllers::events::{Event, EventType, Subject};
use kube::ResourceExt as _;

use super::ClusterObjects;

/// The same thing is not said again for so long.
const USUAL: SignedDuration = SignedDuration::from_mins(2);

impl Observer for ClusterObjects {
    fn batch_sent(&self, batcher: &'static str, size: usize, waited: SignedDuration) {
        let Some(context) = self.context() else { return };
        let metrics = &context.report.metrics.all;
        // Batches are of a thousand at most.
        metrics.batch_size.observe([batcher], f64::from(u32::try_from(size).unwrap_or(u32::MAX)));
        metrics.batch_time.observe([batcher], waited.as_secs_f64());
    }
}

impl Reports for ClusterObjects {
    fn launch_failed(&self, failure: &LaunchFailure) {
        let Some(context) = self.context() else { return };
        let LaunchFailure { zone, zone_id, capacity_type, reason } = failure;
        context.report.metrics.all.instance_launch_failures.increment([zone.as_str(), zone_id, capacity_type, reason]);
    }

    fn termination_failed(&self, zone: &str, zone_id: &str) {
        let Some(context) = self.context() else { return };
        context.report.metrics.all.instance_termination_failures.increment([zone, zone_id]);
    }

    fn user_data_rendered(&self, class: &str, bytes: usize) {
        let Some(context) = self.context() else { return };
        // EC2 takes sixteen KiB.
        context.report.metrics.all.userdata_bytes.set([class], f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)));
    }

    fn class_gone(&self, class: &str) {
        let Some(context) = self.context() else { return };
        context.report.metrics.all.userdata_bytes.remove([class]);
    }

    fn notice(&self, notice: Notice<'_>) {
        let Some(context) = self.context() else { return };
        // At the start a class that has not come yet is not missing.
        let is_about_class = matches!(notice, Notice::NoClassForClaim(_) | Notice::NoClassForPool(_));
        if is_about_class && !context.node_classes.is_listed() {
            return;
        }
        let subject = match &notice {
            Notice::NoClassForClaim(claim) | Notice::SpotRoleMissing(claim) => Subject::claim(&claim.name, &claim.uid),
            Notice::NoClassForPool(pool) => {
                let uid = context.pools.get(pool).and_then(|pool| pool.uid()).unwrap_or_default();
                Subject::pool(pool, &uid)
            }
        };
        context.report.events.publish(Event {
            dedupe: vec![subject.uid.clone(), notice.message().to_owned()],
            subject,
            type_: EventType::Warning,
            // They have none (AWS-238).
            reason: String::new(),
            message: notice.message().to_owned(),
            timeout: USUAL,
            budget: None,
        });
    }
}
