//! Each check is silent for what is allowed and finds what is not.

use serde_json::json;

use super::*;

#[test]
fn overfull_nodes_are_found() {
    let node =
        json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "3"}}});
    let pod = |name: usize, cpu: &str, phase: &str| {
        Arc::new(json!({
            "metadata": {"name": name.to_string(), "namespace": "default"}, "status": {"phase": phase},
            "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        }))
    };
    let nodes = [Arc::new(node)];
    let found = |pods: &[(&str, &str)]| {
        let pods: Vec<_> = pods.iter().enumerate().map(|(name, (cpu, phase))| pod(name, cpu, phase)).collect();
        let mut loads = Loads::default();
        loads.begin(&pods);
        loads.overfull(&nodes).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert!(found(&[("1", "Running"), ("1", "Pending"), ("9", "Succeeded")]).is_empty());
    let too_much = found(&[("1", "Running"), ("1001m", "Running")]);
    assert_eq!(too_much, ["node n is overfull: pods request 2001 of 2000 thousandths of cpu"]);
    let too_many = found(&[("0", "Running"), ("0", "Running"), ("0", "Running"), ("0", "Running")]);
    assert_eq!(too_many, ["node n is overfull: pods request 4000 of 3000 thousandths of pods"]);
}

/// What is kept by changes is what a look at everything would find, and stays found until it is so no more.
#[test]
fn loads_follow_what_is_written() {
    let pod = |name: &str, cpu: &str, phase: &str| {
        Arc::new(json!({
            "metadata": {"name": name, "namespace": "default"}, "status": {"phase": phase},
            "spec": {"nodeName": "n", "containers": [{"resources": {"requests": {"cpu": cpu}}}]},
        }))
    };
    let node = |cpu: &str| {
        [Arc::new(json!({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": cpu, "pods": "9"}}}))]
    };
    let mut loads = Loads::default();
    let mut write = |old: Option<&Arc<Value>>, new: Option<&Arc<Value>>, node: &[Arc<Value>]| {
        loads.note(&Written { at: Timestamp::UNIX_EPOCH, old: old.cloned(), new: new.cloned() });
        let orphans = loads.orphans(&[]).len();
        (loads.overfull(node).len(), orphans)
    };
    let (a, b, larger) = (pod("a", "1", "Running"), pod("b", "1", "Running"), pod("b", "1500m", "Running"));
    let (two, one) = (node("2"), node("1"));
    assert_eq!(write(None, Some(&a), &two), (0, 1));
    assert_eq!(write(None, Some(&b), &two), (0, 2));
    assert_eq!(write(Some(&b), Some(&larger), &two), (1, 2));
    assert_eq!(write(Some(&larger), Some(&larger), &two), (1, 2), "still so");
    assert_eq!(write(Some(&larger), Some(&pod("b", "1500m", "Failed")), &two), (0, 2), "it asks for nothing more");
    assert_eq!(write(None, Some(&pod("c", "1", "Running")), &two), (0, 3));
    assert_eq!(write(Some(&a), Some(&a), &one), (1, 3), "the node has become smaller");
    assert_eq!(write(Some(&a), None, &one), (0, 2));
}

#[test]
fn lost_pods_are_found_after_a_while() {
    let mut watcher = Watcher::new();
    let pods = [Arc::new(json!({"metadata": {"name": "p"}, "spec": {"nodeName": "gone"}}))];
    let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
    let mut lost = |pods: &[Arc<Value>], minute: i64| {
        watcher.loads.begin(pods);
        watcher.lost(&[], at(minute)).len()
    };
    assert_eq!((lost(&pods, 0), lost(&pods, 5), lost(&pods, 6)), (0, 0, 1));
    assert_eq!(lost(&[], 7), 0);
    assert_eq!(lost(&pods, 8), 0, "another pod of that name");
}

#[test]
fn budgets_must_not_be_broken_once_they_were_kept() {
    let of = |healthy: i64, desired: i64| {
        [Arc::new(json!({"metadata": {"name": "b"}, "status": {"currentHealthy": healthy, "desiredHealthy": desired}}))]
    };
    let budget = |healthy: i64| of(healthy, 2);
    let at = |minute: i64| Timestamp::from_second(minute * 60).unwrap();
    let mut watcher = Watcher::new();
    assert!(watcher.budgets(&budget(0), at(0)).is_empty(), "still starting");
    assert!(watcher.budgets(&budget(2), at(1)).is_empty());
    assert_eq!(watcher.budgets(&budget(1), at(2)).len(), 1);
    watcher.excuse(at(3));
    assert!(watcher.budgets(&budget(1), at(4)).is_empty(), "a machine was lost");
    assert!(watcher.budgets(&budget(1), at(30)).is_empty(), "and it has not recovered yet");
    assert!(watcher.budgets(&budget(2), at(31)).is_empty());
    assert!(watcher.budgets(&of(2, 3), at(32)).is_empty(), "more are asked for than there ever were");
    assert!(watcher.budgets(&of(3, 3), at(33)).is_empty());
    assert_eq!(watcher.budgets(&of(2, 3), at(34)).len(), 1);
}

fn at(minute: i64) -> Timestamp {
    Timestamp::from_second(minute * 60).unwrap()
}

#[test]
fn machines_need_a_claim_each_and_one_only() {
    let running = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(machine, claim)| ((*machine).to_owned(), (*claim).to_owned())).collect()
    };
    let claims = [Arc::new(json!({"metadata": {"name": "c", "uid": "u1"}}))];
    let (both, one) = (running(&[("m1", "u1"), ("m2", "u2")]), running(&[("m1", "u1")]));
    let mut watcher = Watcher::new();
    assert!(watcher.unclaimed(&claims, &both, at(0)).is_empty());
    assert!(watcher.unclaimed(&claims, &both, at(10)).is_empty(), "collection has its time");
    assert_eq!(watcher.unclaimed(&claims, &both, at(11)).len(), 1);
    assert!(watcher.unclaimed(&claims, &one, at(12)).is_empty());
    assert!(several(&both).is_empty());
    let twice = several(&running(&[("m1", "u1"), ("m2", "u1")]));
    assert_eq!(twice[0].to_string(), "claim u1 has several machines: m1, m2");
}

#[test]
fn claims_become_ready_or_go() {
    let claim = |ready: &str, deleted: bool| {
        let at = if deleted { json!("2026-01-01T00:00:00Z") } else { Value::Null };
        [Arc::new(json!({
            "metadata": {"name": "c", "deletionTimestamp": at},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))]
    };
    let mut watcher = Watcher::new();
    assert!(watcher.unfinished(&claim("Unknown", false), at(0)).is_empty());
    assert!(watcher.unfinished(&claim("Unknown", false), at(60)).is_empty());
    assert_eq!(watcher.unfinished(&claim("False", false), at(61)).len(), 1);
    assert!(watcher.unfinished(&claim("True", false), at(62)).is_empty());
    assert!(watcher.unfinished(&claim("True", true), at(63)).is_empty());
    assert_eq!(watcher.unfinished(&claim("True", true), at(124)).len(), 1);
}

/// SCH-78, SCH-239.
#[test]
fn limits_count_every_claim_that_stays_in_the_pool() {
    let pools = [Arc::new(json!({"metadata": {"name": "p"}, "spec": {"limits": {"cpu": "4", "memory": "1Ti"}}}))];
    let claim = |pool: &str, cpu: &str| {
        let labels = json!({"karpenter.sh/nodepool": pool});
        Arc::new(json!({"metadata": {"labels": labels}, "status": {"capacity": {"cpu": cpu, "pods": "9"}}}))
    };
    assert!(beyond_limits(&pools, &[claim("p", "2"), claim("p", "2"), claim("q", "9")]).is_empty());
    let mut leaving = (*claim("p", "9")).clone();
    leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(beyond_limits(&pools, &[claim("p", "2"), Arc::new(leaving)]).is_empty());
    let broken = beyond_limits(&pools, &[claim("p", "2"), claim("p", "2001m")]);
    let text: Vec<String> = broken.iter().map(ToString::to_string).collect();
    assert_eq!(text, ["nodepool p has 4001 of 4000 thousandths of cpu that its limits allow"]);
}

#[test]
fn churn_is_more_launches_than_pods_could_need() {
    let mut watcher = Watcher::new();
    let machine = |number: i64| BTreeMap::from([(format!("m{number}"), "u".to_owned())]);
    for minute in 0..16 {
        assert_eq!(watcher.churn(2, &machine(minute), at(minute)), None, "minute {minute}");
    }
    assert_eq!(watcher.churn(2, &machine(16), at(16)), Some(Violation::Churn { launches: 17, pods: 2 }));
    assert_eq!(watcher.churn(2, &machine(16), at(61)), None, "the first of them are forgotten");
}
