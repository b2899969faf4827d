//! From Karpenter and back: a cluster as Karpenter v1.15 leaves it is taken over, used, and handed back.

mod history;
mod left;
mod series;

use std::collections::BTreeSet;

use karpenter_api::crd;
use karpenter_schema::Schema;
use serde_json::{Value, json};

use crate::aws::OnAws;
use crate::live::installed::Replica;
use crate::live::scene::{Scene, condition, name};
use history::{History, essence};

/// API-226, API-228, API-233, AWS-29, AWS-30, LIF-94, LIF-96, LC-133: nothing that Karpenter left is changed, replaced or launched
/// anew, and all that dashboards show is there; what is made then looks like the rest; and nothing stays that is ours alone.
#[tokio::test]
async fn from_karpenter_and_back() {
    let aws = OnAws::with(left::VALUES).await;
    let scene = Scene::new(&aws.installed, "switch-over").await;
    left::leave(&aws, &scene).await;
    let (instances, objects) = (described(&aws), objects(&aws).await);
    let calls = aws.account.calls().len();
    let history = History::begin(&aws.installed.client()).await;

    // On a machine that is too busy to renew a lease a controller ends, and a Deployment starts another. Not in here.
    let mut replica = start(&aws, "karpenter-over", &[("DISABLE_LEADER_ELECTION", "true")]);
    looked_at_everything(&scene, &replica).await;
    series::all_there(&scene, &replica).await;
    let changes = history.changes();
    assert!(changes.is_empty(), "{}\n{}", changes.join("\n"), replica.log());
    drop(history);
    assert_eq!(described(&aws), instances, "instances and their tags");
    nothing_was_done(&aws, calls);
    nothing_was_said(&scene, &replica).await;
    assert_eq!(added(&objects, &aws).await, Vec::<String>::new());
    as_the_guide_says(&aws).await;

    let made = one_more(&aws, &scene).await;
    replica.signal("-TERM").await;
    assert_eq!(replica.ended().await, 0, "{}", replica.log());
    let mut expected = vec![format!("NodeClaim /{}", made.claim), format!("Node /{}", made.node)];
    expected.extend(made.pods.iter().map(|pod| format!("Pod switch-over/{pod}")));
    expected.sort();
    assert_eq!(added(&objects, &aws).await, expected);
    handed_back(&aws, &scene).await;

    // Karpenter had it again, and was killed when it had just begun to replace a node.
    let before = begun_command(&scene).await;
    for attempt in 1.. {
        let mut replica = start(&aws, &format!("karpenter-again-{attempt}"), &[]);
        taken_back(&scene, &before).await;
        replica.signal("-TERM").await;
        let code = replica.ended().await;
        // See above; the next one gives the lease back.
        if code == 0 {
            break;
        }
        assert!(replica.log().contains("lost the lease") && attempt < 5, "{}", replica.log());
    }
    handed_back(&aws, &scene).await;
    assert!(lease(&aws).await["spec"]["leaseTransitions"].as_u64() > Some(left::TRANSITIONS));
    assert_eq!(added(&objects, &aws).await, expected);
    aws.nothing_was_denied();
}

/// One that says all it has to say.
fn start(aws: &OnAws, name: &str, more: &[(&str, &str)]) -> Replica {
    let environment = aws.account.environment();
    let own = environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let more = more.iter().copied().chain([("LOG_LEVEL", "debug")]);
    aws.installed.start_with(name, &own.chain(more).collect::<Vec<_>>())
}

/// Each claim was checked for drift, each kind of garbage was looked for, and candidates of every method were looked at twice.
async fn looked_at_everything(scene: &Scene<'_>, replica: &Replica) {
    let wanted: &[(&str, &[&str], f64)] = &[
        ("karpenter_cloudprovider_duration_seconds_count", &["method=\"IsDrifted\""], 3.0),
        ("karpenter_cloudprovider_duration_seconds_count", &["method=\"List\"", "nodeclaim.garbagecollection"], 1.0),
        ("karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count", &["reason=\"drifted\""], 2.0),
        ("karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count", &["reason=\"empty\""], 2.0),
        (
            "karpenter_voluntary_disruption_decision_evaluation_duration_seconds_count",
            &["reason=\"underutilized\"", "consolidation_type=\"single\""],
            1.0,
        ),
        ("controller_runtime_reconcile_total", &["controller=\"nodeclass\""], 1.0),
        ("controller_runtime_reconcile_total", &["controller=\"nodepool.counter\""], 2.0),
        ("controller_runtime_reconcile_total", &["controller=\"nodeclaim.lifecycle\""], 3.0),
    ];
    let port = replica.port("metrics").await;
    for (name, labels, count) in wanted {
        scene
            .wait(&format!("{name}{labels:?} is {count}"), async || {
                let (_, text) = replica.get(port, "/metrics").await;
                let ours =
                    text.lines().filter(|line| line.starts_with(name) && labels.iter().all(|l| line.contains(l)));
                let sum: f64 = ours.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum();
                Ok((sum >= *count).then_some(()))
            })
            .await;
    }
}

/// Instances of the cluster with their tags, profiles and states.
fn described(aws: &OnAws) -> Value {
    let ours = json!({"Filters": [{"Name": "tag:eks:eks-cluster-name", "Values": [left::CLUSTER]}]});
    aws.account.call("ec2", "describe_instances", ours)["Reservations"].clone()
}

/// No call that changes the account but the template of the check of rights (AWS-102), and what cleans up templates (AWS-161).
fn nothing_was_done(aws: &OnAws, before: usize) {
    let changing = ["Create", "Terminate", "Delete", "Add", "Remove", "Modify", "Reboot", "Run", "Tag", "Untag"];
    let calls = aws.account.calls();
    let done = calls[before..].iter().filter(|call| {
        let operation = call["operation"].as_str().unwrap_or_default();
        let allowed = ["CreateLaunchTemplate", "DeleteLaunchTemplate"].contains(&operation);
        changing.iter().any(|verb| operation.starts_with(verb)) && call["dry_run"] != true && !allowed
    });
    let done: Vec<&Value> = done.collect();
    assert!(done.is_empty(), "{done:?}");
}

/// Nobody is told of trouble, in the cluster or in the log.
async fn nothing_was_said(scene: &Scene<'_>, replica: &Replica) {
    for event in scene.events().await.unwrap() {
        assert!(event["source"]["component"] != "karpenter" || event["type"] == "Normal", "{event}");
    }
    for line in replica.lines() {
        assert!(line["level"] != "ERROR" && line["level"] != "WARN", "{line}");
    }
}

/// What readers of `docs/guides/from-karpenter.md` look at shows what it says.
async fn as_the_guide_says(aws: &OnAws) {
    let guide = include_str!("../../../../docs/guides/from-karpenter.md");
    let commands = guide.lines().filter_map(|line| line.trim().strip_prefix("kubectl get "));
    let commands: Vec<&str> = commands.map(|rest| rest.split(" > ").next().unwrap_or(rest)).collect();
    assert!(commands.len() >= 4, "{commands:?}");
    for command in commands {
        let out = aws.installed.cluster.kubectl(["get"].into_iter().chain(command.split_whitespace())).await.unwrap();
        let (said, error) = (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap());
        assert!(out.status.success(), "{command}: {error}");
        match command {
            "nodeclaims -o wide" => {
                let [head, claims @ ..] = &said.lines().collect::<Vec<_>>()[..] else { panic!("{said}") };
                assert!(head.ends_with("DRIFTED"), "{head}");
                assert!(claims.len() == 3 && claims.iter().all(|line| line.trim_end().ends_with("default")), "{said}");
            }
            _ if command.contains("type=Warning") => assert!(!said.contains("karpenter"), "{said}"),
            _ => assert!(said.contains("default"), "{said}"),
        }
    }
}

/// Every object of the cluster but those that the control plane keeps for itself, and events.
async fn objects(aws: &OnAws) -> BTreeSet<String> {
    let cluster = &aws.installed.cluster;
    let out = cluster.kubectl(["api-resources", "--verbs=list", "-o", "name"]).await.unwrap();
    let kinds = String::from_utf8(out.stdout).unwrap();
    let kinds: Vec<&str> =
        kinds.lines().filter(|kind| !kind.starts_with("events") && !kind.starts_with("componentstatuses")).collect();
    let columns = "-o=jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{\"\\n\"}{end}";
    let out = cluster.kubectl(["get", &kinds.join(","), "--all-namespaces", columns]).await.unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("NodePool /default") && text.contains("Lease karpenter/karpenter-leader-election"), "{text}");
    text.lines().filter(|line| !line.contains(" kube-")).map(str::to_owned).collect()
}

/// Those that were not there before; and none has gone.
async fn added(before: &BTreeSet<String>, aws: &OnAws) -> Vec<String> {
    let now = objects(aws).await;
    let gone: Vec<&String> = before.difference(&now).collect();
    assert!(gone.is_empty(), "{gone:?}");
    now.difference(before).cloned().collect()
}

struct Made {
    claim: String,
    node: String,
    pods: Vec<String>,
}

/// A pod more needs a node more. Whatever is made for it has the names that Karpenter's own has.
async fn one_more(aws: &OnAws, scene: &Scene<'_>) -> Made {
    let known = |kind: &'static str| async move { scene.list(kind).await.unwrap() };
    let (claims, nodes, pods) = (known("NodeClaim").await, known("Node").await, known("Pod").await);
    scene.scale("web", 3).await;
    let claim = scene
        .wait("a claim more, all tagged", async || {
            let all = scene.list("NodeClaim").await?;
            let new = all.into_iter().find(|claim| claims.iter().all(|old| name(old) != name(claim)));
            let done = |claim: &Value| {
                condition(claim, "Ready").0 == "True"
                    && condition(claim, "Consolidatable").0 == "True"
                    && claim["metadata"]["annotations"]["karpenter.k8s.aws/tagged"] == "true"
            };
            Ok(new.filter(done))
        })
        .await;
    let all = scene.all_run(8).await;
    let node = claim["status"]["nodeName"].as_str().unwrap().to_owned();
    let new_node = scene.get("Node", &node).await.unwrap().unwrap();
    alike("NodeClaim", &claims[0], &claim);
    alike("Node", nodes.iter().find(|old| name(old).starts_with("i-")).unwrap(), &new_node);
    // One tag more, by which a launch is found again whatever happened (AWS-155, AWS-157 name the others).
    let [old, mut new] = [name_of_instance(&claims[0]), name_of_instance(&claim)].map(|id| tags(aws, &id));
    assert!(new.remove("karpenter.k8s.aws/nodeclaim-uid"), "{new:?}");
    assert_eq!(new, old);
    let pods = all.iter().map(name).filter(|pod| pods.iter().all(|old| name(old) != *pod)).map(str::to_owned);
    Made { claim: name(&claim).to_owned(), node, pods: pods.collect() }
}

fn name_of_instance(claim: &Value) -> String {
    claim["status"]["providerID"].as_str().unwrap().rsplit('/').next().unwrap().to_owned()
}

fn tags(aws: &OnAws, instance: &str) -> BTreeSet<String> {
    let filter = json!({"Filters": [{"Name": "resource-id", "Values": [instance]}]});
    let tags = aws.account.call("ec2", "describe_tags", filter);
    tags["Tags"].as_array().unwrap().iter().map(|tag| tag["Key"].as_str().unwrap().to_owned()).collect()
}

/// The names of everything that an object says, with the values where the API has a list of them.
fn shape(kind: &str, object: &Value) -> BTreeSet<String> {
    let object = essence(kind, object);
    let mut found = BTreeSet::new();
    let mut add = |path: &str| match object.pointer(path) {
        Some(Value::Object(members)) => found.extend(members.keys().map(|key| format!("{path} {key}"))),
        Some(Value::Array(values)) => {
            for value in values {
                let mut keys: Vec<&str> =
                    value.as_object().into_iter().flatten().map(|(key, _)| key.as_str()).collect();
                keys.retain(|key| !["name", "uid"].contains(key));
                let what = value["type"].as_str().or(value["key"].as_str()).or(value.as_str()).unwrap_or_default();
                found.insert(format!("{path} {what} {keys:?}"));
            }
        }
        _ => {}
    };
    for path in [
        "/metadata",
        "/metadata/labels",
        "/metadata/annotations",
        "/metadata/finalizers",
        "/metadata/ownerReferences",
        "/spec",
    ] {
        add(path);
    }
    if kind == "NodeClaim" {
        for path in [
            "/spec/requirements",
            "/spec/resources/requests",
            "/status",
            "/status/capacity",
            "/status/allocatable",
            "/status/conditions",
        ] {
            add(path);
        }
    }
    found
}

fn alike(kind: &str, karpenters: &Value, ours: &Value) {
    let (mut theirs, ours) = (shape(kind, karpenters), shape(kind, ours));
    // It comes ten minutes later.
    theirs.retain(|line| !line.contains("ConsistentStateFound") || ours.contains(line));
    let (missing, extra): (Vec<_>, Vec<_>) = (theirs.difference(&ours).collect(), ours.difference(&theirs).collect());
    assert!(missing.is_empty() && extra.is_empty(), "{kind}: missing {missing:#?}, extra {extra:#?}");
}

async fn lease(aws: &OnAws) -> Value {
    let command = ["get", "lease", "-n", "karpenter", "karpenter-leader-election", "-o", "json"];
    let out = aws.installed.cluster.kubectl(command).await.unwrap();
    serde_json::from_slice(&out.stdout).unwrap()
}

/// The lease is free, nothing is begun, objects are valid, and what is left in the account is found by its tags.
async fn handed_back(aws: &OnAws, scene: &Scene<'_>) {
    let lease = lease(aws).await;
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "", "{lease}");
    for node in scene.list("Node").await.unwrap() {
        assert!(node["spec"]["taints"].is_null() && node["spec"]["unschedulable"].is_null(), "{node}");
    }
    let crds = crd::all();
    for kind in ["NodePool", "NodeClaim", "EC2NodeClass"] {
        let crd = crds.iter().find(|crd| crd["spec"]["names"]["kind"] == kind).unwrap();
        let schema = Schema::compile(&crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]).unwrap();
        for mut object in scene.list(kind).await.unwrap() {
            let violations = schema.validate(&object, None);
            assert!(violations.is_empty(), "{violations:?} {object}");
            assert!(schema.prune(&mut object).is_empty(), "{object}");
        }
    }
    for template in aws.clients.reads.launch_templates(&[]).await.unwrap() {
        let number = template.name.strip_prefix("karpenter.k8s.aws/").and_then(|rest| rest.parse::<u64>().ok());
        assert!(number.is_some(), "{template:?}");
    }
    let ours = json!({"PathPrefix": format!("/karpenter/us-west-2/{}/", left::CLUSTER)});
    let profiles = aws.account.call("iam", "list_instance_profiles", ours);
    let names: Vec<&Value> = profiles["InstanceProfiles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|profile| &profile["InstanceProfileName"])
        .collect();
    assert_eq!(names, [left::PROFILE]);
}

/// API-78, API-146: the node is tainted and the claim says why, but nothing was launched and nothing deleted.
async fn begun_command(scene: &Scene<'_>) -> Vec<Value> {
    let claims = scene.list("NodeClaim").await.unwrap();
    let claim = claims.iter().find(|claim| name(claim).starts_with("spot-")).unwrap();
    let mut conditions = claim["status"]["conditions"].as_array().unwrap().clone();
    let now = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second()).unwrap().to_string();
    conditions.insert(
        conditions.len() - 1,
        json!({"type": "DisruptionReason", "status": "True", "reason": "Underutilized",
        "message": "", "observedGeneration": 1, "lastTransitionTime": now}),
    );
    let taint = json!({"spec": {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}});
    scene.patch("Node", claim["status"]["nodeName"].as_str().unwrap(), taint).await;
    scene.patch("NodeClaim", &format!("{}/status", name(claim)), json!({"status": {"conditions": conditions}})).await;
    claims
}

async fn taken_back(scene: &Scene<'_>, before: &[Value]) {
    scene
        .wait("what was begun is taken back", async || {
            let claims = scene.list("NodeClaim").await?;
            let marked = claims.iter().any(|claim| !condition(claim, "DisruptionReason").0.is_empty());
            let tainted = scene.list("Node").await?.iter().any(|node| !node["spec"]["taints"].is_null());
            Ok((!marked && !tainted).then_some(()))
        })
        .await;
    let names = |claims: &[Value]| claims.iter().map(|claim| name(claim).to_owned()).collect::<Vec<_>>();
    let now = scene.list("NodeClaim").await.unwrap();
    assert_eq!(names(&now), names(before));
    assert!(now.iter().all(|claim| claim["metadata"]["deletionTimestamp"].is_null()), "{now:?}");
}
