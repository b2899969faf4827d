//! Provisioners on a real control plane, with the values and the manifests of the guides that have them, and the AWS emulator.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use karpenter_api::crd;
use karpenter_testkit::ControlPlane;
use serde_json::{Value, json};

use crate::aws::OnAws;
use crate::live::installed::{Replica, wait};
use crate::live::scene::{Scene, condition, name};

/// What `helm upgrade --install` of the tutorial says (SEED-2-20). The queue is ours, and so are the time that a busy machine
/// may take to make the pods of a deployment, and the planner that has the guides' numbers of nodes.
const VALUES: &[&str] = &[
    "controller.clusterName=shop",
    "controller.clusterEndpoint=\"https://shop.gr7.us-west-2.eks.amazonaws.com\"",
    "settings.interruptionQueue=shop",
    "settings.batchIdleDuration=3s",
    "settings.planner=Reference",
];

/// SEED-2-23.
const TUTORIAL: &str = "
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec:
  requirements:
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
  limits: {resources: {cpu: 1000}}
  provider:
    subnetSelector: {karpenter.sh/discovery: shop}
    securityGroupSelector: {karpenter.sh/discovery: shop}
    instanceProfile: KarpenterNodeInstanceProfile-shop
  ttlSecondsAfterEmpty: 30
";

/// SEED-1-28, in the region of the emulator.
const BLUEPRINT: &str = "
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: default}
spec:
  requirements:
    - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.2xlarge]}
    - {key: topology.kubernetes.io/zone, operator: In, values: [us-west-2c]}
    - {key: kubernetes.io/arch, operator: In, values: [arm64, amd64]}
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
  provider:
    instanceProfile: KarpenterNodeInstanceProfile-shop
    subnetSelector: {Name: blueprint-construct-dev/blueprint-construct-dev-vpc/PrivateSubnet1}
    securityGroupSelector: {kubernetes.io/cluster/blueprint-construct-dev: owned}
  ttlSecondsAfterEmpty: 30
";

/// A Provisioner of later years, with a template; its pods ask for it by name.
fn with_template(image: &str) -> String {
    format!(
        "
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {{name: own}}
spec:
  subnetSelector: {{karpenter.sh/discovery: shop}}
  securityGroupSelector: {{karpenter.sh/discovery: shop}}
  instanceProfile: KarpenterNodeInstanceProfile-shop
  amiFamily: AL2
  amiSelector: {{'aws::ids': {image}}}
  tags: {{team: batch}}
---
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {{name: batch}}
spec:
  providerRef: {{name: own}}
  consolidation: {{enabled: true}}
  ttlSecondsUntilExpired: 2592000
"
    )
}

/// SEED-1-31, SEED-2-25.
fn inflate(deployment: &str, selector: &Value) -> Value {
    json!({"kind": "Deployment", "metadata": {"name": deployment}, "spec": {
        "replicas": 0, "selector": {"matchLabels": {"app": deployment}},
        "template": {"metadata": {"labels": {"app": deployment}}, "spec": {
            "terminationGracePeriodSeconds": 0, "nodeSelector": selector,
            "containers": [{"name": "inflate", "image": "public.ecr.aws/eks-distro/kubernetes/pause:3.2",
                "resources": {"requests": {"cpu": 1}}}]}}}})
}

/// What the account of a reader has: the profile of the guides, images of AL2023, and the names of the blueprint.
fn prepare(aws: &OnAws) {
    let profile = "KarpenterNodeInstanceProfile-shop";
    aws.account.call("iam", "create_instance_profile", json!({"InstanceProfileName": profile}));
    let role = json!({"InstanceProfileName": profile, "RoleName": "nodes"});
    aws.account.call("iam", "add_role_to_instance_profile", role);
    let parameter = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id";
    aws.account.change(json!({"parameters": {parameter: aws.images[0]}}));
    let zone = json!({"Filters": [{"Name": "availability-zone", "Values": ["us-west-2c"]}]});
    let subnets = aws.account.call("ec2", "describe_subnets", zone);
    let tag = |resources: Vec<Value>, key: &str, value: &str| {
        aws.account.call("ec2", "create_tags", json!({"Resources": resources, "Tags": [{"Key": key, "Value": value}]}));
    };
    let name = "blueprint-construct-dev/blueprint-construct-dev-vpc/PrivateSubnet1";
    tag(subnets["Subnets"].as_array().unwrap().iter().map(|one| one["SubnetId"].clone()).collect(), "Name", name);
    let groups = aws.account.call("ec2", "describe_security_groups", json!({}));
    let groups = groups["SecurityGroups"].as_array().unwrap().iter().map(|one| one["GroupId"].clone()).collect();
    tag(groups, "kubernetes.io/cluster/blueprint-construct-dev", "owned");
}

async fn apply(aws: &OnAws, manifests: &str) {
    let out = aws.installed.cluster.kubectl_with_input(["apply", "-f", "-"], manifests).await.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

fn label<'a>(object: &'a Value, key: &str) -> &'a str {
    object["metadata"]["labels"][key].as_str().unwrap_or_default()
}

/// Nodes that Provisioners have made.
async fn nodes(scene: &Scene<'_>) -> Result<Vec<Value>, kube::Error> {
    let all = scene.list("Node").await?;
    Ok(all.into_iter().filter(|node| !label(node, "karpenter.sh/provisioner-name").is_empty()).collect())
}

async fn nobody_is_left(aws: &OnAws, scene: &Scene<'_>) {
    scene
        .wait("no node, claim and instance is left", async || {
            let left = nodes(scene).await?.len() + scene.list("NodeClaim").await?.len() + aws.instances().await.len();
            Ok((left == 0).then_some(()))
        })
        .await;
}

/// AWS-256, AWS-257, AWS-258, SEED-0-4, SEED-1-26, SEED-1-28, SEED-1-31, SEED-1-33, SEED-2-23, SEED-2-25, SEED-2-31, SEED-2-41: with the values, the
/// rights and the environment of the chart's old forms, Provisioners of the guides get their nodes and give them back.
#[tokio::test]
async fn provisioners_of_the_guides() {
    let aws = OnAws::with(VALUES).await;
    prepare(&aws);
    let replica = aws.start("karpenter-legacy");
    let scene = Scene::new(&aws.installed, "legacy").await;
    tutorial(&aws, &scene, &replica).await;
    // SEED-2-26, SEED-2-27, SEED-2-28, SEED-2-31: the lines of the tutorial, in its order.
    let log = replica.log();
    let mut rest = log.as_str();
    for line in [
        "\tINFO\tcontroller.provisioning\tLaunched instance: i-",
        "\tINFO\tcontroller.provisioning\tBound 4 pod(s) to node i-",
        "\tINFO\tcontroller.provisioning\tWaiting for unschedulable pods\t{\"commit\": ",
        "\tINFO\tcontroller.node\tAdded TTL to empty node\t{\"commit\": ",
        "\tINFO\tcontroller.node\tTriggering termination after 30s for empty node\t",
        "\tINFO\tcontroller.termination\tCordoned node\t",
        "\tINFO\tcontroller.termination\tDeleted node\t",
    ] {
        let (_, after) = rest.split_once(line).unwrap_or_else(|| panic!("no {line:?} in\n{rest}\nof\n{log}"));
        rest = after;
    }
    blueprint(&aws, &scene).await;
    template(&aws, &scene).await;
    aws.nothing_was_denied();
}

async fn tutorial(aws: &OnAws, scene: &Scene<'_>, replica: &Replica) {
    apply(aws, TUTORIAL).await;
    scene.create(inflate("inflate", &json!({}))).await;
    scene.scale("inflate", 4).await;
    scene.all_run(4).await;
    let made = nodes(scene).await.unwrap();
    assert_eq!(made.len(), 1, "one node has room for all four");
    assert_eq!(label(&made[0], "karpenter.sh/provisioner-name"), "default");
    assert_eq!(label(&made[0], "karpenter.sh/capacity-type"), "spot");
    scene
        .wait("the Provisioner is ready and counts its node", async || {
            let provisioner = scene.get("Provisioner", "default").await?.unwrap_or_default();
            let ready = condition(&provisioner, "Ready") == ("True", "Ready");
            Ok((ready && provisioner["status"]["resources"]["nodes"] == "1").then_some(()))
        })
        .await;
    // A reader looks at the log before going on.
    scene
        .wait("the log says who runs where", async || {
            let log = replica.log();
            Ok((log.contains("Bound 4 pod(s)") && log.contains("Waiting for unschedulable pods")).then_some(()))
        })
        .await;
    scene.scale("inflate", 0).await;
    nobody_is_left(aws, scene).await;
    // The lines follow what is seen, once a second.
    scene
        .wait("the log says that it is gone", async || Ok(replica.log().contains("\tDeleted node\t").then_some(())))
        .await;
    scene.delete("Provisioner", "default").await;
    for kind in ["NodePool", "EC2NodeClass"] {
        scene
            .wait(&format!("the {kind} goes too"), async || {
                Ok(scene.get(kind, "default").await?.is_none().then_some(()))
            })
            .await;
    }
}

/// On m5.2xlarge there is room for seven, so ten need two; the Provisioner is deleted under them.
async fn blueprint(aws: &OnAws, scene: &Scene<'_>) {
    apply(aws, BLUEPRINT).await;
    scene.scale("inflate", 10).await;
    scene.all_run(10).await;
    let made = nodes(scene).await.unwrap();
    let types: Vec<&str> = made.iter().map(|node| label(node, "node.kubernetes.io/instance-type")).collect();
    assert_eq!(types, ["m5.2xlarge", "m5.2xlarge"]);
    assert!(made.iter().all(|node| label(node, "topology.kubernetes.io/zone") == "us-west-2c"));
    scene.delete("Provisioner", "default").await;
    nobody_is_left(aws, scene).await;
    scene.scale("inflate", 0).await;
    scene.all_run(0).await;
}

async fn template(aws: &OnAws, scene: &Scene<'_>) {
    apply(aws, &with_template(&aws.images[1])).await;
    scene.create(inflate("batch", &json!({"karpenter.sh/provisioner-name": "batch"}))).await;
    scene.scale("batch", 1).await;
    scene.all_run(1).await;
    let made = nodes(scene).await.unwrap();
    assert_eq!(made.iter().map(|node| label(node, "karpenter.sh/provisioner-name")).collect::<Vec<_>>(), ["batch"]);
    let instances = aws.instances().await;
    assert_eq!(instances[0].image_id, aws.images[1]);
    assert_eq!(instances[0].tags.get("team").map(String::as_str), Some("batch"));
    scene
        .wait("the template shows what it selects", async || {
            let template = scene.get("AWSNodeTemplate", "own").await?.unwrap_or_default();
            Ok((template["status"]["amis"][0]["id"] == aws.images[1].as_str()).then_some(()))
        })
        .await;
    // A slip is said, with its field, and costs nothing.
    scene.patch("AWSNodeTemplate", "own", json!({"spec": {"launchTemplate": "mine"}})).await;
    let message = scene
        .wait("the Provisioner says what is wrong", async || {
            let provisioner = scene.get("Provisioner", "batch").await?.unwrap_or_default();
            let conditions = provisioner["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let refused = conditions.into_iter().find(|one| one["type"] == "Translated" && one["status"] == "False");
            Ok(refused.map(|one| one["message"].as_str().unwrap_or_default().to_owned()))
        })
        .await;
    assert!(message.starts_with("AWSNodeTemplate/own spec.launchTemplate: "), "{message}");
    assert_eq!(name(&nodes(scene).await.unwrap()[0]), name(&made[0]));
    scene.delete("Provisioner", "batch").await;
    nobody_is_left(aws, scene).await;
    assert!(scene.get("AWSNodeTemplate", "own").await.unwrap().is_some(), "it is nobody's");
}

/// AWS-259, SEED-2-21: what stands for the webhook is ready when Provisioners can be made, and not before.
#[tokio::test]
async fn the_webhook_is_ready_when_provisioners_are_served() {
    let cluster = ControlPlane::builder().start().await.unwrap();
    let mut process = Command::new(env!("CARGO_BIN_EXE_karpenter-controller"))
        .args(["webhook", "0"])
        .env_clear()
        .env("KUBECONFIG", cluster.kubeconfig())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port: u16 = line.trim().rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{line}"));
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("/healthz").starts_with("HTTP/1.1 200"));
    let refused = ask("/readyz");
    assert!(refused.starts_with("HTTP/1.1 500") && refused.contains("Provisioner (karpenter.sh/v1alpha5) not served"));
    cluster.apply_crds(crd::legacy().into_iter().map(|crd| serde_json::from_value(crd).unwrap())).await.unwrap();
    wait("the webhook is ready", async || ask("/readyz").starts_with("HTTP/1.1 200").then_some(())).await;
    process.kill().unwrap();
    process.wait().unwrap();
}
