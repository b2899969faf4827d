//! What holds of every cluster.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::{Just, ProptestConfig, Strategy, any, prop_oneof};
use proptest::{prop_assert, prop_assert_eq, proptest};
use serde_json::{Value, json};

use super::{cluster, node, object, parsed, pod};
use crate::scheduler::{Cluster, Decision, decide, feasible};

fn any_node(index: usize) -> impl Strategy<Value = Value> {
    (1..5_u32, 1..5_u32, 1..6_u32, "[ab]", any::<bool>()).prop_map(move |(cpu, memory, pods, zone, tainted)| {
        let mut node = node(&format!("node-{index}"), &zone);
        node["status"]["allocatable"] =
            json!({"cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "pods": pods.to_string()});
        if tainted {
            node["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule"}]);
        }
        node
    })
}

fn any_nodes() -> impl Strategy<Value = Vec<Value>> {
    (any_node(0), any_node(1), any_node(2), any_node(3), 0..5_usize)
        .prop_map(|(a, b, c, d, count)| [a, b, c, d].into_iter().take(count).collect())
}

fn any_constraint() -> impl Strategy<Value = Value> {
    let selector = json!({"matchLabels": {"app": "web"}});
    let zone = "topology.kubernetes.io/zone";
    prop_oneof![
        3 => Just(json!({})),
        1 => Just(json!({"tolerations": [{"operator": "Exists"}]})),
        1 => Just(json!({"nodeSelector": {zone: "a"}})),
        1 => Just(json!({"topologySpreadConstraints": [
            {"topologyKey": zone, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector},
        ]})),
        1 => Just(json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector},
        ]}}})),
        1 => Just(json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": zone, "labelSelector": selector},
        ]}}})),
        1 => Just(json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 9, "preference": {"matchExpressions": [{"key": zone, "operator": "In", "values": ["b"]}]}},
        ]}}})),
    ]
}

fn any_pods() -> impl Strategy<Value = Vec<Value>> {
    let one = (0..3000_u32, 0..3000_u32, prop_oneof![Just("web"), Just("db")], any_constraint(), 0..3_u32);
    vec(one, 0..25).prop_map(|all| {
        let pods = all.into_iter().enumerate();
        pods.map(|(i, (cpu, memory, app, mut spec, port))| {
            let requests = json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi")});
            let mut container = json!({"name": "main", "resources": {"requests": requests}});
            if port == 1 {
                container["ports"] = json!([{"containerPort": 80, "hostPort": 80}]);
            }
            spec["containers"] = json!([container]);
            pod(&format!("pod-{i}"), app, spec)
        })
        .collect()
    })
}

/// Places one after the other; where each went.
fn placed(nodes: &[Value], pods: &[Value]) -> (Cluster, Vec<Decision>) {
    let mut cluster = cluster(nodes);
    let mut decisions = Vec::new();
    for pod in pods {
        let decision = decide(&cluster, &parsed(pod));
        if let Decision::Bind(placement) = &decision {
            cluster.apply(object(&super::on(&placement.node, pod.clone())));
        }
        decisions.push(decision);
    }
    (cluster, decisions)
}

fn amount(value: &Value, unit: &str) -> u64 {
    value.as_str().unwrap().trim_end_matches(unit).parse().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Counted by hand from the manifests, not by what the scheduler keeps.
    #[test]
    fn no_node_is_overfull(nodes in any_nodes(), pods in any_pods()) {
        let (_, decisions) = placed(&nodes, &pods);
        let mut used: BTreeMap<&str, (u64, u64, u64, u64)> = BTreeMap::new();
        for (pod, decision) in pods.iter().zip(&decisions) {
            if let Decision::Bind(placement) = decision {
                let container = &pod["spec"]["containers"][0];
                let requests = &container["resources"]["requests"];
                let sum = used.entry(&placement.node).or_default();
                sum.0 += amount(&requests["cpu"], "m");
                sum.1 += amount(&requests["memory"], "Mi");
                sum.2 += 1;
                sum.3 += u64::from(!container["ports"].is_null());
            }
        }
        for node in &nodes {
            let has = &node["status"]["allocatable"];
            let (cpu, memory, count, ports) = used.remove(node["metadata"]["name"].as_str().unwrap()).unwrap_or_default();
            prop_assert!(cpu <= amount(&has["cpu"], "") * 1000);
            prop_assert!(memory <= amount(&has["memory"], "Gi") * 1024);
            prop_assert!(count <= amount(&has["pods"], ""));
            prop_assert!(ports <= 1);
        }
        prop_assert!(used.is_empty(), "only nodes that exist");
    }

    /// The same again, whatever the order in which the scheduler heard of things.
    #[test]
    fn the_same_cluster_gives_the_same_decision(nodes in any_nodes(), pods in any_pods()) {
        let (cluster, decisions) = placed(&nodes, &pods);
        prop_assert_eq!(&placed(&nodes, &pods).1, &decisions);
        let mut present = nodes.clone();
        for (pod, decision) in pods.iter().zip(&decisions) {
            if let Decision::Bind(placement) = decision {
                present.push(super::on(&placement.node, pod.clone()));
            }
        }
        let forwards = super::cluster(&present);
        present.reverse();
        let backwards = super::cluster(&present);
        for pod in &pods {
            let mut next = pod.clone();
            next["metadata"]["name"] = json!("next");
            let next = parsed(&next);
            let decision = decide(&cluster, &next);
            prop_assert_eq!(&decide(&forwards, &next), &decision);
            prop_assert_eq!(&decide(&backwards, &next), &decision);
        }
    }

    /// What is decided is feasible, and only what is not feasible is refused.
    #[test]
    fn a_decision_is_among_the_feasible(nodes in any_nodes(), pods in any_pods()) {
        let (cluster, _) = placed(&nodes, &pods);
        for pod in &pods {
            let mut next = pod.clone();
            next["metadata"]["name"] = json!("next");
            let next = parsed(&next);
            let nodes = feasible(&cluster, &next).unwrap();
            match decide(&cluster, &next) {
                Decision::Bind(placement) => prop_assert!(nodes.contains(&placement.node)),
                _ => prop_assert!(nodes.is_empty()),
            }
        }
    }

    /// A pod that comes and goes leaves no trace.
    #[test]
    fn removing_undoes_adding(nodes in any_nodes(), pods in any_pods()) {
        let (before, _) = placed(&nodes, &pods);
        let mut after = before.clone();
        let mut guest = pod("guest", "web", json!({"containers": [{"name": "m", "resources": {"requests": {"cpu": "1"}}}]}));
        guest["spec"]["nodeName"] = json!("node-0");
        guest["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {}},
        ]}});
        after.apply(object(&guest));
        after.remove(object(&guest));
        for pod in &pods {
            let mut next = pod.clone();
            next["metadata"]["name"] = json!("next");
            prop_assert_eq!(decide(&after, &parsed(&next)), decide(&before, &parsed(&next)));
        }
    }
}
