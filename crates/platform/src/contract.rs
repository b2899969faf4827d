//! The contract that every provider passes, as one suite (API-237 … API-247, API-250, API-257 … API-269, V15-27, V15-72, V15-82).
//!
//! A provider's tests fill [`Subject`] and assert that [`violations`] is empty. The suite talks to the provider only as
//! the controllers do; it knows nothing of what is behind it.

mod catalogue;
mod instances;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use karpenter_model::claim::ClaimView;
use karpenter_model::example;
use karpenter_model::pool::PoolView;
use karpenter_model::taints::Taint;

use crate::{CloudProvider, Instance, RepairPolicies};

/// A provider under test, with what only its own tests can know.
#[async_trait]
pub trait Subject: Send + Sync {
    fn provider(&self) -> Arc<dyn CloudProvider>;

    /// A pool of the provider's class.
    fn pool(&self) -> PoolView;

    /// A claim that nobody has asked for yet and that can be launched.
    async fn new_claim(&self) -> ClaimView;

    /// Waits until the instance's node has joined; the claim as it is then, with provider id and node name.
    async fn joined(&self, claim: &ClaimView, instance: &Instance) -> ClaimView;

    /// The taints that the claim's node had when it joined.
    async fn taints(&self, claim: &ClaimView) -> Vec<Taint>;

    /// What tells one start of the claim's machine from the next.
    async fn boot_id(&self, claim: &ClaimView) -> Option<String>;

    /// Lets this much time pass.
    async fn pause(&self, time: Duration);

    /// By then a listing shows what happened, a reboot is through and a terminated instance is gone.
    fn patience(&self) -> Duration;
}

/// How one rule was broken.
type Broken = String;
type Check = fn(&dyn Subject) -> BoxFuture<'_, Result<(), Broken>>;

/// Every rule with its check. Checks launch instances of their own and leave none behind that would disturb the next.
const CHECKS: &[(&str, Check)] = &[
    ("API-237 API-250 names itself and its node classes", |s| done(catalogue::names(s))),
    ("API-246 lists instance types, the same ones when asked again", |s| Box::pin(catalogue::types(s))),
    ("API-258 types define every well-known label", |s| Box::pin(catalogue::well_known_labels(s))),
    ("API-259 API-260 types have room for pods", |s| Box::pin(catalogue::amounts(s))),
    ("API-266 offerings name one zone and one capacity type, each pair once", |s| Box::pin(catalogue::offerings(s))),
    ("API-269 V15-82 reserved offerings say which reservation", |s| Box::pin(catalogue::reservations(s))),
    ("V15-27 V15-31 repair policies are a valid set, or none", |s| done(repair_policies(s))),
    ("API-254 registration hooks have names of their own", |s| done(hooks(s))),
    ("API-238 create resolves what the claim left open", |s| Box::pin(instances::create_resolves(s))),
    ("API-240 nodes join with the taint that keeps pods away", |s| Box::pin(instances::joins_guarded(s))),
    ("API-239 create asked again gives the same instance", |s| Box::pin(instances::create_repeats(s))),
    ("LIF-130 find knows what was launched for a claim that was not told", |s| Box::pin(instances::find(s))),
    ("API-241 create says when nothing fits", |s| Box::pin(instances::create_refuses(s))),
    ("API-244 API-245 get and list know what was created", |s| Box::pin(instances::get_and_list(s))),
    ("API-244 get does not know what never was", |s| Box::pin(instances::unknown(s))),
    ("API-242 API-244 delete ends in not found, for good", |s| Box::pin(instances::delete(s))),
    ("API-247 API-252 a new instance has not drifted", |s| Box::pin(instances::drift(s))),
    ("V15-72 one operation reboots once, or reboots are refused", |s| Box::pin(instances::reboot(s))),
];

fn done(answer: Result<(), Broken>) -> BoxFuture<'static, Result<(), Broken>> {
    Box::pin(std::future::ready(answer))
}

/// Every broken rule; empty for a provider that keeps the contract.
pub async fn violations(subject: &dyn Subject) -> Vec<String> {
    let mut violations = Vec::new();
    for (rule, check) in CHECKS {
        if let Err(how) = check(subject).await {
            violations.push(format!("{rule}: {how}"));
        }
    }
    violations
}

fn repair_policies(subject: &dyn Subject) -> Result<(), Broken> {
    let policies = subject.provider().repair_policies();
    ensure(policies == subject.provider().repair_policies(), || "they change".to_owned())?;
    if policies.is_empty() {
        return Ok(());
    }
    RepairPolicies::compile(&policies).map(|_| ()).map_err(|all| all.to_string())
}

fn hooks(subject: &dyn Subject) -> Result<(), Broken> {
    let provider = subject.provider();
    let mut names: Vec<&str> = provider.registration_hooks().iter().map(|hook| hook.name()).collect();
    names.sort_unstable();
    let unique = names.windows(2).all(|pair| pair[0] != pair[1]) && names.iter().all(|name| !name.is_empty());
    ensure(unique, || format!("{names:?}"))
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), Broken> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

/// A claim that asks for nothing, of nobody.
pub fn claim_view(name: &str, uid: &str) -> ClaimView {
    ClaimView { uid: uid.to_owned(), has_finalizer: true, ..example::claim(name) }
}

#[cfg(test)]
mod tests;
