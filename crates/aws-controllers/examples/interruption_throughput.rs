//! How many interruption messages are handled in a second: claims in an API in the process, messages in a queue in memory.
//!
//! `cargo run --release -p karpenter-aws-controllers --example interruption_throughput [MESSAGES]`

#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::unwrap_used, clippy::needless_pass_by_value, reason = "not a part of the product")]

#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/it/account.rs"]
mod account;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/it/desk.rs"]
mod desk;
#[allow(dead_code, reason = "tests use the rest")]
#[path = "../tests/it/provider.rs"]
mod provider;

use std::time::Instant;

use karpenter_api::kinds::NodeClaim;
use karpenter_aws::cloud::QueueMessage;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use desk::Desk;

/// As many as the target is measured with.
const USUAL: usize = 15_000;

/// Nothing waits for real time: what is measured is work.
#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(USUAL);
    let desk = Desk::start().await;
    for number in 0..count {
        add_claim(&desk, number).await;
    }
    desk.look().await;
    {
        let mut state = desk.account.state();
        for number in 0..count {
            let body = json!({
                "version": "0", "source": "aws.ec2", "detail-type": "EC2 Spot Instance Interruption Warning",
                "time": "2026-01-01T00:00:00Z", "detail": { "instance-id": format!("i-{number}") },
            });
            state.messages.push_back(QueueMessage { body: body.to_string(), receipt: number.to_string() });
        }
    }
    let started = Instant::now();
    while desk.account.state().deleted.len() < count {
        desk.wait(1).await;
    }
    let seconds = started.elapsed().as_secs_f64();
    let metric = &desk.aws.ctx.report.metrics.all.nodeclaims_disrupted;
    let deleted = metric.value(["spot_interrupted", "pool", "spot", "", "graceful"]).unwrap_or_default();
    let rate = f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / seconds;
    println!("{count} messages, {deleted} claims deleted, {seconds:.1} s, {rate:.0} messages/s");
}

async fn add_claim(desk: &Desk, number: usize) {
    let api: Api<NodeClaim> = Api::all(desk.client.clone());
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
    let claim = serde_json::from_value(claim).expect("it is a claim");
    api.create(&PostParams::default(), &claim).await.expect("the API is empty");
    let status = json!({ "status": { "providerID": format!("aws:///test-zone-1a/i-{number}") } });
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.expect("it was just made");
}
