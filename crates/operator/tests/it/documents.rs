//! The manifests of the published guides, one guide after the other, on one control plane and in one AWS account: what they ask for
//! is applied, used as they say, and taken down in their order. Those with Provisioners are in `legacy.rs`.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use karpenter_testkit::aws::REGION;
use serde_json::{Value, json};

use crate::aws::OnAws;
use crate::live::installed::Replica;
use crate::live::scene::{Scene, condition, label, name};

const CLUSTER: &str = "shop";
const KOPS: &str = "my-cluster.example.com";

/// SEED-0-1, SEED-0-5, SEED-3-1, SEED-4-19: three guides, and nothing is left of any.
#[tokio::test]
async fn manifests_of_the_guides() {
    // The first guide has no queue (SEED-0-24).
    let aws = OnAws::with(&["settings.clusterName=shop"]).await;
    let scene = Scene::new(&aws.installed, "documents").await;
    apply(&aws, &file("docs/examples/eks/inflate.yaml")).await;
    by_hand(&aws, &scene).await;
    terraform(&aws, &scene).await;
    kops(&aws, &scene).await;
}

fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}

async fn apply(aws: &OnAws, manifests: &str) {
    let out =
        aws.installed.cluster.kubectl_with_input(["apply", "-n", "documents", "-f", "-"], manifests).await.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}

/// The controller with settings of a guide.
fn start(aws: &OnAws, name: &str, more: &[(&str, &str)]) -> Replica {
    let environment = aws.account.environment();
    let own = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    // They run one after the other, and a machine may be too busy to renew a lease.
    let more = more.iter().copied().chain([("DISABLE_LEADER_ELECTION", "true")]);
    aws.installed.start_with(name, &own.chain(more).collect::<Vec<_>>())
}

async fn stop(mut replica: Replica) {
    replica.signal("-TERM").await;
    assert_eq!(replica.ended().await, 0, "{}", replica.log());
}

/// Ids of what a call describes.
fn ids(aws: &OnAws, call: &str, list: &str, id: &str) -> Vec<Value> {
    let answer = aws.account.call("ec2", call, json!({}));
    answer[list].as_array().unwrap().iter().map(|one| one[id].clone()).collect()
}

fn subnets(aws: &OnAws) -> Vec<Value> {
    ids(aws, "describe_subnets", "Subnets", "SubnetId")
}

fn groups(aws: &OnAws) -> Vec<Value> {
    ids(aws, "describe_security_groups", "SecurityGroups", "GroupId")
}

fn tag(aws: &OnAws, resources: &[Value], tags: &[(&str, &str)]) {
    let tags: Vec<Value> = tags.iter().map(|(key, value)| json!({"Key": key, "Value": value})).collect();
    aws.account.call("ec2", "create_tags", json!({"Resources": resources, "Tags": tags}));
}

fn profile(aws: &OnAws, profile: &str, role: &str) {
    aws.account.call("iam", "create_role", json!({"RoleName": role, "AssumeRolePolicyDocument": "{}"}));
    aws.account.call("iam", "create_instance_profile", json!({"InstanceProfileName": profile}));
    let with = json!({"InstanceProfileName": profile, "RoleName": role});
    aws.account.call("iam", "add_role_to_instance_profile", with);
}

/// Running instances with this tag, as the AWS command line shows them.
fn running(aws: &OnAws, key: &str, value: &str) -> Vec<Value> {
    let filters = json!({"Filters": [{"Name": format!("tag:{key}"), "Values": [value]},
        {"Name": "instance-state-name", "Values": ["running", "pending"]}]});
    let answer = aws.account.call("ec2", "describe_instances", filters);
    let reservations = answer["Reservations"].as_array().unwrap();
    reservations.iter().flat_map(|one| one["Instances"].as_array().unwrap().clone()).collect()
}

fn tags(instance: &Value) -> Vec<(&str, &str)> {
    let tags = instance["Tags"].as_array().unwrap();
    tags.iter().map(|tag| (tag["Key"].as_str().unwrap(), tag["Value"].as_str().unwrap())).collect()
}

async fn class_becomes(scene: &Scene<'_>, class: &str, type_: &str, reason: &str) {
    scene
        .wait(&format!("{class} says {type_} {reason}"), async || {
            let found = scene.get("EC2NodeClass", class).await?.unwrap_or_default();
            Ok((condition(&found, type_).1 == reason).then_some(()))
        })
        .await;
}

async fn nobody_is_left(scene: &Scene<'_>, aws: &OnAws, key: &str, value: &str) {
    scene
        .wait("no node, claim and instance is left", async || {
            let nodes = scene.list("Node").await?;
            let ours = nodes.iter().filter(|node| !label(node, "karpenter.sh/nodepool").is_empty()).count();
            let left = ours + scene.list("NodeClaim").await?.len() + running(aws, key, value).len();
            Ok((left == 0).then_some(()))
        })
        .await;
}

/// The guide's last commands: pools, then classes.
async fn take_down(scene: &Scene<'_>, aws: &OnAws, key: &str, value: &str) {
    for kind in ["NodePool", "EC2NodeClass"] {
        for object in scene.list(kind).await.unwrap() {
            scene.delete(kind, name(&object)).await;
        }
    }
    nobody_is_left(scene, aws, key, value).await;
    scene.wait("no class is left", async || Ok(scene.list("EC2NodeClass").await?.is_empty().then_some(()))).await;
}

/// A deployment like `inflate`, of one pod that goes where this says.
fn one_pod(deployment: &str, selector: &Value) -> Value {
    json!({"kind": "Deployment", "metadata": {"name": deployment}, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": deployment}},
        "template": {"metadata": {"labels": {"app": deployment}}, "spec": {
            "terminationGracePeriodSeconds": 0, "nodeSelector": selector,
            "containers": [{"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": "1"}}}]}}}})
}

/// What the guide lets the controller do (SEED-0-20), which has nothing to do with queues (SEED-0-24).
fn inline_policy() -> Value {
    let actions = ["ssm:GetParameter", "ec2:*", "pricing:GetProducts", "iam:*", "eks:DescribeCluster"];
    json!([{"Effect": "Allow", "Action": actions, "Resource": "*"}])
}

/// SEED-0-2, SEED-0-3, SEED-0-8, SEED-0-17, SEED-0-20, SEED-0-22, SEED-0-24, SEED-0-30, SEED-0-33, SEED-0-34, SEED-0-35, SEED-0-36, SEED-0-37,
/// SEED-0-39: EKS by hand.
async fn by_hand(aws: &OnAws, scene: &Scene<'_>) {
    profile(aws, "KarpenterNodeInstanceProfile-shop", "KarpenterNodeRole-shop");
    let parameter = "/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/x86_64/standard/recommended/image_id";
    let mut prices = aws.account.settings()["prices"].clone();
    prices["c5.large"] = json!(0.085);
    let mut spot = aws.account.settings()["spot_prices"].as_array().unwrap().clone();
    spot.push(json!({"InstanceType": "c5.large", "AvailabilityZone": "us-west-2a", "SpotPrice": "0.029"}));
    aws.account.change(json!({"parameters": {parameter: aws.images[1]}, "policy": inline_policy(), "prices": prices, "spot_prices": spot}));
    let replica = start(aws, "karpenter-by-hand", &[]);

    let class = file("docs/examples/eks/nodeclass.yaml").replace("${CLUSTER_NAME}", CLUSTER);
    apply(aws, &class).await;
    // Another one, whose subnets and groups get their tags later.
    let later = class.replace("name: default", "name: later").replace("karpenter.sh/discovery", "example.com/later");
    apply(aws, &later).await;
    class_becomes(scene, "later", "SubnetsReady", "SubnetsNotFound").await;
    tag(aws, &[subnets(aws), groups(aws)].concat(), &[("example.com/later", CLUSTER)]);
    // An image of another region, then one of this.
    let pinned = |id: &str| json!({"spec": {"amiFamily": "AL2023", "amiSelectorTerms": [{"id": id}]}});
    class_becomes(scene, "default", "Ready", "Ready").await;
    scene.patch("EC2NodeClass", "default", pinned("ami-09f1941e8730d7702")).await;
    class_becomes(scene, "default", "AMIsReady", "AMINotFound").await;
    scene.patch("EC2NodeClass", "default", pinned(&aws.images[0])).await;
    class_becomes(scene, "default", "Ready", "Ready").await;

    let pool = file("docs/examples/eks/nodepool.yaml");
    apply(aws, &pool).await;
    scene.scale("inflate", 5).await;
    scene.all_run(5).await;
    let instances = running(aws, "karpenter.sh/nodepool", "default");
    assert!(!instances.is_empty());
    let class = scene.get("EC2NodeClass", "default").await.unwrap().unwrap();
    let managed = class["status"]["instanceProfile"].as_str().unwrap();
    assert!(managed.starts_with("shop_"), "{managed}");
    let launched = aws.account.launched();
    for instance in &instances {
        assert_eq!(instance["InstanceLifecycle"], "spot", "{instance}");
        assert_eq!(instance["ImageId"], aws.images[0].as_str(), "{instance}");
        let type_ = instance["InstanceType"].as_str().unwrap();
        assert!(type_.starts_with(['c', 'm', 'r']), "{type_}");
        let id = instance["InstanceId"].as_str().unwrap();
        assert_eq!(launched[id]["instance_profile"], managed, "{launched}");
        assert!(text_of(&launched[id]["user_data"]).contains("kind: NodeConfig"), "{launched}");
    }

    // A wish: one of two types, in one zone, spot if there is some.
    let mut wish: Value = serde_saphyr::from_str(&pool).unwrap();
    wish["metadata"]["name"] = "wish".into();
    wish["spec"]["template"]["metadata"] = json!({"labels": {"example.com/wish": "yes"}});
    let wanted = [
        ("node.kubernetes.io/instance-type", ["c5.large", "m5.xlarge"].as_slice()),
        ("topology.kubernetes.io/zone", &["us-west-2a"]),
        ("karpenter.sh/capacity-type", &["spot", "on-demand"]),
    ];
    wish["spec"]["template"]["spec"]["requirements"] =
        wanted.iter().map(|(key, values)| json!({"key": key, "operator": "In", "values": values})).collect();
    scene.create(wish).await;
    scene.create(one_pod("wish", &json!({"example.com/wish": "yes"}))).await;
    scene.all_run(6).await;
    let granted = running(aws, "karpenter.sh/nodepool", "wish");
    let told: Vec<[&Value; 3]> = granted
        .iter()
        .map(|one| [&one["InstanceType"], &one["Placement"]["AvailabilityZone"], &one["InstanceLifecycle"]])
        .collect();
    assert_eq!(told, [["c5.large", "us-west-2a", "spot"]]);
    scene.delete("Deployment", "wish").await;

    // Empty nodes go after half a minute.
    scene.scale("inflate", 0).await;
    nobody_is_left(scene, aws, "eks:eks-cluster-name", CLUSTER).await;
    class_becomes(scene, "later", "Ready", "Ready").await;
    take_down(scene, aws, "eks:eks-cluster-name", CLUSTER).await;
    let manual = json!({"InstanceProfileName": "KarpenterNodeInstanceProfile-shop"});
    let manual = aws.account.call("iam", "get_instance_profile", manual);
    assert_eq!(manual["InstanceProfile"]["Roles"][0]["RoleName"], "KarpenterNodeRole-shop", "nobody touched it");
    aws.nothing_was_denied();
    stop(replica).await;
}

fn text_of(user_data: &Value) -> String {
    String::from_utf8(STANDARD.decode(user_data.as_str().unwrap()).unwrap()).unwrap()
}

/// The objects of `modules/karpenter` with ids of subnets and of a group.
fn objects_of_the_module(aws: &OnAws) -> Vec<Value> {
    let terms = |ids: &[Value]| ids.iter().map(|id| json!({"id": id})).collect::<Value>();
    let pool = |name: &str, capacity_type: &str, weight: u32| {
        let requirement = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
        json!({"kind": "NodePool", "metadata": {"name": name}, "spec": {
            "weight": weight, "limits": {"cpu": "1000"},
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "30s"},
            "template": {"metadata": {"labels": {}}, "spec": {
                "expireAfter": "720h", "taints": [],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    requirement("karpenter.sh/capacity-type", &[capacity_type]),
                    requirement("karpenter.k8s.aws/instance-category", &["c", "m", "r"]),
                    requirement("kubernetes.io/arch", &["amd64"]), requirement("kubernetes.io/os", &["linux"])]}}}})
    };
    let class = json!({"kind": "EC2NodeClass", "metadata": {"name": "default"}, "spec": {
        "role": "KarpenterNodeRole-shop", "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": terms(&subnets(aws)), "securityGroupSelectorTerms": terms(&groups(aws)[..1])}});
    vec![class, pool("spot-pool", "spot", 50), pool("ondemand-pool", "on-demand", 10)]
}

/// SEED-3-3, SEED-3-17, SEED-3-21, SEED-3-22, SEED-3-23, SEED-3-25, SEED-3-35, SEED-3-40: Terraform. There is no spot capacity, so the other pool
/// is used; both are deleted while the controller runs.
async fn terraform(aws: &OnAws, scene: &Scene<'_>) {
    aws.allow("KarpenterNodeRole-shop", &[]);
    aws.account.change(json!({"no_capacity": [{"capacity_type": "spot"}]}));
    let replica = start(aws, "karpenter-terraform", &[("INTERRUPTION_QUEUE", CLUSTER)]);
    for object in objects_of_the_module(aws) {
        scene.create(object).await;
    }
    scene.scale("inflate", 4).await;
    scene.all_run(4).await;
    let instances = running(aws, "eks:eks-cluster-name", CLUSTER);
    assert!(!instances.is_empty());
    for instance in &instances {
        assert!(instance["InstanceLifecycle"].is_null(), "{instance}");
        let tags = tags(instance);
        for wanted in [("karpenter.sh/nodepool", "ondemand-pool"), ("kubernetes.io/cluster/shop", "owned")] {
            assert!(tags.contains(&wanted), "{wanted:?} {tags:?}");
        }
    }
    // Whoever deletes the class first is told what it waits for.
    scene.delete("EC2NodeClass", "default").await;
    let told = scene.event("WaitingOnNodeClaimTermination", "default").await;
    assert!(told.contains("Waiting on NodeClaim termination for ondemand-pool-"), "{told}");
    take_down(scene, aws, "karpenter.sh/nodepool", "ondemand-pool").await;
    scene.scale("inflate", 0).await;
    scene.all_run(0).await;
    aws.nothing_was_denied();
    stop(replica).await;
}

/// What the guide gives the controller's service account, which has nothing to do with EKS.
fn kops_policy(aws: &OnAws) -> Value {
    let text = file("deploy/kops/permissions.yaml");
    let (id, queue) = (aws.account.id(), KOPS.replace('.', "-"));
    let known = [("AWS_REGION", REGION), ("AWS_ACCOUNT_ID", &id), ("NAME", KOPS), ("QUEUE_NAME", &queue)];
    let filled = known.iter().fold(text, |text, (name, value)| text.replace(&format!("${{{name}}}"), value));
    let spec: Value = serde_saphyr::from_str(&filled).unwrap();
    let accounts = &spec["spec"]["iam"]["serviceAccountExternalPermissions"];
    serde_json::from_str(accounts[0]["aws"]["inlinePolicy"].as_str().unwrap()).unwrap()
}

/// SEED-4-4, SEED-4-7, SEED-4-8, SEED-4-9, SEED-4-10, SEED-4-11, SEED-4-12, SEED-4-13, SEED-4-16, SEED-4-17, SEED-4-18, SEED-4-21, SEED-4-27: kOps, a
/// cluster that EKS does not know and whose name has dots.
async fn kops(aws: &OnAws, scene: &Scene<'_>) {
    let script = "#!/bin/bash\nset -o errexit\necho nodeup --conf=${HOSTNAME}\n";
    let path =
        |arch: &str| format!("/aws/service/canonical/ubuntu/server/24.04/stable/current/{arch}/hvm/ebs-gp3/ami-id");
    let arm = json!({"Name": "arm", "Architecture": "arm64", "RootDeviceName": "/dev/sda1"});
    let arm = aws.account.call("ec2", "register_image", arm)["ImageId"].as_str().unwrap().to_owned();
    let mut spot = aws.account.settings()["spot_prices"].as_array().unwrap().clone();
    // The smallest machines of all: spot that is dearer than they on demand would not be taken.
    spot.extend(
        ["t3a.nano", "t4g.nano"]
            .map(|smallest| json!({"InstanceType": smallest, "AvailabilityZone": "us-west-2a", "SpotPrice": "0.0013"})),
    );
    aws.account.change(json!({
        "no_capacity": [], "policy": kops_policy(aws), "spot_prices": spot,
        "parameters": {path("amd64"): aws.images[0], path("arm64"): arm}}));
    tag(aws, &subnets(aws), &[("KubernetesCluster", KOPS)]);
    let of_nodes = format!("nodes.{KOPS}");
    tag(aws, &groups(aws)[..1], &[("KubernetesCluster", KOPS), ("Name", &of_nodes)]);
    profile(aws, &of_nodes, &of_nodes);
    let before = aws.account.calls().len();
    let settings = [("CLUSTER_NAME", KOPS), ("CLUSTER_ENDPOINT", "https://api.internal.my-cluster.example.com")];
    let replica = start(aws, "karpenter-kops", &settings);

    let class = file("deploy/kops/nodeclass.yaml").replace("${NAME}", KOPS);
    apply(aws, &class.replace("${USER_DATA}", &script.trim_end().replace('\n', "\n    "))).await;
    let mut pool: Value = serde_saphyr::from_str(&file("deploy/kops/nodepool.yaml")).unwrap();
    pool["spec"]["template"]["spec"]["taints"] = json!([{"key": "example.com/own", "effect": "PreferNoSchedule"}]);
    scene.create(pool).await;
    for arch in ["amd64", "arm64"] {
        scene.create(one_pod(arch, &json!({"kubernetes.io/arch": arch}))).await;
    }
    scene.all_run(2).await;

    let launched = aws.account.launched();
    let mut images = Vec::new();
    for instance in running(aws, "KubernetesCluster", KOPS) {
        assert_eq!(instance["InstanceLifecycle"], "spot", "{instance}");
        let tags = tags(&instance);
        for wanted in [
            ("kops.k8s.io/instancegroup", "nodes"),
            ("k8s.io/role/node", "1"),
            ("kubernetes.io/cluster/my-cluster.example.com", "owned"),
            ("eks:eks-cluster-name", KOPS),
        ] {
            assert!(tags.contains(&wanted), "{wanted:?} {tags:?}");
        }
        let given = &launched[instance["InstanceId"].as_str().unwrap()];
        assert_eq!(text_of(&given["user_data"]), script);
        assert_eq!(given["instance_profile"], of_nodes.as_str());
        assert_eq!(given["network_interfaces"][0]["AssociatePublicIpAddress"], true, "{given}");
        images.push(instance["ImageId"].as_str().unwrap().to_owned());
    }
    images.sort();
    let mut wanted = [aws.images[0].clone(), arm];
    wanted.sort();
    assert_eq!(images, wanted, "one node of each architecture");
    // Taints of the pool are brought by the controller: the script knows none.
    for node in scene.list("Node").await.unwrap() {
        let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
        assert!(taints.iter().any(|taint| taint["key"] == "example.com/own"), "{node}");
        assert!(label(&node, "karpenter.sh/do-not-sync-taints").is_empty(), "{node}");
    }
    for arch in ["amd64", "arm64"] {
        scene.delete("Deployment", arch).await;
    }
    take_down(scene, aws, "KubernetesCluster", KOPS).await;
    let calls = aws.account.calls();
    let asked = calls[before..].iter().filter(|call| {
        let operation = call["operation"].as_str().unwrap_or_default();
        operation == "DescribeCluster" || ["CreateInstanceProfile", "DeleteInstanceProfile"].contains(&operation)
    });
    assert_eq!(
        asked.collect::<Vec<_>>(),
        Vec::<&Value>::new(),
        "EKS does not know the cluster, and the profile is kOps' own"
    );
    aws.nothing_was_denied();
    stop(replica).await;
}
