//! What the server fills in and checks for the kinds that the workload actors use.

use serde_json::{Value, json};

use crate::backend::{Backend, on_every_backend};
use crate::objects::{deployment, node, pod};

on_every_backend!(
    pods_get_their_defaults,
    containers_get_their_defaults,
    quality_of_service_follows_requests,
    requests_follow_limits,
    priority_follows_the_class,
    unknown_priority_class_is_forbidden,
    default_priority_class_is_taken,
    new_nodes_are_tainted_until_ready,
    deployments_get_their_defaults,
    deployment_selector_must_match_its_template,
    jobs_get_their_defaults,
    stateful_sets_get_their_defaults,
    daemon_sets_get_their_defaults,
    claims_are_protected,
    volumes_are_protected,
    quantities_are_kept_as_written,
    bad_quantities_are_refused,
    pods_need_containers,
    storage_classes_get_their_defaults,
    budgets_are_checked,
    leases_keep_microseconds,
    pods_are_gated,
    services_get_an_address,
);

async fn pods_get_their_defaults<B: Backend>() {
    let b = B::start().await;
    let made = b.post("pods", &pod("a")).await.created();
    let mut spec = made["spec"].clone();
    spec.as_object_mut().unwrap().remove("containers");
    assert_eq!(
        spec,
        json!({"dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0, "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]})
    );
    assert_eq!(made["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
}

async fn containers_get_their_defaults<B: Backend>() {
    let b = B::start().await;
    let mut object = pod("a");
    object["spec"]["containers"] = json!([
        {"name": "tagged", "image": "registry/x:1", "ports": [{"containerPort": 80}]},
        {"name": "latest", "image": "registry/x", "readinessProbe": {"httpGet": {"port": 80}}},
    ]);
    let made = b.post("pods", &object).await.created();
    let common = |name: &str, image: &str, pull: &str| {
        json!({"name": name, "image": image, "imagePullPolicy": pull, "resources": {},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"})
    };
    let mut first = common("tagged", "registry/x:1", "IfNotPresent");
    first["ports"] = json!([{"containerPort": 80, "protocol": "TCP"}]);
    let mut second = common("latest", "registry/x", "Always");
    second["readinessProbe"] = json!({"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1,
        "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3});
    assert_eq!(made["spec"]["containers"], json!([first, second]));
}

async fn quality_of_service_follows_requests<B: Backend>() {
    let b = B::start().await;
    let all = json!({"cpu": "1", "memory": "1Gi"});
    for (name, resources, want) in [
        ("none", json!({}), "BestEffort"),
        ("some", json!({"requests": {"cpu": "1"}}), "Burstable"),
        ("less", json!({"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": all}), "Burstable"),
        ("equal", json!({"requests": {"cpu": "1000m", "memory": "1024Mi"}, "limits": all}), "Guaranteed"),
        ("limits", json!({"limits": all}), "Guaranteed"),
    ] {
        let mut object = pod(name);
        object["spec"]["containers"][0]["resources"] = resources;
        let made = b.post("pods", &object).await.created();
        assert_eq!(made["status"]["qosClass"], want, "{name}");
    }
}

async fn requests_follow_limits<B: Backend>() {
    let b = B::start().await;
    let mut object = pod("a");
    object["spec"]["containers"][0]["resources"] =
        json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
    let made = b.post("pods", &object).await.created();
    let resources = &made["spec"]["containers"][0]["resources"];
    assert_eq!(resources["requests"], json!({"cpu": "1", "memory": "1Gi"}));
}

async fn priority_follows_the_class<B: Backend>() {
    let b = B::start().await;
    let class = b.name("urgent");
    let object = json!({"metadata": {"name": class}, "value": 1000, "preemptionPolicy": "Never"});
    let made = b.post("/apis/scheduling.k8s.io/v1/priorityclasses", &object).await.created();
    assert_eq!(made.get("globalDefault"), None);
    let mut object = pod("a");
    object["spec"]["priorityClassName"] = json!(class);
    let made = b.post("pods", &object).await.created();
    assert_eq!((&made["spec"]["priority"], &made["spec"]["preemptionPolicy"]), (&json!(1000), &json!("Never")));
    object["metadata"]["name"] = json!("b");
    object["spec"]["priorityClassName"] = json!("system-node-critical");
    let made = b.post("pods", &object).await.created();
    assert_eq!(made["spec"]["priority"], 2_000_001_000);
}

async fn unknown_priority_class_is_forbidden<B: Backend>() {
    let b = B::start().await;
    let mut object = pod("a");
    object["spec"]["priorityClassName"] = json!("none");
    b.post("pods", &object).await.refused(
        403,
        "Forbidden",
        "pods \"a\" is forbidden: no PriorityClass with name none was found",
    );
    object["spec"].as_object_mut().unwrap().remove("priorityClassName");
    object["spec"]["priority"] = json!(7);
    b.post("pods", &object).await.refused(
        403,
        "Forbidden",
        "pods \"a\" is forbidden: the integer value of priority (7) must not be provided in pod spec; priority admission \
         controller computed 0 from the given PriorityClass name",
    );
}

async fn default_priority_class_is_taken<B: Backend>() {
    let b = B::start().await;
    let classes = b.get("/apis/scheduling.k8s.io/v1/priorityclasses").await.ok();
    let names = crate::objects::names(&classes);
    assert!(names.contains(&"system-cluster-critical") && names.contains(&"system-node-critical"), "{names:?}");
    let critical = b.get("/apis/scheduling.k8s.io/v1/priorityclasses/system-cluster-critical").await.ok();
    assert_eq!(
        (&critical["value"], &critical["preemptionPolicy"]),
        (&json!(2_000_000_000), &json!("PreemptLowerPriority"))
    );
}

async fn new_nodes_are_tainted_until_ready<B: Backend>() {
    let b = B::start().await;
    let made = b.post("/api/v1/nodes", &node(&b.name("node"))).await.created();
    assert_eq!(made["spec"], json!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}));
    let mut object = node(&b.name("other"));
    object["spec"] = json!({"taints": [{"key": "a", "value": "b", "effect": "NoExecute"}]});
    let made = b.post("/api/v1/nodes", &object).await.created();
    let keys: Vec<&Value> = made["spec"]["taints"].as_array().unwrap().iter().map(|t| &t["key"]).collect();
    assert_eq!(keys, ["a", "node.kubernetes.io/not-ready"]);
}

async fn deployments_get_their_defaults<B: Backend>() {
    let b = B::start().await;
    let mut object = deployment("a", 1);
    object["spec"].as_object_mut().unwrap().remove("replicas");
    let made = b.post("apps/v1 deployments", &object).await.created();
    let mut spec = made["spec"].clone();
    let template = spec["template"].take();
    spec.as_object_mut().unwrap().remove("template");
    assert_eq!(
        spec,
        json!({"progressDeadlineSeconds": 600, "replicas": 1, "revisionHistoryLimit": 10,
            "selector": {"matchLabels": {"app": "a"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}})
    );
    assert_eq!(template["metadata"], json!({"labels": {"app": "a"}}));
    assert_eq!(
        template["spec"],
        json!({"containers": [{"name": "main", "image": "registry/main:1", "imagePullPolicy": "IfNotPresent", "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"}],
            "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
            "securityContext": {}, "terminationGracePeriodSeconds": 30})
    );
    assert_eq!(made["status"], json!({}));
}

async fn deployment_selector_must_match_its_template<B: Backend>() {
    let b = B::start().await;
    let mut object = deployment("a", 1);
    object["spec"]["template"]["metadata"]["labels"] = json!({"app": "b"});
    b.post("apps/v1 deployments", &object).await.refused(
        422,
        "Invalid",
        "Deployment.apps \"a\" is invalid: spec.template.metadata.labels: Invalid value: {\"app\":\"b\"}: `selector` does not \
         match template `labels`",
    );
}

async fn jobs_get_their_defaults<B: Backend>() {
    let b = B::start().await;
    let spec = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry/main:1"}]}}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": spec});
    let made = b.post("batch/v1 jobs", &job).await.created();
    let uid = &made["metadata"]["uid"];
    let mut spec = made["spec"].clone();
    spec.as_object_mut().unwrap().remove("template");
    assert_eq!(
        spec,
        json!({"backoffLimit": 6, "completionMode": "NonIndexed", "completions": 1, "manualSelector": false, "parallelism": 1,
            "podReplacementPolicy": "TerminatingOrFailed", "suspend": false,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}})
    );
    assert_eq!(
        made["spec"]["template"]["metadata"]["labels"],
        json!({"batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": "a", "controller-uid": uid, "job-name": "a"})
    );
}

async fn stateful_sets_get_their_defaults<B: Backend>() {
    let b = B::start().await;
    let mut object = deployment("a", 1);
    object["kind"] = json!("StatefulSet");
    object["spec"]["serviceName"] = json!("s");
    let mut made = b.post("apps/v1 statefulsets", &object).await.created();
    made["spec"].as_object_mut().unwrap().remove("template");
    assert_eq!(
        made["spec"],
        json!({"podManagementPolicy": "OrderedReady", "replicas": 1, "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "selector": {"matchLabels": {"app": "a"}}, "serviceName": "s",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}})
    );
}

async fn daemon_sets_get_their_defaults<B: Backend>() {
    let b = B::start().await;
    let mut object = deployment("a", 1);
    object["kind"] = json!("DaemonSet");
    object["spec"].as_object_mut().unwrap().remove("replicas");
    let mut made = b.post("apps/v1 daemonsets", &object).await.created();
    made["spec"].as_object_mut().unwrap().remove("template");
    assert_eq!(
        made["spec"],
        json!({"revisionHistoryLimit": 10, "selector": {"matchLabels": {"app": "a"}},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}})
    );
    let zero =
        json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0});
    assert_eq!(made["status"], zero);
}

async fn claims_are_protected<B: Backend>() {
    let b = B::start().await;
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": spec});
    let made = b.post("persistentvolumeclaims", &claim).await.created();
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    assert_eq!((&made["spec"]["volumeMode"], &made["status"]), (&json!("Filesystem"), &json!({"phase": "Pending"})));
}

async fn volumes_are_protected<B: Backend>() {
    let b = B::start().await;
    let spec = json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "csi": {"driver": "d", "volumeHandle": "h"}});
    let volume =
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": b.name("pv")}, "spec": spec});
    let made = b.post("/api/v1/persistentvolumes", &volume).await.created();
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    assert_eq!(made["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(made["spec"]["volumeMode"], "Filesystem");
    assert_eq!(made["status"]["phase"], "Pending");
}

async fn quantities_are_kept_as_written<B: Backend>() {
    let b = B::start().await;
    for (name, written, kept) in
        [("a", "0.5", "500m"), ("b", "1000m", "1"), ("c", "2", "2"), ("d", "1.5", "1500m"), ("e", "100e-3", "100e-3")]
    {
        let mut object = pod(name);
        object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": written, "memory": "1024Mi"}});
        let made = b.post("pods", &object).await.created();
        let requests = &made["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(requests, &json!({"cpu": kept, "memory": "1Gi"}), "{written}");
    }
}

async fn bad_quantities_are_refused<B: Backend>() {
    let b = B::start().await;
    let mut object = pod("a");
    object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "many"}});
    b.post("pods", &object).await.refused_saying(
        400,
        "BadRequest",
        "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular expression \
         '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
    object["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}});
    b.post("pods", &object).await.refused(
        422,
        "Invalid",
        "Pod \"a\" is invalid: spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu \
         limit of 1",
    );
}

async fn pods_need_containers<B: Backend>() {
    let b = B::start().await;
    let mut object = pod("a");
    object["spec"]["containers"] = json!([]);
    b.post("pods", &object).await.refused(422, "Invalid", "Pod \"a\" is invalid: spec.containers: Required value");
    object["spec"]["containers"] = json!([{"name": "main"}]);
    b.post("pods", &object).await.refused(
        422,
        "Invalid",
        "Pod \"a\" is invalid: spec.containers[0].image: Required value",
    );
}

async fn storage_classes_get_their_defaults<B: Backend>() {
    let b = B::start().await;
    let class = json!({"metadata": {"name": b.name("fast")}, "provisioner": "example.com/csi"});
    let made = b.post("/apis/storage.k8s.io/v1/storageclasses", &class).await.created();
    assert_eq!(
        (&made["reclaimPolicy"], &made["volumeBindingMode"], made.get("allowVolumeExpansion")),
        (&json!("Delete"), &json!("Immediate"), None)
    );
}

async fn budgets_are_checked<B: Backend>() {
    let b = B::start().await;
    let mut budget =
        json!({"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "maxUnavailable": 1, "selector": {}}});
    b.post("policy/v1 poddisruptionbudgets", &budget).await.refused_saying(
        422,
        "Invalid",
        "minAvailable and maxUnavailable cannot be both set",
    );
    budget["spec"] = json!({"maxUnavailable": "half"});
    b.post("policy/v1 poddisruptionbudgets", &budget).await.refused_saying(
        422,
        "Invalid",
        "spec.maxUnavailable: Invalid value: \"half\"",
    );
    budget["spec"] = json!({"maxUnavailable": "50%", "selector": {"matchLabels": {"app": "a"}}});
    let made = b.post("policy/v1 poddisruptionbudgets", &budget).await.created();
    let zero = json!({"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0});
    assert_eq!(made["status"], zero);
    assert_eq!(made["metadata"]["generation"], 1);
}

async fn leases_keep_microseconds<B: Backend>() {
    let b = B::start().await;
    let spec = json!({"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-02T03:04:05.000006Z", "leaseTransitions": 0});
    let lease =
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"}, "spec": spec});
    let made = b.post("coordination.k8s.io/v1 leases", &lease).await.created();
    assert_eq!(made["spec"], spec);
    assert_eq!(made["metadata"].get("generation"), None);
    let stale = version_of(&made);
    let now = b.merge("coordination.k8s.io/v1 leases/a", &json!({"spec": {"holderIdentity": "you"}})).await.ok();
    assert_eq!(now["spec"]["holderIdentity"], "you");
    let grab = json!({"metadata": {"resourceVersion": stale}, "spec": {"holderIdentity": "me"}});
    b.merge("coordination.k8s.io/v1 leases/a", &grab).await.refused_saying(
        409,
        "Conflict",
        "leases.coordination.k8s.io \"a\"",
    );
    let bad = json!({"spec": {"leaseDurationSeconds": 0}});
    b.merge("coordination.k8s.io/v1 leases/a", &bad).await.refused_saying(
        422,
        "Invalid",
        "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
    );
}

fn version_of(object: &Value) -> String {
    crate::objects::version(object).to_owned()
}

async fn pods_are_gated<B: Backend>() {
    let b = B::start().await;
    let mut object = pod("a");
    object["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    let made = b.post("pods", &object).await.created();
    let conditions = &made["status"]["conditions"];
    assert_eq!(
        (&conditions[0]["type"], &conditions[0]["status"], &conditions[0]["reason"], &conditions[0]["message"]),
        (
            &json!("PodScheduled"),
            &json!("False"),
            &json!("SchedulingGated"),
            &json!("Scheduling is blocked due to non-empty scheduling gates")
        )
    );
    let open = b.merge("pods/a", &json!({"spec": {"schedulingGates": null}})).await.ok();
    assert_eq!(open["spec"].get("schedulingGates"), None);
    let close = json!({"spec": {"schedulingGates": [{"name": "example.com/again"}]}});
    b.merge("pods/a", &close).await.refused_saying(
        422,
        "Invalid",
        "only deletion is allowed, but found new scheduling gate 'example.com/again'",
    );
}

async fn services_get_an_address<B: Backend>() {
    let b = B::start().await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}}});
    let made = b.post("services", &service).await.created();
    let address = made["spec"]["clusterIP"].as_str().unwrap();
    assert!(address.starts_with("10.0."), "{address}");
    assert_eq!(made["spec"]["clusterIPs"], json!([address]));
    assert_eq!(made["spec"]["ports"], json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    assert_eq!((&made["spec"]["type"], &made["spec"]["sessionAffinity"]), (&json!("ClusterIP"), &json!("None")));
    assert_eq!(made["status"], json!({"loadBalancer": {}}));
}
