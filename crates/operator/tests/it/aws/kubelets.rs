//! A Node for each running instance, none for those that have ended. What a kubelet is told by user data is not read: nodes
//! join with the taint that marks them as strangers, as every node of ours does, and get the rest from their claims.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use karpenter_aws::cloud::{Filter, InstanceInfo, InstanceTypeInfo};
use karpenter_aws_sdk::Clients;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;
use tokio::task::JoinHandle;

pub(crate) struct Kubelets(JoinHandle<()>);

impl Drop for Kubelets {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Kubelets {
    pub(crate) fn start(client: Client, clients: Clients) -> Self {
        Self(tokio::spawn(async move {
            let types = clients.reads.instance_types().await.unwrap();
            let types: BTreeMap<String, InstanceTypeInfo> =
                types.into_iter().map(|info| (info.name.clone(), info)).collect();
            let nodes: Api<Node> = Api::all(client);
            loop {
                // Whatever fails is tried again.
                let _ = pass(&nodes, &clients, &types).await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        }))
    }
}

async fn pass(nodes: &Api<Node>, clients: &Clients, types: &BTreeMap<String, InstanceTypeInfo>) -> anyhow::Result<()> {
    let ours = Filter::new("tag-key", ["karpenter.sh/nodepool"]);
    let instances = clients.reads.instances(&[ours]).await?;
    let present = nodes.list(&ListParams::default()).await?.items;
    for instance in &instances {
        let provider_id = format!("aws:///{}/{}", instance.zone, instance.id);
        let known =
            present.iter().find(|node| node.spec.iter().any(|spec| spec.provider_id.as_ref() == Some(&provider_id)));
        match known {
            None if instance.state == "running" => {
                let node = node(instance, &provider_id, &types[&instance.instance_type]);
                nodes.create(&PostParams::default(), &node).await?;
            }
            Some(node) if instance.state == "terminated" && node.metadata.deletion_timestamp.is_none() => {
                nodes.delete(&node.name_any(), &DeleteParams::default()).await?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn node(instance: &InstanceInfo, provider_id: &str, info: &InstanceTypeInfo) -> Node {
    let name = format!("{}.{}.compute.internal", instance.id, &instance.zone[..instance.zone.len() - 1]);
    // About what the system leaves.
    let memory = format!("{}Mi", info.memory_mib * 85 / 100);
    let resources = json!({"cpu": info.vcpus.to_string(), "memory": memory, "pods": "29", "ephemeral-storage": "18Gi"});
    let node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "node.kubernetes.io/instance-type": instance.instance_type, "topology.kubernetes.io/zone": instance.zone}},
        "spec": {"providerID": provider_id, "taints": [{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]},
        "status": {"capacity": resources, "allocatable": resources},
    });
    serde_json::from_value(node).unwrap()
}
