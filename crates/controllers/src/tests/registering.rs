//! From an instance to a node in use.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use karpenter_api::conditions::Conditioned as _;
use karpenter_model::claim::ClaimView;
use karpenter_platform::{BoxError, HookState, RegistrationHook};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::desk::{Desk, Setup, says};
use super::*;
use crate::queue::Requeue;

/// Answers as it was told, then is satisfied.
#[derive(Default)]
struct Hook {
    name: &'static str,
    answers: Mutex<VecDeque<Result<HookState, BoxError>>>,
    asked: Mutex<usize>,
    /// Labels the claim with its own name.
    labels: Mutex<Option<kube::Client>>,
}

impl Hook {
    fn new(name: &'static str, answers: impl IntoIterator<Item = Result<HookState, BoxError>>) -> Arc<Self> {
        Arc::new(Self { name, answers: Mutex::new(answers.into_iter().collect()), ..Self::default() })
    }
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

#[async_trait]
impl RegistrationHook for Hook {
    fn name(&self) -> &str {
        self.name
    }

    async fn check(&self, claim: &ClaimView) -> Result<HookState, BoxError> {
        *self.asked.lock().unwrap() += 1;
        let client = self.labels.lock().unwrap().clone();
        if let Some(client) = client {
            let patch = Patch::Merge(json!({ "metadata": { "labels": { "hook": self.name } } }));
            Api::<NodeClaim>::all(client).patch(&claim.name, &PatchParams::default(), &patch).await?;
        }
        self.answers.lock().unwrap().pop_front().unwrap_or(Ok(HookState::Satisfied))
    }
}

fn pending(seconds: u64) -> HookState {
    HookState::Pending { again_after: Some(Duration::from_secs(seconds)) }
}

/// A claim with an instance, and its node as it joins.
async fn joined(hooks: Vec<Arc<dyn RegistrationHook>>) -> Desk {
    let desk = Desk::with(Setup { hooks, ..Setup::default() }).await;
    desk.add_launched("a", false, json!({})).await;
    let taint = json!({ "key": "karpenter.sh/unregistered", "effect": "NoExecute" });
    desk.add::<Node>(json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" },
        "spec": { "providerID": "shop://a", "taints": [taint] },
    }))
    .await;
    desk.set_ready("n", "True").await;
    desk.events();
    desk
}

async fn is_registered(desk: &Desk) -> bool {
    let node = desk.get::<Node>("n").await.unwrap();
    let claim = desk.claim("a").await;
    let label = node.labels().contains_key("karpenter.sh/registered");
    let taints = node.spec.unwrap().taints.unwrap_or_default();
    let guarded = taints.iter().any(|taint| taint.key == "karpenter.sh/unregistered");
    assert_eq!((label, guarded), (label, !label), "the guard goes when the label comes");
    let named = claim.status.as_ref().unwrap().node_name.as_deref() == Some("n");
    assert_eq!((says(claim.conditions(), "Registered").0 == "True", named), (label, label));
    label
}

/// LC-9, LC-10, LC-20, LIF-23, LIF-25, API-140: registered at once, with one owner, and once only.
#[tokio::test(start_paused = true)]
async fn a_node_is_registered() {
    let desk = joined(vec![]).await;
    let owner = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": "a", "uid": desk.claim("a").await.uid().unwrap(),
        "blockOwnerDeletion": true,
    });
    desk.change::<Node>("n", json!({ "metadata": { "ownerReferences": [owner] } })).await;
    desk.lifecycle("a").await.unwrap();
    assert!(is_registered(&desk).await);
    let node = desk.get::<Node>("n").await.unwrap();
    assert_eq!((node.owner_references().len(), node.finalizers()), (1, &["karpenter.sh/termination".to_owned()][..]));
    assert_eq!(desk.ctx.report.metrics.all.nodes_created.value(["", ""]), Some(1.0));
    desk.lifecycle("a").await.unwrap();
    assert_eq!(desk.ctx.report.metrics.all.nodes_created.value(["", ""]), Some(1.0));
}

/// LC-16, LC-17, LIF-24, API-254, API-255: all hooks are asked, all that wait are named, the shortest wait counts.
#[tokio::test(start_paused = true)]
async fn hooks_are_waited_for() {
    let (fast, slow) = (Hook::new("fast", [Ok(pending(5))]), Hook::new("slow", [Ok(pending(10))]));
    let desk = joined(vec![fast.clone(), slow.clone()]).await;
    assert_eq!(desk.lifecycle("a").await.unwrap(), Requeue::After(Duration::from_secs(5)));
    assert!(!is_registered(&desk).await);
    let claim = desk.claim("a").await;
    assert_eq!(says(claim.conditions(), "Registered"), ("Unknown", "RegistrationHookPending"));
    let message = &claim.condition("Registered").unwrap().message;
    assert!(message.contains("fast") && message.contains("slow"), "{message}");
    assert_eq!((*fast.asked.lock().unwrap(), *slow.asked.lock().unwrap()), (1, 1));
    desk.lifecycle("a").await.unwrap();
    assert!(is_registered(&desk).await);
}

/// LC-18, API-255: an error of a hook is the reconcile's.
#[tokio::test(start_paused = true)]
async fn hooks_may_fail() {
    let hook = Hook::new("broken", [Err("no".into())]);
    let desk = joined(vec![hook]).await;
    let error = desk.lifecycle("a").await.unwrap_err().to_string();
    assert!(error.contains("broken") && error.contains("no"), "{error}");
    assert!(!is_registered(&desk).await);
    assert_eq!(says(desk.claim("a").await.conditions(), "Registered").0, "Unknown");
}

/// LC-19, LIF-25, API-256: what a hook writes on the claim is on the node too.
#[tokio::test(start_paused = true)]
async fn hooks_may_label_the_claim() {
    let hook = Hook::new("labels", []);
    let desk = joined(vec![hook.clone()]).await;
    *hook.labels.lock().unwrap() = Some(desk.client.clone());
    for _ in 0..3 {
        // The hook's own write may come in between.
        let _ = desk.lifecycle("a").await;
    }
    assert!(is_registered(&desk).await);
    let (claim, node) = (desk.claim("a").await, desk.get::<Node>("n").await.unwrap());
    assert_eq!((&*claim.labels()["hook"], &*node.labels()["hook"]), ("labels", "labels"));
}

/// API-147, LIF-22, LC-11: a node that came without its guard is registered, and that is told.
#[tokio::test(start_paused = true)]
async fn a_missing_guard_is_told() {
    let desk = joined(vec![]).await;
    desk.change::<Node>("n", json!({ "spec": { "taints": [] } })).await;
    desk.lifecycle("a").await.unwrap();
    assert!(desk.reasons().contains(&"UnregisteredTaintMissing".to_owned()));
    assert!(is_registered(&desk).await);
}

/// LC-147, LIF-100, Y26: a success that met somebody else's write on the pool is recorded the second time.
#[tokio::test(start_paused = true)]
async fn a_success_is_not_lost() {
    let desk = joined(vec![]).await;
    let pool = desk.add_pool("blue", json!({})).await;
    let owner =
        json!({ "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": "blue", "uid": pool.uid().unwrap() });
    let metadata = json!({ "labels": { "karpenter.sh/nodepool": "blue" }, "ownerReferences": [owner] });
    desk.change::<NodeClaim>("a", json!({ "metadata": metadata })).await;
    desk.conflict("NodePool", "status", 1);
    assert!(desk.lifecycle("a").await.is_err());
    assert_eq!(says(desk.claim("a").await.conditions(), "Registered").0, "Unknown", "or nobody would look again");
    desk.lifecycle("a").await.unwrap();
    let pool = desk.get::<NodePool>("blue").await.unwrap();
    assert_eq!(says(pool.conditions(), "NodeRegistrationHealthy").0, "True");
    assert_eq!(says(desk.claim("a").await.conditions(), "Registered").0, "True");
}

/// LC-40, LIF-98, API-61: a pool answers for its own claims only, by UID.
#[tokio::test(start_paused = true)]
async fn a_pool_answers_for_its_own_claims() {
    let desk = joined(vec![]).await;
    desk.add_pool("blue", json!({})).await;
    let mut claim = desk.claim("a").await;
    claim.metadata.labels.get_or_insert_default().insert("karpenter.sh/nodepool".into(), "blue".into());
    let record = |uid: String| {
        let mut claim = claim.clone();
        claim.metadata.owner_references = Some(vec![OwnerReference {
            api_version: "karpenter.sh/v1".into(),
            kind: "NodePool".into(),
            name: "blue".into(),
            uid,
            ..OwnerReference::default()
        }]);
        let ctx = desk.ctx.clone();
        async move { crate::registration_health::record_outcome(&ctx, &claim, true).await.unwrap() }
    };
    record("of-an-older-one".to_owned()).await;
    let pool = desk.get::<NodePool>("blue").await.unwrap();
    assert_eq!(says(pool.conditions(), "NodeRegistrationHealthy"), ("", ""));
    record(pool.uid().unwrap()).await;
    let pool = desk.get::<NodePool>("blue").await.unwrap();
    assert_eq!(says(pool.conditions(), "NodeRegistrationHealthy").0, "True");
}

/// LIF-27, LIF-30, LC-21, LC-23: the node is labelled before the claim says so.
#[tokio::test(start_paused = true)]
async fn a_node_is_initialized() {
    let desk = joined(vec![]).await;
    desk.set_ready("n", "False").await;
    desk.lifecycle("a").await.unwrap();
    assert_eq!(says(desk.claim("a").await.conditions(), "Initialized"), ("Unknown", "NodeNotReady"));
    desk.set_ready("n", "True").await;
    // A node comes with a taint that the cluster takes off when it is ready.
    desk.change::<Node>("n", json!({ "spec": { "taints": [] } })).await;
    desk.lifecycle("a").await.unwrap();
    let node = desk.get::<Node>("n").await.unwrap();
    assert_eq!(node.labels()["karpenter.sh/initialized"], "true");
    let claim = desk.claim("a").await;
    assert_eq!(says(claim.conditions(), "Initialized").0, "True");
    assert_eq!(says(claim.conditions(), "Ready").0, "True", "LIF-5");
    desk.set_ready("n", "False").await;
    desk.lifecycle("a").await.unwrap();
    assert_eq!(says(desk.claim("a").await.conditions(), "Initialized").0, "True", "LC-33: it stays so");
}

/// LIF-25, LIF-30: what happened once is counted once, although the status had to be written again.
#[tokio::test(start_paused = true)]
async fn a_conflict_counts_nothing_twice() {
    let desk = joined(Vec::new()).await;
    desk.conflict("NodeClaim", "status", 2);
    let created = |desk: &Desk| desk.ctx.report.metrics.all.nodes_created.value(["", ""]);
    for _ in 0..2 {
        assert!(desk.lifecycle("a").await.is_err());
        assert_eq!(created(&desk), None, "not stored, not told");
    }
    desk.lifecycle("a").await.unwrap();
    desk.lifecycle("a").await.unwrap();
    assert!(is_registered(&desk).await);
    assert_eq!(created(&desk), Some(1.0));
}
