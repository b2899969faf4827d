//! Leaders that die in the middle of a command.

use karpenter_apiserver::{Fault, Rule, Verb};
use serde_json::json;

use super::commands::drifting;
use super::desk::Desk;
use super::disrupting::{LARGE, SMALL, add_node, add_pool, is_going, is_tainted, join, on, replacements};
use super::*;
use crate::disruption::record::COMMAND;

/// Machines come up, and whoever dies is followed by another, until the node goes. How often somebody died.
async fn live(desk: &mut Desk, old: &str) -> usize {
    let mut deaths = 0;
    desk.work(0).await;
    for _ in 0..60 {
        if is_going(desk.get(old).await.as_ref()) {
            return deaths;
        }
        let api = desk.api.clone();
        tokio::select! {
            biased;
            () = api.stopped() => {
                deaths += 1;
                api.clear_faults();
                desk.work(0).await;
            }
            () = desk.wait(5) => {}
        }
        for claim in replacements(desk).await {
            let launched = claim.status.as_ref().is_some_and(|status| status.provider_id.is_some());
            if launched && !is_going(Some(&claim)) && desk.get::<Node>(&claim.name_any()).await.is_none() {
                join(desk, &claim).await;
            }
        }
    }
    panic!("{old} is still there: {:#?}", desk.all::<NodeClaim>().await);
}

/// X24, D7, DIS-5, DC-2, LC-133, LC-134: whatever write the leader dies at, before or after it was carried out, whoever follows brings
/// the command to its end: one replacement, nothing bought twice, and nothing left of the command on what stays.
#[tokio::test(start_paused = true)]
async fn a_leader_may_die_at_any_step_of_a_replacement() {
    let mut died = Vec::new();
    for fault in [Fault::StopBefore, Fault::StopAfter] {
        for (kind, verb, writes) in [
            ("NodeClaim", Verb::Patch, 9),
            // The taint; later ones are also those of whoever plays the machines here.
            ("Node", Verb::Patch, 1),
            ("NodeClaim", Verb::Create, 1),
            ("NodeClaim", Verb::Delete, 1),
        ] {
            for nth in 1..=writes {
                let case = format!("{fault:?} {verb:?} {kind} {nth}");
                let mut desk = drifting(&["old"]).await;
                desk.api.add_fault(Rule::new(fault.clone()).kind(kind).verb(verb).nth(nth).times(1));
                let deaths = live(&mut desk, "old").await;
                desk.api.clear_faults();
                died.extend((deaths > 0).then(|| (format!("{verb:?} {kind}"), nth)));
                let staying: Vec<NodeClaim> = desk.all().await;
                let staying: Vec<&NodeClaim> = staying.iter().filter(|claim| !is_going(Some(claim))).collect();
                let [new] = &staying[..] else { panic!("{case}: {staying:#?}") };
                assert_ne!(new.name_any(), "old", "{case}");
                assert!(!new.annotations().contains_key(COMMAND), "{case}");
                assert!(!is_tainted(&desk, &new.name_any()).await, "{case}");
                assert_eq!(desk.shop.book().launched.len(), 2, "{case}: bought once");
            }
        }
    }
    for write in ["Patch NodeClaim", "Patch Node", "Create NodeClaim", "Delete NodeClaim"] {
        assert!(died.iter().filter(|(died, nth)| died == write && *nth == 1).count() == 2, "{write}: {died:?}");
    }
}

/// X24, DIS-5, LC-133: the same for nodes that go without anything in their place; they may be decided on anew.
#[tokio::test(start_paused = true)]
async fn a_leader_may_die_at_any_step_of_a_deletion() {
    let mut deaths = 0;
    for fault in [Fault::StopBefore, Fault::StopAfter] {
        for (kind, verb, writes) in
            [("NodeClaim", Verb::Patch, 4), ("Node", Verb::Patch, 1), ("NodeClaim", Verb::Delete, 1)]
        {
            for nth in 1..=writes {
                let case = format!("{fault:?} {verb:?} {kind} {nth}");
                let mut desk = Desk::start().await;
                add_pool(&desk, "blue", json!({ "consolidationPolicy": "WhenEmpty" })).await;
                add_node(&desk, "empty", SMALL, json!({})).await;
                add_node(&desk, "used", LARGE, json!({})).await;
                desk.add_pod("web", on("used", "500m")).await;
                desk.api.add_fault(Rule::new(fault.clone()).kind(kind).verb(verb).nth(nth).times(1));
                deaths += live(&mut desk, "empty").await;
                desk.api.clear_faults();
                assert!(!is_going(desk.get("used").await.as_ref()), "{case}");
                assert!(!is_tainted(&desk, "used").await, "{case}");
                assert_eq!(desk.shop.book().launched.len(), 2, "{case}: nothing is bought");
            }
        }
    }
    assert!(deaths >= 6, "{deaths}");
}

/// LC-133, Z34: a condition that a dead leader left on a node which was never ready is cleared too.
#[tokio::test(start_paused = true)]
async fn what_is_left_on_a_node_that_was_never_ready_is_cleared() {
    let mut desk = Desk::start().await;
    add_pool(&desk, "blue", json!({ "consolidateAfter": "Never" })).await;
    add_node(&desk, "a", SMALL, json!({ "metadata": { "annotations": { COMMAND: "{}" } } })).await;
    desk.change::<Node>("a", json!({ "metadata": { "labels": { "karpenter.sh/initialized": null } } })).await;
    desk.set_ready("a", "False").await;
    let conditions = ["Launched", "Registered", "DisruptionReason"].map(|type_| desk.condition(type_, "True"));
    desk.set_status::<NodeClaim>("a", json!({ "conditions": conditions })).await;
    let taint = json!([{ "key": "karpenter.sh/disrupted", "effect": "NoSchedule" }]);
    desk.change::<Node>("a", json!({ "spec": { "taints": taint } })).await;
    desk.work(20).await;
    let claim = desk.claim("a").await;
    assert_eq!(
        super::desk::says(karpenter_api::conditions::Conditioned::conditions(&claim), "DisruptionReason"),
        ("", "")
    );
    assert!(!is_tainted(&desk, "a").await);
    assert!(!claim.annotations().contains_key(COMMAND));
}
