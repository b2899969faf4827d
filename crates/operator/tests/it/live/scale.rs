//! Many pods at once, and nothing left of them.

use std::time::Instant;

use serde_json::{Value, json};

use super::installed::Installed;
use super::scene::{Scene, is_running, label, name, node_of, workload};

const ZONE: &str = "topology.kubernetes.io/zone";
const HOST: &str = "kubernetes.io/hostname";

/// Name, how many, CPU, memory, and what else its pods say.
fn workloads() -> Vec<(&'static str, u32, &'static str, &'static str, Value)> {
    let spread = |app: &str, key: &str| {
        json!({"spec": {"topologySpreadConstraints": [{"topologyKey": key, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}}}]}})
    };
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let near = |kind: &str, app: &str, key: &str| json!({"spec": {"affinity": {kind: {required: [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}]}}}});
    let selector = |key: &str, value: &str| json!({"spec": {"nodeSelector": {key: value}}});
    vec![
        ("tiny", 120, "100m", "64Mi", json!({})),
        ("plain", 80, "500m", "512Mi", json!({})),
        ("fat", 40, "250m", "4Gi", json!({})),
        ("large", 20, "3500m", "6Gi", json!({})),
        ("zones", 60, "700m", "1Gi", spread("zones", ZONE)),
        ("hosts", 15, "400m", "256Mi", spread("hosts", HOST)),
        ("apart", 15, "300m", "256Mi", near("podAntiAffinity", "apart", HOST)),
        ("near", 20, "200m", "128Mi", near("podAffinity", "near", ZONE)),
        ("spot", 50, "600m", "512Mi", selector("karpenter.sh/capacity-type", "spot")),
        ("arm", 40, "800m", "1Gi", selector("kubernetes.io/arch", "arm64")),
        ("zonal", 40, "250m", "2Gi", selector(ZONE, "test-zone-c")),
    ]
}

fn sum(objects: &[Value], pointer: &str) -> f64 {
    let price =
        |node: &Value| node.pointer(pointer).and_then(Value::as_str).and_then(|price| price.parse::<f64>().ok());
    objects.iter().filter_map(price).sum()
}

/// LIF-4, LIF-51, LC-52: 500 pods of many shapes all run, no node holds more than it can; scaled to nothing and with the pool
/// deleted, there is nothing left of them.
#[tokio::test]
async fn five_hundred_pods_come_and_go() {
    let installed = Installed::new(crate::chart::KWOK).await;
    let controller = installed.start("karpenter-scale");
    let scene = Scene::new(&installed, "scale").await;
    let both = json!([
        {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
        {"key": "karpenter.kwok.sh/instance-cpu", "operator": "Lt", "values": ["33"]}]);
    scene.create(scene.pool("", json!({"template": {"spec": {"requirements": both}}}))).await;
    scene.wait("it acts", async || Ok(controller.is_leader().then_some(()))).await;
    let daemon = scene.pod("agent", "100m", json!({}));
    scene.create(workload("DaemonSet", "agent", 0, daemon)).await;

    let since = Instant::now();
    let mut wanted = 0;
    for (app, replicas, cpu, memory, rest) in workloads() {
        let mut pod = scene.pod(app, cpu, rest);
        pod["spec"]["containers"][0]["resources"]["requests"]["memory"] = memory.into();
        scene.create(workload("Deployment", app, replicas, pod)).await;
        wanted += usize::try_from(replicas).unwrap();
    }
    assert_eq!(wanted, 500);
    scene.wait("a first claim", async || Ok((!scene.claims().await?.is_empty()).then_some(()))).await;
    let first_claim = since.elapsed();
    let running = async || {
        let pods = scene.list("Pod").await?;
        let ours = pods.into_iter().filter(|pod| label(pod, "app") != "agent" && is_running(pod));
        Ok::<Vec<Value>, kube::Error>(ours.collect())
    };
    scene.wait("500 pods run", async || Ok((running().await?.len() == wanted).then_some(()))).await;
    let all_run = since.elapsed();
    let nodes = scene.nodes().await.unwrap();
    let price = sum(&nodes, "/metadata/labels/eks-node-viewer~1instance-price");
    let (memory, cpu) = (
        controller.metric("process_resident_memory_bytes").await,
        controller.metric("process_cpu_seconds_total").await,
    );
    println!(
        "500 pods: first claim after {:.1} s, all run after {:.1} s on {} nodes for {price:.2} $/h; controller: {:.0} MB, {cpu:.1} CPU s",
        first_claim.as_secs_f64(),
        all_run.as_secs_f64(),
        nodes.len(),
        memory / 1e6,
    );
    let pods = running().await.unwrap();
    let apart = pods.iter().filter(|pod| label(pod, "app") == "apart").map(node_of);
    assert_eq!(apart.collect::<std::collections::BTreeSet<_>>().len(), 15);
    for node in &nodes {
        let here = pods.iter().filter(|pod| node_of(pod) == name(node)).count();
        let most: usize = node["status"]["allocatable"]["pods"].as_str().unwrap().parse().unwrap();
        assert!(here <= most, "{} has {here} of {most} pods", name(node));
    }

    for (app, ..) in workloads() {
        scene.scale(app, 0).await;
    }
    scene.wait("no pods", async || Ok(running().await?.is_empty().then_some(()))).await;
    scene.delete("NodePool", "scale").await;
    scene.nothing_left().await;
    scene.wait("the pool is gone", async || Ok(scene.get("NodePool", "scale").await?.is_none().then_some(()))).await;
    println!("nothing left after {:.1} s", since.elapsed().as_secs_f64());
}
