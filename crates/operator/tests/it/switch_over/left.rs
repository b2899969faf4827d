//! A cluster as Karpenter v1.15 leaves it: written down from the specification, with nothing of ours.
//!
//! Hashes are test vectors of the specification (API-225, AC-285), which is why the class has that role and no tags.

use karpenter_testkit::aws::REGION;
use kube::api::PostParams;
use serde_json::{Map, Value, json};

use crate::aws::OnAws;
use crate::live::scene::{Scene, condition, name, workload};

pub(super) const CLUSTER: &str = "shop";
/// What the chart is installed with. The bundle is the one of AC-285.
pub(super) const VALUES: &[&str] =
    &["settings.clusterName=shop", "settings.interruptionQueue=shop", "settings.clusterCABundle=Y2E="];

const ROLE: &str = "KarpenterNodeRole-eks-cluster";
/// AWS-69: the name of the cluster and a number that nobody can foresee.
pub(super) const PROFILE: &str = "shop_4067990795380418201";
/// How often the lease has changed hands.
pub(super) const TRANSITIONS: u64 = 4;
const CLASS_HASH: &str = "14037753032433926637";
const POOL_HASH: &str = "6821555240594823858";
const DISCOVERY: &str = "karpenter.sh/discovery";
const TYPES: [&str; 3] = ["m5.large", "m5.xlarge", "m5.2xlarge"];

/// A pool with one capacity type, and the claims that it has.
struct Pool {
    name: &'static str,
    capacity_type: &'static str,
    claims: &'static [&'static str],
}

const POOLS: [Pool; 2] = [
    Pool { name: "default", capacity_type: "on-demand", claims: &["default-7xk2p", "default-q9vzd"] },
    Pool { name: "spot", capacity_type: "spot", claims: &["spot-m4c8t"] },
];

/// What has been so for hours. Objects cannot be made older than they are; their conditions can.
fn hours_ago(hours: i64) -> String {
    let now = jiff::Timestamp::now().as_second();
    jiff::Timestamp::from_second(now - hours * 3600).unwrap().to_string()
}

/// API-30, API-117, API-122: a condition that is true, with its type as the reason.
fn is_true(type_: &str, hours: i64) -> Value {
    json!({"type": type_, "status": "True", "reason": type_, "message": "", "observedGeneration": 1,
        "lastTransitionTime": hours_ago(hours)})
}

/// All of it, with pods that run.
pub(super) async fn leave(aws: &OnAws, scene: &Scene<'_>) {
    let class = class(aws, scene).await;
    profile(aws, class["metadata"]["uid"].as_str().unwrap());
    let mut claims = Vec::new();
    for pool in &POOLS {
        let made = nodepool(scene, pool).await;
        let template = template(aws, pool);
        for (number, claim) in pool.claims.iter().enumerate() {
            let instance = launch(aws, pool, &template, number);
            claims.push((claim_of(scene, &made, pool, claim, &instance).await, instance));
        }
    }
    for (claim, instance) in &claims {
        register(aws, scene, claim, instance).await;
    }
    pods(scene).await;
    for (claim, instance) in &claims {
        claim_status(aws, scene, claim, instance).await;
    }
    for pool in &POOLS {
        pool_status(scene, pool).await;
    }
    class_status(aws, scene).await;
    released_lease(aws).await;
}

/// AWS-3, AWS-4, AWS-26, AWS-29.
async fn class(aws: &OnAws, scene: &Scene<'_>) -> Value {
    aws.account.call("iam", "create_role", json!({"RoleName": ROLE, "AssumeRolePolicyDocument": "{}"}));
    aws.allow(ROLE, &[]);
    let tagged = json!([{"tags": {DISCOVERY: CLUSTER}}]);
    let class = json!({"kind": "EC2NodeClass", "metadata": {"name": "default",
        "finalizers": ["karpenter.k8s.aws/termination"],
        "annotations": {"karpenter.k8s.aws/ec2nodeclass-hash": CLASS_HASH, "karpenter.k8s.aws/ec2nodeclass-hash-version": "v5"}},
        "spec": {"role": ROLE, "amiFamily": "AL2023", "amiSelectorTerms": [{"id": aws.images[0]}],
            "subnetSelectorTerms": tagged, "securityGroupSelectorTerms": tagged}});
    scene.create(class).await
}

fn tags(all: &[(&str, &str)]) -> Value {
    all.iter().map(|(key, value)| json!({"Key": key, "Value": value})).collect()
}

/// AWS-69.
fn profile(aws: &OnAws, uid: &str) {
    let tags = tags(&[
        ("kubernetes.io/cluster/shop", "owned"),
        ("eks:eks-cluster-name", CLUSTER),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
        ("topology.kubernetes.io/region", REGION),
    ]);
    let path = format!("/karpenter/{REGION}/{CLUSTER}/{uid}/");
    aws.account.call(
        "iam",
        "create_instance_profile",
        json!({"InstanceProfileName": PROFILE, "Path": path, "Tags": tags}),
    );
    let with_role = json!({"InstanceProfileName": PROFILE, "RoleName": ROLE});
    aws.account.call("iam", "add_role_to_instance_profile", with_role);
}

/// API-213, API-225: a template whose hash is known.
async fn nodepool(scene: &Scene<'_>, pool: &Pool) -> Value {
    let requirement = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let pool = json!({"kind": "NodePool", "metadata": {"name": pool.name,
    "annotations": {"karpenter.sh/nodepool-hash": POOL_HASH, "karpenter.sh/nodepool-hash-version": "v3"}},
    "spec": {"limits": {"cpu": "100"}, "template": {"spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [
            requirement("kubernetes.io/os", &["linux"]), requirement("kubernetes.io/arch", &["amd64"]),
            requirement("karpenter.sh/capacity-type", &[pool.capacity_type]),
            requirement("node.kubernetes.io/instance-type", &TYPES),
        ]}}}});
    let made = scene.create(pool).await;
    assert_eq!(made["spec"]["template"]["spec"]["expireAfter"], "720h", "the hash is of this default");
    made
}

/// AWS-155.
fn pool_tags(pool: &Pool) -> Value {
    tags(&[
        ("kubernetes.io/cluster/shop", "owned"),
        ("karpenter.sh/nodepool", pool.name),
        ("eks:eks-cluster-name", CLUSTER),
        ("karpenter.k8s.aws/ec2nodeclass", "default"),
    ])
}

fn groups(aws: &OnAws) -> Vec<Value> {
    let tagged = json!({"Filters": [{"Name": format!("tag:{DISCOVERY}"), "Values": [CLUSTER]}]});
    let answer = aws.account.call("ec2", "describe_security_groups", tagged);
    let mut groups = answer["SecurityGroups"].as_array().unwrap().clone();
    groups.sort_by_key(|group| group["GroupId"].as_str().unwrap().to_owned());
    groups
}

/// Those of the class, as the status has them: most free addresses first.
fn subnets(aws: &OnAws) -> Vec<Value> {
    let tagged = json!({"Filters": [{"Name": format!("tag:{DISCOVERY}"), "Values": [CLUSTER]}]});
    let answer = aws.account.call("ec2", "describe_subnets", tagged);
    let mut subnets = answer["Subnets"].as_array().unwrap().clone();
    let free = |subnet: &Value| std::cmp::Reverse(subnet["AvailableIpAddressCount"].as_i64());
    subnets.sort_by_key(|subnet| (free(subnet), subnet["SubnetId"].as_str().unwrap().to_owned()));
    subnets
}

/// AWS-156, AWS-158: a launch template of its own for each pool.
fn template(aws: &OnAws, pool: &Pool) -> String {
    let name = format!(
        "karpenter.k8s.aws/{}",
        if pool.name == "spot" { "9127731820037745110" } else { "2270834501829912077" }
    );
    let groups: Vec<Value> = groups(aws).iter().map(|group| group["GroupId"].clone()).collect();
    let data = json!({
        "ImageId": aws.images[0], "IamInstanceProfile": {"Name": PROFILE}, "UserData": "TUlNRQ==",
        "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": groups}],
        "MetadataOptions": {"HttpEndpoint": "enabled", "HttpProtocolIpv6": "disabled", "HttpPutResponseHopLimit": 1, "HttpTokens": "required"},
        "TagSpecifications": [{"ResourceType": "network-interface", "Tags": pool_tags(pool)}]});
    let tags = json!([{"ResourceType": "launch-template", "Tags": pool_tags(pool)}]);
    let request = json!({"LaunchTemplateName": name, "LaunchTemplateData": data, "TagSpecifications": tags});
    aws.account.call("ec2", "create_launch_template", request);
    name
}

/// What Karpenter knows of an instance.
struct Instance {
    id: String,
    zone: String,
    zone_id: String,
}

impl Instance {
    fn provider_id(&self) -> String {
        format!("aws:///{}/{}", self.zone, self.id)
    }
}

/// AWS-184: a fleet of one.
fn launch(aws: &OnAws, pool: &Pool, template: &str, number: usize) -> Instance {
    // By name, so that free addresses do not matter.
    let mut subnets = subnets(aws);
    subnets.sort_by_key(|subnet| subnet["SubnetId"].as_str().unwrap().to_owned());
    let subnet = &subnets[number % subnets.len()];
    let tagged = |kind: &str| json!({"ResourceType": kind, "Tags": pool_tags(pool)});
    let answer = aws.account.call(
        "ec2",
        "create_fleet",
        json!({
            "Type": "instant",
            "TargetCapacitySpecification": {"TotalTargetCapacity": 1, "DefaultTargetCapacityType": pool.capacity_type},
            "TagSpecifications": [tagged("instance"), tagged("volume"), tagged("fleet")],
            "LaunchTemplateConfigs": [{
                "LaunchTemplateSpecification": {"LaunchTemplateName": template, "Version": "$Latest"},
                "Overrides": [{"InstanceType": "m5.large", "SubnetId": subnet["SubnetId"], "ImageId": aws.images[0],
                    "AvailabilityZone": subnet["AvailabilityZone"]}]}],
        }),
    );
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{answer} {subnet}")).to_owned();
    Instance {
        id: text(&answer["Instances"][0]["InstanceIds"][0]),
        zone: text(&subnet["AvailabilityZone"]),
        zone_id: text(&subnet["AvailabilityZoneId"]),
    }
}

/// API-125, API-126, API-139, AWS-148: those of the type with one value, and where and how it was bought.
fn labels(pool: &Pool, instance: &Instance) -> Value {
    let of_type = [
        ("instance-category", "m"),
        ("instance-family", "m5"),
        ("instance-generation", "5"),
        ("instance-size", "large"),
        ("instance-cpu", "2"),
        ("instance-cpu-manufacturer", "intel"),
        ("instance-cpu-sustained-clock-speed-mhz", "3100"),
        ("instance-memory", "8192"),
        ("instance-ebs-bandwidth", "4750"),
        ("instance-network-bandwidth", "750"),
        ("instance-hypervisor", "nitro"),
        ("instance-encryption-in-transit-supported", "false"),
        ("instance-capability-flex", "false"),
        ("instance-tenancy", "default"),
        ("ec2nodeclass", "default"),
    ];
    let of_type = of_type.map(|(key, value)| (format!("karpenter.k8s.aws/{key}"), value.to_owned()));
    let others = [
        ("karpenter.sh/nodepool", pool.name),
        ("karpenter.sh/capacity-type", pool.capacity_type),
        ("kubernetes.io/arch", "amd64"),
        ("kubernetes.io/os", "linux"),
        ("node.kubernetes.io/instance-type", "m5.large"),
        ("topology.kubernetes.io/region", REGION),
        ("topology.kubernetes.io/zone", &instance.zone),
        ("topology.k8s.aws/zone-id", &instance.zone_id),
    ];
    let others = others.map(|(key, value)| (key.to_owned(), value.to_owned()));
    of_type.into_iter().chain(others).map(|(key, value)| (key, Value::from(value))).collect::<Map<_, _>>().into()
}

/// API-72, API-141, API-227, AWS-148: what a claim has since its launch, and its node since it registered.
fn annotations() -> Value {
    json!({
        "karpenter.sh/nodepool-hash": POOL_HASH, "karpenter.sh/nodepool-hash-version": "v3",
        "karpenter.sh/nodeclaim-min-values-relaxed": "false",
        "karpenter.k8s.aws/ec2nodeclass-hash": CLASS_HASH, "karpenter.k8s.aws/ec2nodeclass-hash-version": "v5",
        "karpenter.k8s.aws/instance-profile-name": PROFILE,
    })
}

/// API-72, API-73, API-151, LIF-4, and AWS-157 for the two annotations about tags.
async fn claim_of(scene: &Scene<'_>, owner: &Value, pool: &Pool, claim: &str, instance: &Instance) -> Value {
    let requirement = |key: &str, values: &[&str]| json!({"key": key, "operator": "In", "values": values});
    let mut annotations = annotations();
    annotations["karpenter.k8s.aws/tagged"] = "true".into();
    annotations["compatibility.karpenter.k8s.aws/cluster-name-tagged"] = "true".into();
    let claim = json!({"kind": "NodeClaim", "metadata": {
        "name": claim, "generateName": format!("{}-", pool.name), "labels": labels(pool, instance), "annotations": annotations,
        "finalizers": ["karpenter.sh/termination"],
        "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "name": pool.name,
            "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true}]},
    "spec": {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}, "expireAfter": "720h",
        "resources": {"requests": {"cpu": "1550m", "pods": "4"}},
        "requirements": [
            requirement("karpenter.k8s.aws/ec2nodeclass", &["default"]),
            requirement("karpenter.sh/capacity-type", &[pool.capacity_type]),
            requirement("karpenter.sh/nodepool", &[pool.name]),
            requirement("kubernetes.io/arch", &["amd64"]), requirement("kubernetes.io/os", &["linux"]),
            requirement("node.kubernetes.io/instance-type", &TYPES),
        ]}});
    scene.create(claim).await
}

/// The name of the node of an instance, as the emulated kubelets have it.
fn node_name(instance: &Instance) -> String {
    format!("{}.{REGION}.compute.internal", instance.id)
}

/// API-140, LIF-23, LIF-25, LIF-30: the node has joined, is registered and initialized; AWS-157: its instance bears its name.
async fn register(aws: &OnAws, scene: &Scene<'_>, claim: &Value, instance: &Instance) {
    let node = node_name(instance);
    let mut labels = claim["metadata"]["labels"].clone();
    labels["karpenter.sh/registered"] = "true".into();
    labels["karpenter.sh/initialized"] = "true".into();
    scene
        .wait("the node is registered and ready", async || {
            let Some(found) = scene.get("Node", &node).await? else { return Ok(None) };
            let taints: Vec<&Value> = found["spec"]["taints"].as_array().into_iter().flatten().collect();
            let guarded = taints.iter().any(|taint| taint["key"] == "karpenter.sh/unregistered");
            if guarded {
                let others: Vec<_> = taints.iter().filter(|taint| taint["key"] != "karpenter.sh/unregistered").collect();
                let patch = json!({
                    "metadata": {
                        "resourceVersion": found["metadata"]["resourceVersion"], "labels": labels, "annotations": annotations(),
                        "finalizers": ["karpenter.sh/termination"],
                        "ownerReferences": [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": name(claim),
                            "uid": claim["metadata"]["uid"], "blockOwnerDeletion": true}]},
                    "spec": {"taints": others}});
                scene.try_patch("Node", &node, &patch).await?;
            }
            let ready = condition(&found, "Ready").0 == "True";
            Ok((!guarded && taints.is_empty() && ready).then_some(()))
        })
        .await;
    let tags = tags(&[("Name", &node), ("karpenter.sh/nodeclaim", name(claim))]);
    aws.account.call("ec2", "create_tags", json!({"Resources": [instance.id], "Tags": tags}));
}

/// One pod for each node, which fills it, and one of a daemon set.
async fn pods(scene: &Scene<'_>) {
    let pod = |name: &str, cpu: &str, selector: Value| {
        json!({"metadata": {"labels": {"app": name}}, "spec": {"terminationGracePeriodSeconds": 0, "nodeSelector": selector,
            "containers": [{"name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}}]}})
    };
    let of = |pool: &Pool| json!({"karpenter.sh/nodepool": pool.name});
    scene.create(workload("DaemonSet", "agent", 0, pod("agent", "50m", json!({})))).await;
    scene.all_run(3).await;
    for (workload_name, pool) in [("web", &POOLS[0]), ("batch", &POOLS[1])] {
        let replicas = u32::try_from(pool.claims.len()).unwrap();
        scene.create(workload("Deployment", workload_name, replicas, pod(workload_name, "1500m", of(pool)))).await;
    }
    scene.all_run(6).await;
}

/// API-76, API-78, API-120; AWS-118 to AWS-133 for an m5.large (the figures of aws.md, 3.11).
async fn claim_status(aws: &OnAws, scene: &Scene<'_>, claim: &Value, instance: &Instance) {
    let status = json!({
        "nodeName": node_name(instance), "providerID": instance.provider_id(), "imageID": aws.images[0],
        "capacity": {"cpu": "2", "memory": "7577Mi", "pods": "29", "ephemeral-storage": "20Gi", "vpc.amazonaws.com/pod-eni": "9"},
        "allocatable": {"cpu": "1930m", "memory": "6903Mi", "pods": "29", "ephemeral-storage": "17Gi", "vpc.amazonaws.com/pod-eni": "9"},
        "lastPodEventTime": hours_ago(0),
        "conditions": [is_true("Launched", 9), is_true("Registered", 8), is_true("Initialized", 7),
            is_true("ConsistentStateFound", 6), is_true("Consolidatable", 5), is_true("Ready", 7)],
    });
    scene.patch("NodeClaim", &format!("{}/status", name(claim)), json!({"status": status})).await;
}

/// API-55, API-57, API-97: sums of what the nodes say of themselves.
async fn pool_status(scene: &Scene<'_>, pool: &Pool) {
    let count = pool.claims.len();
    let status = json!({
        "nodes": count, "nodeClassObservedGeneration": 1,
        "resources": {"cpu": (2 * count).to_string(), "memory": format!("{}Mi", 6963 * count), "pods": (29 * count).to_string(),
            "ephemeral-storage": format!("{}Gi", 18 * count), "nodes": count.to_string()},
        "conditions": [is_true("ValidationSucceeded", 9), is_true("NodeClassReady", 9), is_true("NodeRegistrationHealthy", 8),
            is_true("Ready", 9)],
    });
    scene.patch("NodePool", &format!("{}/status", pool.name), json!({"status": status})).await;
}

/// AWS-17, AWS-53, AWS-60, AWS-67: with the gate ReservedCapacity, which is on, there are eight conditions.
async fn class_status(aws: &OnAws, scene: &Scene<'_>) {
    let subnets: Vec<Value> = subnets(aws)
        .iter()
        .map(|one| json!({"id": one["SubnetId"], "zone": one["AvailabilityZone"], "zoneID": one["AvailabilityZoneId"]}))
        .collect();
    let groups: Vec<Value> =
        groups(aws).iter().map(|one| json!({"id": one["GroupId"], "name": one["GroupName"]})).collect();
    let conditions = [
        "AMIsReady",
        "CapacityReservationsReady",
        "PlacementGroupReady",
        "SubnetsReady",
        "SecurityGroupsReady",
        "InstanceProfileReady",
        "ValidationSucceeded",
        "Ready",
    ];
    let status = json!({
        "subnets": subnets, "securityGroups": groups, "instanceProfile": PROFILE,
        "amis": [{"id": aws.images[0], "name": "one",
            "requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]}],
        "conditions": conditions.map(|type_| is_true(type_, 9)),
    });
    scene.patch("EC2NodeClass", "default/status", json!({"status": status})).await;
}

/// API-296, API-297: given back at a graceful end, as client-go gives leases back.
async fn released_lease(aws: &OnAws) {
    let leases =
        kube::Api::<k8s_openapi::api::coordination::v1::Lease>::namespaced(aws.installed.client(), "karpenter");
    let lease = json!({"metadata": {"name": "karpenter-leader-election"}, "spec": {"holderIdentity": "", "leaseDurationSeconds": 1,
        "leaseTransitions": TRANSITIONS, "acquireTime": "2026-01-05T09:00:00.000000Z", "renewTime": "2026-01-05T09:00:00.000000Z"}});
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
}
