//! The controller with the environment, the account and the rights that the chart gives it, in two replicas.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use crate::chart;
use crate::live::installed::{Installed, wait};

impl Installed {
    async fn create_pod(&self, name: &str) {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [
                {"name": "web", "image": "example.com/web", "resources": {"requests": {"cpu": "3"}}}],
                "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}]}}},
        });
        let pods: Api<Pod> = Api::default_namespaced(self.client());
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    async fn runs(&self, name: &str) {
        let pods: Api<Pod> = Api::default_namespaced(self.client());
        wait(&format!("pod {name} runs"), async || {
            let status = pods.get(name).await.unwrap().status?;
            (status.phase.as_deref() == Some("Running")).then_some(())
        })
        .await;
    }
}

fn pool() -> [Value; 2] {
    [
        json!({"apiVersion": "karpenter.kwok.sh/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}),
        json!({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": {
            "disruption": {"consolidateAfter": "Never"}, "template": {"spec": {
            "nodeClassRef": {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"},
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}}}}),
    ]
}

/// API-169, API-181, API-296, API-297, API-300, API-305, V15-136, LIF-128: with the rights of the chart and no
/// others, exactly one of two replicas acts; killed, the other takes over; told to stop, it gives the lease back and ends well.
#[tokio::test]
async fn two_replicas_of_the_chart() {
    let installed = Installed::new(chart::KWOK).await;
    installed.cluster.install(pool()).await.unwrap();
    let first = installed.start("first");
    wait("the first leads", async || first.is_leader().then_some(())).await;
    let mut second = installed.start("second");
    installed.create_pod("one").await;
    installed.runs("one").await;

    // Probes and metrics of both, whoever leads.
    for (replica, leads) in [(&first, "1"), (&second, "0")] {
        let probes = replica.port("probes").await;
        wait("ready", async || (replica.get(probes, "/readyz").await.0 == 200).then_some(())).await;
        for path in ["/healthz", "/healthz/healthz", "/readyz/crd", "/readyz/manager", "/readyz/readyz"] {
            assert_eq!(replica.get(probes, path).await, (200, "ok".to_owned()), "{path}");
        }
        assert_eq!(replica.get(probes, "/readyz/other").await.0, 404);
        let port = replica.port("metrics").await;
        let (code, text) = replica.get(port, "/metrics").await;
        assert_eq!(code, 200);
        let leading = format!("leader_election_master_status{{name=\"karpenter-leader-election\"}} {leads}");
        assert!(text.contains(&leading), "{leading}\n{text}");
        for name in [
            "go_gc_heap_live_bytes",
            "process_resident_memory_bytes",
            "karpenter_build_info",
            "client_go_request_total",
        ] {
            assert!(text.contains(&format!("# TYPE {name} ")) || leads == "0", "{name}\n{text}");
        }
        assert_eq!(replica.get(port, "/debug/pprof/").await.0, 404, "profiles are off");
    }
    let port = first.port("metrics").await;
    let (_, text) = first.get(port, "/metrics").await;
    for line in [
        "karpenter_nodeclaims_created_total{reason=\"provisioned\",nodepool=\"default\",min_values_relaxed=\"false\"} 1",
        "karpenter_cluster_state_synced 1",
        "karpenter_pods_state{name=\"one\",namespace=\"default\"",
        "operator_nodeclaim_status_condition_count{",
        "karpenter_cloudprovider_duration_seconds_count{controller=\"nodeclaim.lifecycle\",method=\"Create\",provider=\"kwok\"} 1",
        "controller_runtime_reconcile_total{controller=\"nodeclaim.lifecycle\"",
    ] {
        assert!(text.lines().any(|have| have.starts_with(line)), "{line}\n{text}");
    }
    assert!(!second.log().contains("created nodeclaim"), "the standby did nothing: {}", second.log());

    // Users of the cluster are told.
    let events: Api<Event> = Api::default_namespaced(installed.client());
    let event = wait("an event about the pod", async || {
        let events = events.list(&ListParams::default()).await.unwrap();
        events.items.into_iter().find(|event| event.reason.as_deref() == Some("Nominated"))
    })
    .await;
    assert_eq!(event.source.unwrap().component.as_deref(), Some("karpenter"));
    assert_eq!(event.involved_object.name.as_deref(), Some("one"));

    // Every line of the log is what log pipelines expect.
    for line in first.lines() {
        assert_eq!(line["logger"], "controller", "{line}");
        assert!(line["level"].as_str().is_some_and(|level| level == level.to_uppercase()), "{line}");
        assert!(line["time"].as_str().is_some_and(|time| time.ends_with('Z')) && line["commit"].is_string(), "{line}");
        assert!(line["message"].is_string(), "{line}");
    }

    // Killed: the other takes over when the lease has run out, and goes on with the work.
    let before = installed.holder().await.unwrap();
    drop(first);
    installed.create_pod("two").await;
    installed.runs("two").await;
    let after = installed.holder().await.unwrap();
    assert_ne!(before, after);
    assert!(second.is_leader());

    // Told to stop: the lease is given back at once.
    second.signal("-TERM").await;
    assert_eq!(second.ended().await, 0, "{}", second.log());
    assert_eq!(installed.holder().await, None, "{}", second.log());
}
