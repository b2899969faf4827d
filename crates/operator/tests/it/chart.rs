//! The chart: what Helm 3 and Helm 4 make of it, and what a real API server says to that.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use karpenter_api::settings::rows;
use karpenter_testkit::ControlPlane;
use serde_json::Value;

/// The programs `helm3` and `helm4`; fetched when they are missing, and a failure that says so when that fails.
pub(crate) fn helms() -> [PathBuf; 2] {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/helm.sh");
    let out = Command::new(&script).output().unwrap();
    assert!(out.status.success(), "no Helm to test charts with: {}", String::from_utf8_lossy(&out.stderr));
    let folder = PathBuf::from(String::from_utf8(out.stdout).unwrap().trim_end());
    ["helm3", "helm4"].map(|name| folder.join(name))
}

fn chart(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts").join(name)
}

fn helm(helm: &Path, command: &[&str], chart: &Path, values: &[&str]) -> Output {
    helm_in("karpenter", helm, command, chart, values)
}

fn helm_in(namespace: &str, helm: &Path, command: &[&str], chart: &Path, values: &[&str]) -> Output {
    // Nothing of the user's own settings, and no cluster.
    let home = std::env::temp_dir().join("karpenter-helm-home");
    Command::new(helm)
        .args(command)
        .arg(chart)
        .args(["--namespace", namespace])
        .args(values.iter().flat_map(|value| ["--set", value]))
        .env("HELM_CONFIG_HOME", &home)
        .env("HELM_CACHE_HOME", &home)
        .env("HELM_DATA_HOME", &home)
        .env_remove("KUBECONFIG")
        .output()
        .unwrap()
}

fn render_with(program: &Path, values: &[&str]) -> Result<String, String> {
    render_chart_with(program, "karpenter", "karpenter", values)
}

fn render_chart_with(program: &Path, namespace: &str, name: &str, values: &[&str]) -> Result<String, String> {
    let out = helm_in(namespace, program, &["template", "karpenter"], &chart(name), values);
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    if out.status.success() { Ok(stdout.into_owned()) } else { Err(stderr.into_owned()) }
}

/// The objects that both Helms render, which must be the same ones.
fn render(values: &[&str]) -> Vec<Value> {
    render_in("karpenter", values)
}

/// The same for another namespace than most use.
pub(crate) fn render_in(namespace: &str, values: &[&str]) -> Vec<Value> {
    render_chart(namespace, "karpenter", values)
}

fn render_chart(namespace: &str, name: &str, values: &[&str]) -> Vec<Value> {
    let rendered = |program: PathBuf| objects(&render_chart_with(&program, namespace, name, values).unwrap());
    let [three, four] = helms().map(rendered);
    assert_eq!(three, four, "Helm 3 and Helm 4 render the same objects");
    four
}

fn objects(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n").map(|document| document.trim_start_matches("---\n"));
    let parsed =
        documents.filter(|document| document.lines().any(|line| !line.trim().is_empty() && !line.starts_with('#')));
    let mut objects: Vec<Value> = parsed.map(|document| serde_saphyr::from_str(document).unwrap()).collect();
    objects.sort_by_key(id);
    objects
}

fn id(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    format!("{} {} {}", text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

pub(crate) fn find<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name} among {:?}", objects.iter().map(id).collect::<Vec<_>>()))
}

const AWS: &[&str] = &["settings.clusterName=blue"];
pub(crate) const KWOK: &[&str] = &["settings.cloudProvider=kwok"];

/// The environment of the controller, as far as it is written down.
pub(crate) fn environment(objects: &[Value]) -> Vec<(String, String)> {
    let deployments = objects.iter().filter(|object| object["kind"] == "Deployment");
    let mut pods = deployments.map(|deployment| &deployment["spec"]["template"]);
    let ours = pods.find(|pod| pod["metadata"]["labels"]["karpenter"] == "controller");
    let container = &ours.unwrap_or_else(|| panic!("no controller"))["spec"]["containers"][0];
    let entries = container["env"].as_array().unwrap().iter();
    entries
        .filter_map(|entry| Some((entry["name"].as_str()?.to_owned(), entry["value"].as_str()?.to_owned())))
        .collect()
}

/// AWS-231, AWS-233, AWS-234, AWS-295, API-302, API-303: what is rendered for AWS with nothing but the name of the cluster.
#[test]
fn the_chart_for_aws() {
    insta::assert_yaml_snapshot!(render(AWS));
}

/// API-289, API-291, API-292, API-293, API-294, API-303, V15-119, V15-123: what is rendered for kwok.
#[test]
fn the_chart_for_kwok() {
    insta::assert_yaml_snapshot!(render(KWOK));
}

/// Both Helms find nothing to complain about, in either chart.
#[test]
fn helm_lint_is_clean() {
    for program in helms() {
        for (name, values) in [("karpenter", AWS), ("karpenter", KWOK), ("karpenter-crd", &[])] {
            let out = helm(&program, &["lint", "--strict"], &chart(name), values);
            let text = String::from_utf8_lossy(&out.stdout).into_owned();
            assert!(out.status.success() && !text.contains("[WARNING]") && !text.contains("[ERROR]"), "{name}: {text}");
        }
    }
}

/// AWS-232, AC-274: no name, no installation; values of the wrong kind are refused with their path.
#[test]
fn invalid_values_are_refused() {
    for program in helms() {
        let error = render_with(&program, &[]).unwrap_err();
        assert!(error.contains("Chart cannot be installed without a valid settings.clusterName!"), "{error}");
        for (value, named) in [
            ("replicas=two", "replicas"),
            ("settings.cloudProvider=azure", "cloudProvider"),
            ("settings.preferencePolicy=Sometimes", "preferencePolicy"),
            ("settings.featureGates.nodeRepair=maybe", "nodeRepair"),
            ("settings.noSuchSetting=1", "noSuchSetting"),
            ("logLevel=loud", "logLevel"),
        ] {
            let error = render_with(&program, &["settings.clusterName=blue", value]).unwrap_err();
            assert!(error.contains(named), "{value}: {error}");
        }
    }
}

/// AWS-5: the definitions come with the main chart, for a first installation, and in a chart of their own, for upgrades.
#[test]
fn definitions_come_in_both_charts() {
    let read = |path: PathBuf| -> Value { serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap() };
    let [_, helm4] = helms();
    let out = helm(&helm4, &["template", "karpenter-crd"], &chart("karpenter-crd"), &[]);
    let upgradable = objects(&String::from_utf8_lossy(&out.stdout));
    for name in [
        "ec2nodeclasses.karpenter.k8s.aws",
        "nodeclaims.karpenter.sh",
        "nodepools.karpenter.sh",
        "nodeoverlays.karpenter.sh",
        "capacitybuffers.autoscaling.x-k8s.io",
        "kwoknodeclasses.karpenter.kwok.sh",
    ] {
        let with_main = read(chart("karpenter").join("crds").join(format!("{name}.yaml")));
        assert_eq!(&with_main, find(&upgradable, "CustomResourceDefinition", name), "{name}");
    }
}

/// V15-124, V15-128, V15-129, V15-131, API-296: what the target's own suites look for in a cluster, with the values that they
/// are run with: one container named `controller`, all settings in its environment, metrics on 8080, and every definition.
#[test]
fn suites_find_what_they_look_for() {
    let objects = render(&[
        "settings.cloudProvider=kwok",
        "settings.featureGates.nodeRepair=true",
        "settings.featureGates.capacityBuffer=true",
        "settings.featureGates.staticCapacity=true",
        "controller.resources.requests.cpu=1",
        "controller.resources.requests.memory=1Gi",
        "controller.resources.limits.cpu=2",
        "controller.resources.limits.memory=2Gi",
    ]);
    let template = &find(&objects, "Deployment", "karpenter")["spec"]["template"];
    assert_eq!(template["metadata"]["labels"]["app.kubernetes.io/instance"], "karpenter");
    let [container] = &template["spec"]["containers"].as_array().unwrap()[..] else { panic!("one container") };
    assert_eq!(container["name"], "controller");
    assert_eq!(container["args"], Value::Null, "everything is in the environment, where suites change it");
    let ports = container["ports"].as_array().unwrap().iter();
    let metrics = ports.filter(|port| port["name"] == "http-metrics").map(|port| &port["containerPort"]);
    assert_eq!(metrics.collect::<Vec<_>>(), [8080]);
    let resources = serde_json::json!({
        "requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": 2, "memory": "2Gi"},
    });
    assert_eq!(container["resources"], resources);

    // The process reads its settings from there, and the name of the lease is the one that is looked for.
    let mut environment = environment(&objects);
    // As a suite patches it in.
    environment.push(("ENABLE_PROFILING".to_owned(), "true".to_owned()));
    let given = |name: &str| environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
    let settings = karpenter_api::settings::parse(std::iter::empty(), &given).unwrap();
    let gates = &settings.feature_gates;
    assert!(gates.node_repair && gates.capacity_buffer && gates.static_capacity && settings.enable_profiling);
    assert_eq!(settings.leader_election_name, "karpenter-leader-election");

    for kind in ["NodePool", "NodeClaim", "NodeOverlay", "CapacityBuffer", "KWOKNodeClass"] {
        let all = karpenter_api::crd::all();
        let found = all.iter().find(|crd| crd["spec"]["names"]["kind"] == kind).unwrap();
        let name = found["metadata"]["name"].as_str().unwrap();
        let text = std::fs::read_to_string(chart("karpenter").join("crds").join(format!("{name}.yaml"))).unwrap();
        let restricts = text.contains("label domain \"karpenter.kwok.sh\" is restricted");
        assert_eq!(restricts, ["NodePool", "NodeClaim"].contains(&kind), "{kind}");
    }
}

/// AWS-86: the chart of definitions opens the kubelet's settings where it is asked to, and nothing else.
#[test]
fn the_kubelet_can_be_opened() {
    for (values, want) in [
        (&[][..], karpenter_api::crd::find("karpenter.k8s.aws", "v1", "EC2NodeClass").unwrap().manifest.clone()),
        (&["openKubelet=true"][..], karpenter_api::crd::ec2_node_class_with_open_kubelet()),
    ] {
        let objects = render_chart("karpenter", "karpenter-crd", values);
        assert_eq!(find(&objects, "CustomResourceDefinition", "ec2nodeclasses.karpenter.k8s.aws"), &want, "{values:?}");
    }
}

/// AWS-299: who writes on pods may do so only where that is on.
#[test]
fn pods_are_written_on_behind_a_gate() {
    let gate = "settings.featureGates.podDeletionCostManagement=true";
    for (values, want) in [(&[AWS, &[gate]].concat()[..], true), (AWS, false)] {
        let objects = render(values);
        let writes_pods = |rule: &Value| {
            let has = |key: &str, value: &str| rule[key].as_array().is_some_and(|all| all.iter().any(|v| v == value));
            has("resources", "pods") && has("verbs", "patch")
        };
        let roles = objects.iter().filter(|object| object["kind"] == "ClusterRole");
        assert_eq!(roles.flat_map(|role| role["rules"].as_array().unwrap()).any(writes_pods), want);
    }
}

/// V15-100: the text of the scheduler's configuration, and the right to read services, which it needs.
#[test]
fn default_spread_constraints_reach_the_controller() {
    for values in [AWS, KWOK] {
        let objects = render(&[values, &["settings.schedulerConfig=podTopologySpread: {}"]].concat());
        let environment = environment(&objects);
        let have = environment.iter().find(|(name, _)| name == "SCHEDULER_CONFIG").map(|(_, value)| value.as_str());
        assert_eq!(have, Some("podTopologySpread: {}"));
        let reads_services = |rule: &Value| {
            let has = |key: &str, value: &str| rule[key].as_array().is_some_and(|all| all.iter().any(|v| v == value));
            has("resources", "services") && has("verbs", "watch")
        };
        let roles = objects.iter().filter(|object| object["kind"] == "ClusterRole");
        assert!(roles.flat_map(|role| role["rules"].as_array().unwrap()).any(reads_services));
    }
}

/// AWS-229, AWS-230, AWS-299: every value that a setting names reaches the controller under the setting's name, also when it is off or
/// zero.
#[test]
fn values_reach_the_controller() {
    for (value, env, want) in [
        ("settings.batchMaxDuration=20s", "BATCH_MAX_DURATION", "20s"),
        ("settings.batchIdleDuration=2s", "BATCH_IDLE_DURATION", "2s"),
        ("settings.batchSiblings=false", "BATCH_SIBLINGS", "false"),
        ("settings.preferencePolicy=Ignore", "PREFERENCE_POLICY", "Ignore"),
        ("settings.minValuesPolicy=BestEffort", "MIN_VALUES_POLICY", "BestEffort"),
        ("settings.planner=Reference", "PLANNER", "Reference"),
        ("settings.consolidationSearch=Prefix", "CONSOLIDATION_SEARCH", "Prefix"),
        ("settings.ignoreDRARequests=false", "IGNORE_DRA_REQUESTS", "false"),
        ("settings.legacyNodeRepair=true", "LEGACY_NODE_REPAIR", "true"),
        ("settings.disableClusterStateObservability=true", "DISABLE_CLUSTER_STATE_OBSERVABILITY", "true"),
        ("settings.clusterEndpoint=https://x.example", "CLUSTER_ENDPOINT", "https://x.example"),
        ("settings.clusterCABundle=Zm9v", "CLUSTER_CA_BUNDLE", "Zm9v"),
        ("settings.isolatedVPC=true", "ISOLATED_VPC", "true"),
        ("settings.eksControlPlane=true", "EKS_CONTROL_PLANE", "true"),
        ("settings.vmMemoryOverheadPercent=0", "VM_MEMORY_OVERHEAD_PERCENT", "0"),
        ("settings.interruptionQueue=q", "INTERRUPTION_QUEUE", "q"),
        ("settings.reservedENIs=3", "RESERVED_ENIS", "3"),
        ("settings.disableDryRun=true", "DISABLE_DRY_RUN", "true"),
        ("settings.enableZonalShift=true", "ENABLE_ZONAL_SHIFT", "true"),
        ("settings.amiRefreshInterval=2m", "AMI_REFRESH_INTERVAL", "2m"),
        ("settings.subnetRefreshInterval=3m", "SUBNET_REFRESH_INTERVAL", "3m"),
        (
            "settings.repair.rebootReasons[0].conditionType=KernelReady,settings.repair.rebootReasons[0].reasonExpression=Soft.*",
            "REPAIR_REBOOT_REASONS",
            r#"[{"conditionType":"KernelReady","reasonExpression":"Soft.*"}]"#,
        ),
        ("settings.awsFeatureGates.nodeClassCEL=true", "AWS_FEATURE_GATES", "NodeClassCEL=true"),
        ("settings.clusterName=eks-{{ .Release.Name }}", "CLUSTER_NAME", "eks-karpenter"),
        ("controller.metrics.port=9090", "METRICS_PORT", "9090"),
        ("controller.healthProbe.port=9091", "HEALTH_PROBE_PORT", "9091"),
        ("settings.defaultInstanceProfile=nodes", "DEFAULT_INSTANCE_PROFILE", "nodes"),
        ("logFormat=legacy", "LOG_FORMAT", "legacy"),
        ("logLevel=debug", "LOG_LEVEL", "debug"),
        ("logOutputPaths={stdout,/tmp/log}", "LOG_OUTPUT_PATHS", "stdout,/tmp/log"),
        (
            "settings.featureGates.staticCapacity=true",
            "FEATURE_GATES",
            "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,StaticCapacity=true,CapacityBuffer=false,TerminateFirstDrift=false,TerminateFirstRepair=false,PodDeletionCostManagement=false",
        ),
        (
            "settings.featureGates.terminateFirstDrift=true,settings.featureGates.terminateFirstRepair=true,settings.featureGates.podDeletionCostManagement=true",
            "FEATURE_GATES",
            "NodeRepair=false,ReservedCapacity=true,SpotToSpotConsolidation=false,NodeOverlay=false,StaticCapacity=false,CapacityBuffer=false,TerminateFirstDrift=true,TerminateFirstRepair=true,PodDeletionCostManagement=true",
        ),
    ] {
        let environment = environment(&render(&["settings.clusterName=blue", value]));
        let have = environment.iter().find(|(name, _)| name == env).map(|(_, value)| value.as_str());
        assert_eq!(have, Some(want), "{value}");
    }
}

/// API-153, API-158: the controller knows every variable that the chart sets.
#[test]
fn the_controller_knows_what_the_chart_says() {
    // Set for compatibility and read by nobody.
    let ignored = ["KUBERNETES_MIN_VERSION", "SYSTEM_NAMESPACE"];
    for values in [AWS, KWOK] {
        let objects = render(values);
        let container = &find(&objects, "Deployment", "karpenter")["spec"]["template"]["spec"]["containers"][0];
        for entry in container["env"].as_array().unwrap() {
            let name = entry["name"].as_str().unwrap();
            assert!(ignored.contains(&name) || rows::ALL.iter().any(|row| row.env == name), "{name}");
        }
        let environment: std::collections::BTreeMap<String, String> = environment(&objects).into_iter().collect();
        let parsed = karpenter_api::settings::parse(std::iter::empty(), &|name| environment.get(name).cloned());
        let settings = parsed.unwrap();
        let defaults = karpenter_api::settings::parse(std::iter::empty(), &|name| {
            ["CLOUD_PROVIDER", "CLUSTER_NAME"].contains(&name).then(|| environment.get(name).cloned()).flatten()
        })
        .unwrap();
        // The chart's defaults are the controller's.
        assert_eq!(karpenter_api::settings::Settings { karpenter_service: String::new(), ..settings }, defaults);
    }
}

/// AWS-233: an account that is not made, names that are given, a monitor only where its API exists.
#[test]
fn names_accounts_and_monitors() {
    let objects = render(&["settings.clusterName=blue", "serviceAccount.create=false"]);
    let pod = &find(&objects, "Deployment", "karpenter")["spec"]["template"]["spec"];
    assert_eq!(pod["serviceAccountName"], "default");
    assert!(!objects.iter().any(|object| object["kind"] == "ServiceAccount"));
    let binding = find(&objects, "ClusterRoleBinding", "karpenter-core");
    assert_eq!(binding["subjects"][0]["name"], "default");

    let objects = render(&["settings.clusterName=blue", "fullnameOverride=other", "serviceMonitor.enabled=true"]);
    find(&objects, "Deployment", "other");
    find(&objects, "ClusterRole", "other-admin");
    assert!(!objects.iter().any(|object| object["kind"] == "ServiceMonitor"), "no such API here");
    for program in helms() {
        let out = helm(
            &program,
            &["template", "karpenter", "--api-versions", "monitoring.coreos.com/v1"],
            &chart("karpenter"),
            &["settings.clusterName=blue", "serviceMonitor.enabled=true"],
        );
        assert!(String::from_utf8_lossy(&out.stdout).contains("kind: ServiceMonitor"));
    }
}

/// AWS-231, AWS-295, API-303: how many replicas run and how they spread is the user's to say, also none of either.
#[test]
fn replicas_and_spread() {
    for (values, replicas, spread) in [
        (&["settings.clusterName=blue", "replicas=0"][..], 0, Some("DoNotSchedule")),
        (&["settings.cloudProvider=kwok", "replicas=2"], 2, Some("ScheduleAnyway")),
        (&["settings.cloudProvider=kwok", "topologySpreadConstraints[0].topologyKey=rack"], 1, None),
    ] {
        let objects = render(values);
        let spec = &find(&objects, "Deployment", "karpenter")["spec"];
        assert_eq!(spec["replicas"], replicas, "{values:?}");
        let constraint = &spec["template"]["spec"]["topologySpreadConstraints"][0];
        assert_eq!(constraint["whenUnsatisfiable"].as_str(), spread, "{values:?}");
        assert_eq!(constraint["labelSelector"]["matchLabels"]["app.kubernetes.io/name"], "karpenter");
    }
}

/// API-289, AWS-233, AWS-259: a real API server takes every object, for either provider, and in the forms of old.
#[tokio::test]
async fn a_real_api_server_takes_every_object() {
    let cluster = ControlPlane::shared().await;
    let namespace = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}});
    cluster.install([namespace]).await.unwrap();
    let old: [&[&str]; 2] =
        [&["controller.clusterName=blue"], &["clusterName=blue", "aws.defaultInstanceProfile=nodes"]];
    for values in [AWS, KWOK].into_iter().chain(old) {
        let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": render(values)}).to_string();
        let arguments = ["apply", "--server-side", "--dry-run=server", "--validate=strict", "-f", "-"];
        let out = cluster.kubectl_with_input(arguments, &list).await.unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert!(!String::from_utf8_lossy(&out.stderr).contains("Warning"), "{}", String::from_utf8_lossy(&out.stderr));
    }
}
