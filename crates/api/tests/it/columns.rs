//! What users see with kubectl: columns, short names, categories, scale, explain.

use std::time::{Duration, Instant};

use karpenter_testkit::ControlPlane;
use serde_json::{Value, json};

use crate::server::with_crds;

/// Runs kubectl and returns what it printed, or what it complained about.
async fn kubectl(cluster: &ControlPlane, args: &[&str]) -> Result<String, String> {
    let out = cluster.kubectl(args).await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if out.status.success() { Ok(text(&out.stdout)) } else { Err(text(&out.stderr)) }
}

/// Creates the object and sets its status.
async fn put(cluster: &ControlPlane, resource: &str, object: &Value) {
    cluster.install([object.clone()]).await.unwrap();
    if let Some(status) = object.get("status") {
        let name = object["metadata"]["name"].as_str().unwrap();
        let patch = json!({ "status": status }).to_string();
        kubectl(cluster, &["patch", resource, name, "--subresource=status", "--type=merge", "-p", &patch])
            .await
            .unwrap();
    }
}

/// The table that `kubectl get` prints for one object: column names and cells. The age is there but differs.
fn cells(printed: &str) -> Vec<(String, String)> {
    let mut lines = printed.lines();
    let (header, row) = (lines.next().unwrap(), lines.next().unwrap());
    let names: Vec<&str> = header.split_whitespace().collect();
    let starts: Vec<usize> = names
        .iter()
        .scan(0, |from, name| {
            let start = *from + header[*from..].find(name).unwrap();
            *from = start + name.len();
            Some(start)
        })
        .collect();
    let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
    let cell = |start: usize, end: usize| row.get(start..end.min(row.len())).unwrap_or_default().trim().to_owned();
    let cells = starts.iter().zip(ends).map(|(&start, end)| cell(start, end));
    names
        .iter()
        .map(ToString::to_string)
        .zip(cells)
        .map(|(n, c)| if n == "AGE" { (n, "…".into()) } else { (n, c) })
        .collect()
}

const TIME: &str = "2024-01-01T00:00:00Z";

fn condition(name: &str, status: &str) -> Value {
    json!({"type": name, "status": status, "reason": "Why", "message": "", "lastTransitionTime": TIME})
}

struct Shown {
    resource: &'static str,
    object: Value,
    plain: &'static [(&'static str, &'static str)],
    /// What `-o wide` adds.
    wide: &'static [(&'static str, &'static str)],
}

fn shown() -> Vec<Shown> {
    let pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "shown"},
        "spec": {"weight": 7, "template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "class-a"}}}},
        "status": {"nodes": 3, "resources": {"cpu": "12", "memory": "24Gi"}, "conditions": [condition("Ready", "True")]}});
    let claim = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": {"name": "shown", "labels": {
            "node.kubernetes.io/instance-type": "m-4x", "karpenter.sh/capacity-type": "spot",
            "topology.kubernetes.io/zone": "zone-a", "karpenter.sh/nodepool": "pool-a"}},
        "spec": {"requirements": [], "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "class-a"}},
        "status": {"nodeName": "node-a", "providerID": "kwok://node-a", "imageID": "image-a",
            "conditions": [condition("Ready", "Unknown"), condition("Drifted", "True")]}});
    let overlay = json!({"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "shown"},
        "spec": {"requirements": [], "weight": 9}, "status": {"conditions": [condition("Ready", "False")]}});
    let buffer = json!({"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer",
        "metadata": {"name": "shown", "namespace": "default"}, "spec": {"replicas": 2, "podTemplateRef": {"name": "web"}},
        "status": {"podTemplateRef": {"name": "web"}, "replicas": 2, "conditions": [condition("ReadyForProvisioning", "True")]}});
    let ec2 = json!({"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": "shown"},
        "spec": {"role": "role-a", "amiSelectorTerms": [{"alias": "al2023@latest"}], "subnetSelectorTerms": [{"id": "subnet-1"}],
            "securityGroupSelectorTerms": [{"id": "sg-1"}]}, "status": {"conditions": [condition("Ready", "True")]}});
    let kwok = json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "shown"}, "spec": {}});
    let provisioner = json!({"apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner", "metadata": {"name": "shown"},
        "spec": {"weight": 4, "providerRef": {"name": "template-a"}}});
    let template = json!({"apiVersion": "karpenter.k8s.aws/v1alpha1", "kind": "AWSNodeTemplate", "metadata": {"name": "shown"}, "spec": {}});
    vec![
        // API-33
        Shown {
            resource: "nodepools",
            object: pool,
            plain: &[("NAME", "shown"), ("NODECLASS", "class-a"), ("NODES", "3"), ("READY", "True"), ("AGE", "…")],
            wide: &[("WEIGHT", "7"), ("CPU", "12"), ("MEMORY", "24Gi")],
        },
        // API-68
        Shown {
            resource: "nodeclaims",
            object: claim,
            plain: &[
                ("NAME", "shown"),
                ("TYPE", "m-4x"),
                ("CAPACITY", "spot"),
                ("ZONE", "zone-a"),
                ("NODE", "node-a"),
                ("READY", "Unknown"),
                ("AGE", "…"),
            ],
            wide: &[
                ("IMAGEID", "image-a"),
                ("ID", "kwok://node-a"),
                ("NODEPOOL", "pool-a"),
                ("NODECLASS", "class-a"),
                ("DRIFTED", "True"),
            ],
        },
        // API-82
        Shown {
            resource: "nodeoverlays",
            object: overlay,
            plain: &[("NAME", "shown"), ("READY", "False"), ("AGE", "…")],
            wide: &[("WEIGHT", "9")],
        },
        // API-97
        Shown {
            resource: "capacitybuffers",
            object: buffer,
            plain: &[
                ("NAME", "shown"),
                ("STRATEGY", "buffer.x-k8s.io/active-capacity"),
                ("PODTEMPLATE", "web"),
                ("REPLICAS", "2"),
                ("CONDITIONSTYPE", "ReadyForProvisioning"),
                ("CONDITIONSSTATUS", "True"),
                ("CONDITIONSREASON", "Why"),
                ("AGE", "…"),
            ],
            wide: &[],
        },
        // AWS-2
        Shown {
            resource: "ec2nodeclasses",
            object: ec2,
            plain: &[("NAME", "shown"), ("READY", "True"), ("AGE", "…")],
            wide: &[("ROLE", "role-a")],
        },
        // API-112
        Shown { resource: "kwoknodeclasses", object: kwok, plain: &[("NAME", "shown"), ("AGE", "…")], wide: &[] },
        // API-310
        Shown {
            resource: "provisioners",
            object: provisioner,
            plain: &[("NAME", "shown"), ("TEMPLATE", "template-a")],
            wide: &[("WEIGHT", "4")],
        },
        Shown {
            resource: "awsnodetemplates", object: template, plain: &[("NAME", "shown"), ("AGE", "…")], wide: &[]
        },
    ]
}

/// API-33, API-68, API-82, API-97, API-112, API-310, AWS-2
#[tokio::test]
async fn kubectl_get_prints_the_specified_columns() {
    let cluster = with_crds().await;
    for Shown { resource, object, plain, wide } in shown() {
        put(cluster, resource, &object).await;
        let expected = |columns: &[&[(&str, &str)]]| -> Vec<(String, String)> {
            columns.concat().into_iter().map(|(n, c)| (n.to_owned(), c.to_owned())).collect()
        };
        let printed = kubectl(cluster, &["get", resource, "shown"]).await.unwrap();
        assert_eq!(cells(&printed), expected(&[plain]), "{printed}");
        let printed = kubectl(cluster, &["get", resource, "shown", "-o", "wide"]).await.unwrap();
        assert_eq!(cells(&printed), expected(&[plain, wide]), "{printed}");
    }
}

/// API-11, API-12, API-310, AWS-1
#[tokio::test]
async fn kinds_have_their_names_and_categories() {
    let cluster = with_crds().await;
    let printed = kubectl(cluster, &["api-resources", "-o", "wide", "--no-headers"]).await.unwrap();
    let lines: Vec<Vec<&str>> = printed.lines().map(|l| l.split_whitespace().collect()).collect();
    for (plural, short_names, version, namespaced, kind, category) in [
        ("nodepools", None, "karpenter.sh/v1", "false", "NodePool", "karpenter"),
        ("nodeclaims", None, "karpenter.sh/v1", "false", "NodeClaim", "karpenter"),
        ("nodeoverlays", Some("overlays"), "karpenter.sh/v1alpha1", "false", "NodeOverlay", "karpenter"),
        ("capacitybuffers", Some("cb"), "autoscaling.x-k8s.io/v1beta1", "true", "CapacityBuffer", "autoscaling"),
        (
            "kwoknodeclasses",
            Some("kwoknc,kwokncs"),
            "karpenter.kwok.sh/v1alpha1",
            "false",
            "KWOKNodeClass",
            "karpenter",
        ),
        ("ec2nodeclasses", Some("ec2nc,ec2ncs"), "karpenter.k8s.aws/v1", "false", "EC2NodeClass", "karpenter"),
        ("provisioners", None, "karpenter.sh/v1alpha5", "false", "Provisioner", "karpenter"),
        ("awsnodetemplates", None, "karpenter.k8s.aws/v1alpha1", "false", "AWSNodeTemplate", "karpenter"),
    ] {
        let line = lines.iter().find(|l| l[0] == plural).unwrap_or_else(|| panic!("{plural} is not listed: {printed}"));
        let mut expected = vec![plural];
        expected.extend(short_names);
        expected.extend([version, namespaced, kind]);
        assert_eq!(line[..expected.len()], expected, "{plural}");
        assert_eq!(line.last(), Some(&category), "{plural}");
        let names = short_names.into_iter().flat_map(|s| s.split(','));
        for name in names.chain([plural, &kind.to_lowercase()]) {
            kubectl(cluster, &["get", name]).await.unwrap_or_else(|e| panic!("kubectl get {name}: {e}"));
        }
    }
    kubectl(cluster, &["get", "karpenter"]).await.unwrap();
    kubectl(cluster, &["get", "autoscaling"]).await.unwrap();
}

fn pool(name: &str, replicas: Option<u32>) -> Value {
    let mut pool = json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": name},
        "spec": {"template": {"spec": {"requirements": [],
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}}}}});
    if let Some(replicas) = replicas {
        pool["spec"]["replicas"] = replicas.into();
    }
    pool
}

/// API-34, API-36
#[tokio::test]
async fn only_static_pools_can_be_scaled() {
    let cluster = with_crds().await;
    cluster.install([pool("scale-static", Some(1)), pool("scale-dynamic", None)]).await.unwrap();
    kubectl(cluster, &["scale", "nodepool", "scale-static", "--replicas=5"]).await.unwrap();
    let printed =
        kubectl(cluster, &["get", "nodepool", "scale-static", "-o", "jsonpath={.spec.replicas}"]).await.unwrap();
    assert_eq!(printed, "5");
    let refused = kubectl(cluster, &["scale", "nodepool", "scale-dynamic", "--replicas=5"]).await.unwrap_err();
    assert!(refused.contains("Cannot transition NodePool between static"), "{refused}");
    let patch = json!({"status": {"nodes": 4}}).to_string();
    kubectl(cluster, &["patch", "nodepool", "scale-static", "--subresource=status", "--type=merge", "-p", &patch])
        .await
        .unwrap();
    let scale =
        kubectl(cluster, &["get", "nodepool", "scale-static", "--subresource=scale", "-o", "json"]).await.unwrap();
    let scale: Value = serde_json::from_str(&scale).unwrap();
    assert_eq!(scale["status"], json!({"replicas": 4}), "the count of nodes, and no selector");
}

/// The server publishes descriptions some time after it serves a kind.
#[tokio::test]
async fn every_kind_can_be_explained() {
    let cluster = with_crds().await;
    let since = Instant::now();
    for (field, expected) in [
        ("nodepools.spec.disruption.budgets", "FIELDS:"),
        ("nodeclaims.spec.requirements", "FIELDS:"),
        ("nodeoverlays.spec", "FIELDS:"),
        ("capacitybuffers.spec", "FIELDS:"),
        ("ec2nodeclasses.spec.kubelet", "maxPods"),
        ("kwoknodeclasses.spec", "nodeRegistrationDelay"),
        ("provisioners.spec", "ttlSecondsAfterEmpty"),
        ("awsnodetemplates.spec", "amiSelector"),
    ] {
        let mut answer = kubectl(cluster, &["explain", field]).await;
        while answer.is_err() && since.elapsed() < Duration::from_mins(1) {
            tokio::time::sleep(Duration::from_millis(200)).await;
            answer = kubectl(cluster, &["explain", field]).await;
        }
        let text = answer.unwrap_or_else(|e| panic!("{field}: {e}"));
        assert!(text.contains(expected), "{field}: {text}");
        assert!(!text.contains("<no description>"), "{field}: {text}");
    }
}
