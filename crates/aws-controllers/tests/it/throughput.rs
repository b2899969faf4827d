//! Many interruptions at once: claims in an API in the process, messages in a queue in memory.
//!
//! `INTERRUPTIONS=1500 cargo test --release -p karpenter-aws-controllers --test it interruptions_at_once -- --nocapture`

use std::time::Instant;

use karpenter_api::kinds::NodeClaim;
use karpenter_aws::cloud::QueueMessage;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::desk::Desk;

/// What the target is measured with.
const USUAL: usize = 15_000;

/// AWS-214, AWS-215, AC-258: none is lost, and none is handled twice to effect although every tenth one comes twice.
#[tokio::test(start_paused = true)]
async fn interruptions_at_once() {
    let count = std::env::var("INTERRUPTIONS").map_or(USUAL, |text| text.parse().unwrap());
    let desk = Desk::start().await;
    let api: Api<NodeClaim> = Api::all(desk.client.clone());
    for number in 0..count {
        add_claim(&api, number).await;
    }
    desk.look().await;
    let twice = (0..count).step_by(10);
    let numbers: Vec<usize> = (0..count).chain(twice).collect();
    let sent = numbers.len();
    desk.account.state().messages.extend(numbers.into_iter().enumerate().map(|(at, number)| message(at, number)));
    let started = Instant::now();
    while desk.account.state().deleted.len() < sent {
        desk.wait(1).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    let rate = f64::from(u32::try_from(sent).unwrap()) / seconds;
    println!("{sent} messages about {count} claims, {seconds:.1} s, {rate:.0} messages/s");

    desk.wait(60).await;
    let left = {
        let account = desk.account.state();
        (account.deleted.len(), account.messages.len(), account.hidden.len())
    };
    assert_eq!(left, (sent, 0, 0));
    let claims = api.list(&ListParams::default()).await.unwrap().items;
    let staying: Vec<String> =
        claims.iter().filter(|one| one.metadata.deletion_timestamp.is_none()).map(ResourceExt::name_any).collect();
    assert_eq!((claims.len(), staying), (count, vec![]), "every claim is going");
    let metrics = &desk.aws.ctx.report.metrics.all;
    let disrupted = metrics.nodeclaims_disrupted.value(["spot_interrupted", "pool", "spot", "", "graceful"]);
    let received = metrics.interruption_received.value(["spot_interrupted"]);
    let exactly = |number: usize| Some(f64::from(u32::try_from(number).unwrap()));
    assert_eq!((disrupted, received), (exactly(count), exactly(sent)), "each to effect once");
}

fn message(at: usize, number: usize) -> QueueMessage {
    let body = json!({
        "version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
        "time": "2026-01-01T00:00:00Z", "detail": { "instance-id": format!("i-{number}") },
    });
    QueueMessage { body: body.to_string(), receipt: at.to_string() }
}

async fn add_claim(api: &Api<NodeClaim>, number: usize) {
    let name = format!("claim-{number}");
    let claim = json!({
        "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
        "metadata": {
            "name": name, "finalizers": ["karpenter.sh/termination"],
            "labels": { "karpenter.sh/nodepool": "pool", "karpenter.sh/capacity-type": "spot",
                "node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "test-zone-1a" },
        },
        "spec": {
            "nodeClassRef": { "group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default" },
            "requirements": [],
        },
    });
    api.create(&PostParams::default(), &serde_json::from_value(claim).unwrap()).await.unwrap();
    let status = json!({ "status": { "providerID": format!("aws:///test-zone-1a/i-{number}") } });
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}
