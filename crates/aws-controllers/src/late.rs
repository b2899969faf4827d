//! What the provider needs of the cluster, before there is anything that watches it: the context is made with the provider.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};

use async_trait::async_trait;
use jiff::SignedDuration;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_aws::batching::Observer;
use karpenter_aws::launch::failures::LaunchFailure;
use karpenter_aws::provider::{ClaimLabels, NodeClasses, Notice, Reports};
use karpenter_controllers::Context;
use karpenter_controllers::events::{EventType, Subject};
use karpenter_controllers::metrics::Catalogue;
use karpenter_platform::BoxError;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::report::event;

/// Nothing is known and nothing is told until it is bound.
#[derive(Debug, Default)]
pub struct Late(OnceLock<Weak<Context>>);

impl Late {
    /// The first context counts; a process has only one.
    pub(crate) fn bind(&self, ctx: &Arc<Context>) {
        let _ = self.0.set(Arc::downgrade(ctx));
    }

    fn ctx(&self) -> Option<Arc<Context>> {
        self.0.get().and_then(Weak::upgrade)
    }

    fn metrics(&self, change: impl FnOnce(&Catalogue)) {
        if let Some(ctx) = self.ctx() {
            change(&ctx.report.metrics.all);
        }
    }
}

/// The class as the API last had it, if it can be read.
pub(crate) fn class(ctx: &Context, name: &str) -> Result<Option<EC2NodeClass>, serde_json::Error> {
    let Some(stored) = ctx.node_classes.get(name) else { return Ok(None) };
    serde_json::to_value(stored.as_ref()).and_then(serde_json::from_value).map(Some)
}

impl NodeClasses for Late {
    fn get(&self, name: &str) -> Option<Arc<EC2NodeClass>> {
        // Whoever looks after the class says what is wrong with it.
        class(self.ctx()?.as_ref(), name).ok().flatten().map(Arc::new)
    }
}

impl Observer for Late {
    fn batch_sent(&self, batcher: &'static str, size: usize, waited: SignedDuration) {
        self.metrics(|all| {
            all.batch_size.observe([batcher], f64::from(u32::try_from(size).unwrap_or(u32::MAX)));
            all.batch_time.observe([batcher], waited.as_secs_f64());
        });
    }
}

impl Reports for Late {
    fn launch_failed(&self, failure: &LaunchFailure) {
        let LaunchFailure { zone, zone_id, capacity_type, reason } = failure;
        self.metrics(|all| all.instance_launch_failures.increment([zone, zone_id, capacity_type, reason]));
    }

    fn termination_failed(&self, zone: &str, zone_id: &str) {
        self.metrics(|all| all.instance_termination_failures.increment([zone, zone_id]));
    }

    fn user_data_rendered(&self, class: &str, bytes: usize) {
        self.metrics(|all| all.userdata_bytes.set([class], f64::from(u32::try_from(bytes).unwrap_or(u32::MAX))));
    }

    fn class_gone(&self, class: &str) {
        self.metrics(|all| all.userdata_bytes.remove([class]));
    }

    /// Without a reason, as they always were (AWS-238).
    fn notice(&self, notice: Notice<'_>) {
        let Some(ctx) = self.ctx() else { return };
        let subject = match notice {
            Notice::NoClassForClaim(claim) | Notice::SpotRoleMissing(claim) => Subject::claim(&claim.name, &claim.uid),
            Notice::NoClassForPool(name) => {
                let pool = ctx.state().pool(name).cloned();
                let Some(pool) = pool else { return };
                Subject::pool(&pool.name, &pool.uid)
            }
        };
        let mut event = event(&subject, EventType::Warning, "", notice.message());
        event.dedupe.push(notice.message().to_owned());
        ctx.report.events.publish(event);
    }
}

#[async_trait]
impl ClaimLabels for Late {
    async fn set_label(&self, claim: &str, key: &str, value: &str) -> Result<(), BoxError> {
        let ctx = self.ctx().ok_or("the controllers have not started")?;
        let labels = BTreeMap::from([(key, value)]);
        let patch = Patch::Merge(json!({ "metadata": { "labels": labels } }));
        let written = ctx.claims_api().patch(claim, &PatchParams::default(), &patch).await?;
        ctx.note_claim(written);
        Ok(())
    }
}
