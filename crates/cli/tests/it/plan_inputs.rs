//! `karpenter plan` with everything that may be among its input, also what makes no sense.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{POOL, Run, folder, karpenter};

/// The plan for these files, as JSON.
fn plan(files: &[(&str, &str)], args: &[&str]) -> (Run, Value) {
    let folder = folder(files);
    let args = [&["plan", "-f", ".", "-o", "json"], args].concat();
    let run = karpenter(folder.path(), &args, b"");
    let plan = serde_json::from_str(&run.out).unwrap_or(Value::Null);
    (run, plan)
}

fn text(files: &[(&str, &str)]) -> Run {
    karpenter(folder(files).path(), &["plan", "-f", "."], b"")
}

fn pod(name: &str, spec: &Value) -> String {
    let mut spec = spec.clone();
    if spec.get("containers").is_none() {
        spec["containers"] = json!([{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]);
    }
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}).to_string()
}

fn requests(requests: &Value) -> Value {
    json!({"containers": [{"name": "c", "image": "x", "resources": {"requests": requests}}]})
}

fn deployment(name: &str, replicas: usize, cpu: &str) -> String {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": requests(&json!({"cpu": cpu, "memory": "1Gi"}))}}})
    .to_string()
}

fn placed(plan: &Value) -> Vec<&str> {
    let pods = plan["nodes"].as_array().unwrap().iter().flat_map(|node| node["pods"].as_array().unwrap());
    pods.map(|pod| pod.as_str().unwrap()).collect()
}

const OVERLAY: &str = r#"
apiVersion: karpenter.sh/v1alpha1
kind: NodeOverlay
metadata: {name: dearer}
spec:
  weight: 1
  requirements: [{key: karpenter.sh/nodepool, operator: In, values: [default]}]
  priceAdjustment: "+100%"
  capacity: {example.com/slots: "4"}
"#;

/// SCH-164, SCH-175, SC-276: overlays change what types cost and have.
#[test]
fn overlays_are_laid_over_types() {
    let slots = pod("slots", &requests(&json!({"cpu": "1", "example.com/slots": "3"})));
    let files = [("pool.yaml", POOL), ("pod.json", &*slots), ("overlay.yaml", OVERLAY)];
    let (run, with) = plan(&files, &[]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let launch = &with["nodes"][0]["launch"];
    assert_eq!(
        (&launch["instanceType"], &launch["fill"]["example.com/slots"]),
        (&json!("c-2x-amd64-linux"), &json!(75))
    );
    let (_, without) = plan(&[("pool.yaml", POOL), ("pod.json", &pod("slots", &json!({})))], &[]);
    let price = |plan: &Value| plan["nodes"][0]["launch"]["pricePerHour"].as_f64().unwrap();
    assert!((price(&with) - 2.0 * price(&without)).abs() < 1e-9, "{launch}");
    assert_eq!(with["violations"], json!([]));
    let (run, plain) = plan(&files[..2], &[]);
    assert_eq!(run.code, 3, "nothing has slots by itself");
    assert!(plain["unschedulable"][0]["reasons"][0].as_str().unwrap().contains("example.com/slots"), "{plain}");
}

/// SCH-168, SCH-172: overlays that make no sense are told with their field, those that conflict are not applied.
#[test]
fn overlays_that_are_not_applied_are_told() {
    let fits = pod("a", &json!({}));
    for (given, told) in [
        (OVERLAY.replace("+100%", "cheap"), "overlay.yaml:8 NodeOverlay/dearer spec.priceAdjustment: "),
        (OVERLAY.replace("example.com/slots", "cpu"), "NodeOverlay/dearer spec: "),
        (OVERLAY.replace("v1alpha1", "v1"), "NodeOverlay/dearer apiVersion: karpenter.sh/v1 is not known"),
        (OVERLAY.replace("operator: In", "operator: Near"), "NodeOverlay/dearer spec.requirements[0]"),
    ] {
        let (run, plan) = plan(&[("pool.yaml", POOL), ("pod.json", &fits), ("overlay.yaml", &given)], &[]);
        assert_eq!(run.code, 1, "{given}");
        assert!(run.err.contains(told), "{told}: {}", run.err);
        assert_eq!(placed(&plan), ["default/a"], "the rest is planned");
    }
    let other = OVERLAY.replace("dearer", "another").replace("+100%", "-50%");
    let (run, _) =
        plan(&[("pool.yaml", POOL), ("pod.json", &fits), ("a.yaml", &other), ("overlay.yaml", OVERLAY)], &[]);
    assert_eq!(run.code, 0);
    let told = "note: NodeOverlay/another is not applied: NodeOverlay/dearer of the same weight says something about ";
    assert!(run.err.contains(told), "{}", run.err);
}

const BUFFER: &str = "
apiVersion: autoscaling.x-k8s.io/v1beta1
kind: CapacityBuffer
metadata: {name: spare, namespace: shop}
spec:
  scalableRef: {apiGroup: apps, kind: Deployment, name: web}
  percentage: 50
";

/// SCH-182, SCH-185, API-110: room is kept as if there were more pods. On one node, which is what the reference takes.
#[test]
fn buffers_keep_room() {
    let web = deployment("web", 4, "900m");
    let files = [("pool.yaml", POOL), ("web.json", &*web), ("buffer.yaml", BUFFER)];
    let (run, with) = plan(&files, &[]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let mut pods = placed(&with);
    pods.sort_unstable();
    let spare = ["shop/capacity-buffer-spare-1", "shop/capacity-buffer-spare-2"];
    assert_eq!(pods, [&spare[..], &["shop/web-0", "shop/web-1", "shop/web-2", "shop/web-3"]].concat());
    let buffer = json!({"buffer": "shop/spare", "replicas": 2, "reason": "RequiresNewCapacity",
        "message": "2 pods need new nodes, 0 could not be scheduled"});
    assert_eq!(with["buffers"], json!([buffer]));
    let shown = karpenter(folder(&files).path(), &["plan", "-f", ".", "--planner", "reference"], b"");
    assert!(shown.out.contains("2 of buffer shop/spare"), "{}", shown.out);
    assert!(shown.out.contains("buffers:\n  shop/spare of 2 pods: 2 pods need new nodes"), "{}", shown.out);
    let template = "
apiVersion: v1
kind: PodTemplate
metadata: {name: big, namespace: shop}
template:
  spec: {containers: [{name: c, image: x, resources: {requests: {cpu: \"3\"}}}]}
";
    let by_template = BUFFER
        .replace("scalableRef: {apiGroup: apps, kind: Deployment, name: web}", "podTemplateRef: {name: big}")
        .replace("percentage: 50", "limits: {cpu: \"10\"}");
    let (run, with) = plan(&[("pool.yaml", POOL), ("t.yaml", template), ("b.yaml", &by_template)], &[]);
    assert_eq!((run.code, placed(&with).len()), (0, 3), "ten CPUs hold three pods of three");
}

/// SC-282: what a buffer refers to has to be there.
#[test]
fn buffers_that_point_nowhere_are_told() {
    for (given, told) in [
        (BUFFER.to_owned(), "CapacityBuffer/shop/spare spec.scalableRef: Deployment web not found"),
        (
            BUFFER.replace("kind: Deployment", "kind: Job"),
            "spec.scalableRef: kind \"Job\" of group \"apps\" cannot be scaled",
        ),
        (BUFFER.replace("scalableRef: {apiGroup: apps, kind: Deployment, name: web}", "replicas: 3"), "spec: neither"),
        (BUFFER.replace("percentage: 50", "limits: {cpu: lots}"), "spec.limits[cpu]: "),
    ] {
        let (run, _) = plan(&[("pool.yaml", POOL), ("buffer.yaml", &given)], &[]);
        assert_eq!(run.code, 1, "{given}");
        assert!(run.err.contains(told), "{told}: {}", run.err);
    }
}

/// API-163, SCH-148, SCH-149, V15-100: pods without constraints are spread as the scheduler's configuration says.
#[test]
fn the_default_spread_of_the_scheduler() {
    let web = deployment("web", 4, "100m");
    let own = "
apiVersion: v1
kind: Pod
metadata: {name: alone}
spec: {containers: [{name: c, image: x}]}
";
    let config = "podTopologySpread: {defaultConstraints: [
        {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]}";
    let files = [("pool.yaml", POOL), ("web.json", &*web), ("own.yaml", own), ("spread.txt", config)];
    let zones = |plan: &Value| {
        let nodes = plan["nodes"].as_array().unwrap();
        let mut zones: Vec<&str> = nodes.iter().map(|node| node["launch"]["zone"].as_str().unwrap()).collect();
        zones.sort_unstable();
        zones.dedup();
        zones.len()
    };
    assert_eq!(zones(&plan(&files, &[]).1), 1, "nobody spreads them");
    for given in [config, "spread.txt"] {
        let (run, spread) = plan(&files, &["--scheduler-config", given]);
        assert_eq!((run.code, zones(&spread)), (0, 4), "{run:?}");
    }
    for (given, told) in [
        ("nowhere", "--scheduler-config: nowhere is neither a file nor a scheduler configuration"),
        (
            "podTopologySpread: {defaultConstraints: [{maxSkew: 0}]}",
            "defaultConstraints[0].maxSkew must be greater than 0",
        ),
        ("spread: 3", "--scheduler-config: not a scheduler configuration"),
    ] {
        let (run, _) = plan(&files, &["--scheduler-config", given]);
        assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
        assert!(run.err.contains(told), "{told}: {}", run.err);
    }
}

/// Existing nodes refuse pods too; the nearest miss is told.
#[test]
fn existing_nodes_say_what_they_lack() {
    let node = |name: &str, cpu: &str, taints: &Value| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}]}})
        .to_string()
    };
    let big = pod("big", &requests(&json!({"cpu": "300"})));
    let taint = json!([{"key": "gpu", "effect": "NoSchedule"}]);
    let run = text(&[
        ("pool.yaml", POOL),
        ("big.json", &big),
        ("a.json", &node("small", "8", &json!([]))),
        ("b.json", &node("large", "290", &json!([]))),
        ("c.json", &node("gpu", "400", &taint)),
    ]);
    assert_eq!(run.code, 3, "{run:?}");
    for told in [
        "    nodepool default: no instance type has enough cpu, the largest lacks 44100m\n",
        "    existing nodes: 2 with too little cpu; large needs 10 more\n",
        "    existing nodes: 1 with taint gpu:NoSchedule, such as gpu\n",
    ] {
        assert!(run.out.contains(told), "{told}\n{}", run.out);
    }
}

/// Contradictions are a reason, not an error: somebody may have meant them.
#[test]
fn contradictions_have_a_reason() {
    let zone = "topology.kubernetes.io/zone";
    let not = |zone_name: &str| {
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            {"matchExpressions": [{"key": zone, "operator": "NotIn", "values": [zone_name]}]}]}}})
    };
    let both = pod("torn", &json!({"nodeSelector": {zone: "test-zone-a"}, "affinity": not("test-zone-a")}));
    let elsewhere = pod("far", &json!({"nodeSelector": {zone: "mars"}}));
    let (run, of) = plan(&[("pool.yaml", POOL), ("a.json", &both), ("b.json", &elsewhere)], &[]);
    assert_eq!((run.code, of["unschedulable"].as_array().unwrap().len()), (3, 2), "{run:?}");
    for one in of["unschedulable"].as_array().unwrap() {
        assert!(one["reasons"][0].as_str().unwrap().contains(zone), "{one}");
    }
    let nothing = POOL.replace(
        "values: [amd64]}",
        "values: [amd64]}\n      - {key: kubernetes.io/arch, operator: In, values: [arm64]}",
    );
    let (run, of) = plan(&[("pool.yaml", &nothing), ("a.json", &pod("a", &json!({})))], &[]);
    assert_eq!(run.code, 3, "{run:?}");
    let why = of["unschedulable"][0]["reasons"][0].as_str().unwrap();
    assert_eq!(why, "nodepool default: no available instance type meets the requirements");
}

#[test]
fn quantities_that_make_no_sense() {
    for (requested, code, told) in [
        (json!({"cpu": "-1"}), 1, "Pod/odd spec.containers[0].resources.requests[cpu]: "),
        (json!({"cpu": "1x"}), 1, "Pod/odd spec.containers[0].resources.requests[cpu]: "),
        (json!({"memory": ""}), 1, "Pod/odd spec.containers[0].resources.requests[memory]: "),
        (json!({"cpu": "100M"}), 3, "(was m meant instead of M?)"),
        (json!({"memory": "9999999999999999999999E"}), 3, "memory"),
        (json!({"example.com/unheard-of": "1"}), 3, "example.com/unheard-of"),
    ] {
        let odd = pod("odd", &requests(&requested));
        let (run, of) = plan(&[("pool.yaml", POOL), ("odd.json", &odd), ("ok.json", &pod("ok", &json!({})))], &[]);
        assert_eq!(run.code, code, "{requested}: {run:?}");
        assert!(run.err.contains(told) || run.out.contains(told), "{requested}: {run:?}");
        assert!(placed(&of).contains(&"default/ok"), "{requested}");
        let failed: Vec<&Value> = of["unschedulable"].as_array().unwrap().iter().map(|one| &one["pod"]).collect();
        assert_eq!(failed, ["default/odd"], "{requested}: nobody vanishes");
    }
}

/// Kinds nobody plans with are counted; two claims for one machine and two nodes of one name are no reason to stop.
#[test]
fn things_that_do_not_belong_together() {
    let claim = |name: &str| {
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {"karpenter.sh/nodepool": "default"}},
            "spec": {"nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
                "requirements": []},
            "status": {"providerID": "kwok://one", "capacity": {"cpu": "4"}, "allocatable": {"cpu": "4", "pods": "10"}}})
        .to_string()
    };
    let node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "spec": {"providerID": "kwok://one"},
        "status": {"allocatable": {"cpu": "4", "pods": "10"}}})
        .to_string();
    let odd = "{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}";
    let (run, of) = plan(
        &[
            ("pool.yaml", POOL),
            ("a.json", &claim("a")),
            ("b.json", &claim("b")),
            ("n.json", &node),
            ("odd.yaml", odd),
            ("p.json", &pod("p", &json!({}))),
        ],
        &[],
    );
    assert_eq!((run.code, run.err.as_str()), (0, "note: not looked at: 1 Widget\n"), "{run:?}");
    assert_eq!(of["violations"], json!([]), "{of}");
}

#[test]
fn a_pod_with_fifty_preferences() {
    let preferred: Vec<Value> = (0..50)
        .map(|number| {
            json!({"weight": number + 1, "preference": {"matchExpressions": [
                {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [format!("mars-{number}")]}]}})
        })
        .collect();
    let picky = json!({"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}});
    let (run, of) = plan(&[("pool.yaml", POOL), ("picky.json", &pod("picky", &picky))], &[]);
    assert_eq!((run.code, placed(&of)), (0, vec!["default/picky"]), "{run:?}");
}

/// Thousands of pools, and pods that none of them takes: the text stays readable.
#[test]
fn thousands_of_pools() {
    let mut pools = String::new();
    for number in 0..1000 {
        write!(pools, "---\n{}", POOL.replace("name: default\nspec", &format!("name: pool-{number}\nspec"))).unwrap();
    }
    let (big, small) = (pod("big", &requests(&json!({"cpu": "900"}))), pod("small", &json!({})));
    let files = [("pools.yaml", &*pools), ("big.json", &big), ("small.json", &small)];
    let run = text(&files);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.out.lines().count() < 60, "{}", run.out);
    assert!(run.out.contains("    and 960 more reasons (-o json has them all)\n"), "{}", run.out);
}

/// Thousands of pods of many workloads: lines are shared.
#[test]
fn thousands_of_pods_in_a_few_lines() {
    let workloads: Vec<String> =
        (0..150).map(|n| deployment(&format!("app-{n}"), 20, &format!("{}m", 100 + 17 * (n % 60)))).collect();
    let singles: Vec<String> = (0..300).map(|n| pod(&format!("big-{n}"), &requests(&json!({"cpu": "900"})))).collect();
    let all = [workloads, singles].concat().join("\n---\n");
    let files = [("pool.yaml", POOL), ("all.yaml", &*all)];
    let run = text(&files);
    assert_eq!(run.code, 3, "{}", run.err);
    assert!(run.out.lines().count() < 140, "{} lines:\n{}", run.out.lines().count(), run.out);
    let widest = run.out.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest < 250, "{widest}:\n{}", run.out);
    assert!(
        run.out.contains("  300 pods: default/big-0, default/big-1, default/big-10, default/big-100, and 296 more\n")
    );
    assert!(run.out.contains("3000 pods on "), "{}", run.out);
}
