//! What the controllers of AWS tell: events, metrics and logs that have no place in the core.

use jiff::SignedDuration;
use karpenter_api::conditions::Conditioned as _;
use karpenter_api::kinds::EC2NodeClass;
use karpenter_api::names::conditions::READY;
use karpenter_controllers::events::{Event, EventType, Subject};
use kube::ResourceExt as _;

use crate::Aws;

/// The same thing is not said again for so long.
const USUAL: SignedDuration = SignedDuration::from_mins(2);

pub(crate) fn event(subject: &Subject, type_: EventType, reason: &str, message: &str) -> Event {
    Event {
        subject: subject.clone(),
        type_,
        reason: reason.to_owned(),
        message: message.to_owned(),
        dedupe: vec![subject.uid.clone()],
        timeout: USUAL,
        budget: None,
    }
}

/// The first five, and how many more there are (AWS-39).
fn some_names(names: &[String]) -> String {
    let shown = names.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(5) {
        0 => shown,
        more => format!("{shown} and {more} other(s)"),
    }
}

impl Aws {
    /// A class is to go and claims still use it (AWS-289).
    pub(crate) fn report_waiting(&self, class: &EC2NodeClass, claims: &[String]) {
        tracing::info!(nodeclass = class.name_any(), claims = claims.len(), "nodeclass waits for its nodeclaims");
        let message = format!("Waiting on NodeClaim termination for {}", some_names(claims));
        let mut event = event(&Subject::of(class), EventType::Normal, "WaitingOnNodeClaimTermination", &message);
        event.dedupe.push(message);
        self.ctx.report.events.publish(event);
    }
}

/// Said once, when it changes; conditions and their events say the rest.
pub(crate) fn readiness_changed(before: &EC2NodeClass, after: &EC2NodeClass) {
    let ready = |class: &EC2NodeClass| class.condition(READY).map(|ready| ready.status);
    if ready(before) == ready(after) {
        return;
    }
    let (status, why) = after.condition(READY).map_or(("", ""), |now| (now.status.as_str(), now.message.as_str()));
    tracing::info!(nodeclass = after.name_any(), ready = status, why, "readiness of nodeclass changed");
}
