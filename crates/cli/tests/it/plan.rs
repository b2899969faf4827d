use serde_json::Value;

use super::{POOL, folder, karpenter};

const WEB: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        labelSelector: {matchLabels: {app: web}}
      containers:
      - {name: web, image: x, resources: {requests: {cpu: 900m, memory: 1Gi}}}
";

const BIG: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: big}
spec:
  containers:
  - {name: big, image: x, resources: {requests: {cpu: \"300\"}}}
";

#[test]
fn a_plan_shows_nodes_prices_and_reasons() {
    let folder = folder(&[("pool.yaml", POOL), ("web.yaml", WEB), ("big.yaml", BIG)]);
    let run = karpenter(folder.path(), &["plan", "-f", "."], b"");
    assert_eq!(run.code, 3, "{run:?}");
    assert_eq!(
        run.out,
        "\
new nodes:
  NODES  POOL     TYPE                    ZONE         CAPACITY  $/HOUR  CPU   MEMORY  PODS  HOLDS
  1      default  c-1x-amd64-linux (+71)  test-zone-a  spot      0.0190  100%  50%     6%    shop/web-0
  1      default  c-1x-amd64-linux (+71)  test-zone-b  spot      0.0190  100%  50%     6%    shop/web-1
  1      default  c-1x-amd64-linux (+71)  test-zone-c  spot      0.0190  100%  50%     6%    shop/web-2
  1      default  c-1x-amd64-linux (+71)  test-zone-d  spot      0.0190  100%  50%     6%    shop/web-3
why these types:
  4 x c-1x-amd64-linux is 100 % full of cpu; nothing is cheaper
unschedulable:
  default/big
    nodepool default: no instance type has enough cpu, the largest lacks 44100m
4 pods on 4 new nodes, 0 on existing nodes, 1 unschedulable
$0.0760 per hour (best planner)
no plan for these pods costs less than $0.0760 per hour (pattern bound, gap 0.00 %)
"
    );
}

#[test]
fn a_plan_in_json_has_everything_a_script_wants() {
    let folder = folder(&[("pool.yaml", POOL), ("web.yaml", WEB)]);
    let run = karpenter(folder.path(), &["plan", "-f", ".", "-o", "json"], b"");
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let plan: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(plan["nodes"].as_array().unwrap().len(), 4);
    let first = &plan["nodes"][0];
    assert_eq!(first["nodePool"], "default");
    assert_eq!(first["launch"]["instanceType"], "c-1x-amd64-linux");
    assert_eq!(first["launch"]["capacityType"], "spot");
    assert_eq!(first["requests"]["cpu"], "900m");
    assert_eq!(first["pods"][0], "shop/web-0");
    assert_eq!(first["why"], "c-1x-amd64-linux is 100 % full of cpu; nothing is cheaper");
    assert_eq!(plan["unschedulable"], serde_json::json!([]));
    assert_eq!(plan["existing"], serde_json::json!([]));
    assert_eq!(plan["violations"], serde_json::json!([]));
    assert!(plan["timings"]["loadMs"].is_number() && plan["timings"].get("compileMs").is_some());
    for member in ["lowerBound", "boundKind", "gap"] {
        assert!(plan["cost"].get(member).is_some(), "{member}");
    }
    let yaml = karpenter(folder.path(), &["plan", "-f", ".", "-o", "yaml"], b"");
    assert_eq!(yaml.code, 0);
    assert!(yaml.out.contains("nodePool: default"), "{}", yaml.out);
    assert_eq!(plan["planner"], "best");
    assert!(plan["cost"]["perHour"].as_f64().unwrap() > 0.07);
    assert!(plan["timings"]["solveMs"].is_number());
}

#[test]
fn pods_go_where_there_is_room_first() {
    let node = "\
apiVersion: v1
kind: Node
metadata: {name: there, labels: {topology.kubernetes.io/zone: test-zone-a}}
status:
  allocatable: {cpu: \"8\", memory: 16Gi, pods: \"110\"}
  conditions: [{type: Ready, status: \"True\"}]
";
    let pod = BIG.replace("\"300\"", "\"1\"");
    let folder = folder(&[("node.yaml", node), ("pod.yaml", &pod)]);
    let run = karpenter(folder.path(), &["plan", "-f", "."], b"");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        run.out,
        "existing nodes:\n  there  default/big\n0 pods on 0 new nodes, 1 on existing nodes, 0 unschedulable\n$0.0000 per hour (best planner)\n"
    );
}

#[test]
fn bad_input_is_named_and_the_rest_is_planned() {
    let odd = BIG.replace("\"300\"", "lots");
    let folder = folder(&[("pool.yaml", POOL), ("web.yaml", WEB), ("odd.yaml", &odd), ("broken.txt", "a: [")]);
    let told = "odd.yaml:6 Pod/big spec.containers[0].resources.requests[cpu]: ";
    let run = karpenter(folder.path(), &["plan", "-f", "."], b"");
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains(told), "{}", run.err);
    assert!(run.out.contains("4 pods on 4 new nodes"), "{}", run.out);
    // What cannot be read at all may be anything, so there is no plan without it.
    let run = karpenter(folder.path(), &["plan", "-f", ".", "-f", "missing.yaml", "-f", "broken.txt"], b"");
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    for named in ["missing.yaml", "broken.txt", told] {
        assert!(run.err.contains(named), "{named}: {}", run.err);
    }
    assert!(run.err.lines().all(|line| line.starts_with("error: ")), "{}", run.err);
    let run = karpenter(folder.path(), &["plan", "-f", "web.yaml", "--instance-types", "pool.yaml"], b"");
    assert_eq!(run.code, 1);
    assert!(run.err.contains("pool.yaml is not a list of instance types"), "{}", run.err);
    let run = karpenter(folder.path(), &["plan", "-f", "web.yaml"], b"");
    assert_eq!(run.code, 3);
    assert!(run.out.contains("there is no nodepool to launch from"), "{}", run.out);
}

/// SCH-75, SC-118: what DaemonSets take is part of what a node must hold.
#[test]
fn daemon_sets_take_their_share() {
    let agent = "\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      containers:
      - {name: agent, image: x, resources: {requests: {cpu: \"1\"}}}
";
    let pod = BIG.replace("\"300\"", "\"3\"");
    let folder = folder(&[("pool.yaml", POOL), ("agent.yaml", agent), ("pod.yaml", &pod)]);
    let run = karpenter(folder.path(), &["plan", "-f", ".", "-o", "json"], b"");
    let plan: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(plan["nodes"][0]["launch"]["instanceType"], "c-8x-amd64-linux", "4 CPUs would do without the agent");
    assert_eq!(plan["nodes"][0]["requests"]["cpu"], "4");
}

#[test]
fn the_built_in_table_of_ec2() {
    let pool = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
      - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m7i]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [on-demand]}
";
    let pod = BIG.replace("\"300\"", "\"3\"");
    let folder = folder(&[("pool.yaml", pool), ("pod.yaml", &pod)]);
    let run = karpenter(folder.path(), &["plan", "-f", ".", "--instance-types", "ec2"], b"");
    assert_eq!(
        run.out,
        "\
new nodes:
  NODES  POOL     TYPE             ZONE        CAPACITY   $/HOUR  CPU  MEMORY  PODS  HOLDS
  1      default  m7i.xlarge (+9)  us-east-1a  on-demand  0.2016  77%  -       2%    default/big
why these types:
  m7i.xlarge is 77 % full of cpu; m7i.large would be cheaper but lacks 1070m of cpu
1 pod on 1 new node, 0 on existing nodes, 0 unschedulable
$0.2016 per hour (best planner)
no plan for these pods costs less than $0.2016 per hour (pattern bound, gap 0.00 %)
"
    );
}

/// One of everything that matters, in one List on standard input, as `kubectl get -o json` prints it.
#[test]
fn a_whole_cluster_from_standard_input() {
    let run = karpenter(folder(&[]).path(), &["plan", "-f", "-", "-o", "json"], include_bytes!("cluster.json"));
    let plan: Value = serde_json::from_str(&run.out).unwrap_or_else(|_| panic!("{run:?}"));
    assert_eq!(run.code, 0, "{run:?}");
    // The Deployment of three has one pod on the node and one that waits; the third is made here.
    let mut placed: Vec<&str> = plan["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|n| n["pods"].as_array().unwrap())
        .map(|p| p.as_str().unwrap())
        .collect();
    placed.sort_unstable();
    assert_eq!(placed, ["shop/db-0", "shop/db-1", "shop/web-0", "shop/web-5d4-waiting"]);
    // db-0 is bound to a volume in zone b, db-1 will get one in zone c, the only one of its class.
    for (pod, zone) in [("shop/db-0", "test-zone-b"), ("shop/db-1", "test-zone-c")] {
        let holds = |node: &&Value| node["pods"].as_array().unwrap().iter().any(|held| held == pod);
        let node = plan["nodes"].as_array().unwrap().iter().find(holds).unwrap();
        assert_eq!(node["launch"]["zone"], zone, "{pod}");
    }
    assert_eq!(plan["violations"], serde_json::json!([]));
    assert_eq!(run.err, "note: not looked at: 1 ConfigMap\n");
}

#[test]
fn every_problem_is_told_at_once_with_its_place() {
    let odd = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: -3
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: api}
spec:
  template:
    spec:
      nodeSelector: [x]
      containers:
      - {name: a, ports: [{containerPort: http}]}
---
kind: Pod
metadata: {name: x}
---
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: old}
---
apiVersion: v1
kind: Node
metadata: {name: one}
status:
  allocatable: {cpu: many}
---
apiVersion: v1
kind: Node
metadata: {name: one}
---
5
";
    let folder = folder(&[("odd.yaml", odd), ("pool.yaml", POOL)]);
    let run = karpenter(folder.path(), &["plan", "-f", "."], b"");
    assert_eq!(run.code, 1);
    for told in [
        "error: ./odd.yaml:5 Deployment/shop/web spec.replicas: -3 is not a number of zero or more",
        "error: ./odd.yaml:13 Deployment/api spec.template.spec.nodeSelector: ",
        "error: ./odd.yaml:15 Deployment/api spec.template.spec.containers[0].ports[0].containerPort: ",
        "error: ./odd.yaml:17 Pod/x apiVersion: is missing or no text",
        "error: ./odd.yaml:20 NodePool/old apiVersion: karpenter.sh/v1beta1 is not planned with; karpenter convert makes v1",
        "error: ./odd.yaml:28 Node/one status.allocatable[cpu]: ",
        "error: ./odd.yaml:30 Node/one metadata.name: is given twice, first in ./odd.yaml:24",
        "error: ./odd.yaml:34: this is no object",
    ] {
        assert!(run.err.contains(told), "{told}\n{}", run.err);
    }
}

#[test]
fn pods_that_fail_together_are_told_together() {
    let many = WEB.replace("cpu: 900m", "cpu: 900");
    let folder = folder(&[("pool.yaml", POOL), ("web.yaml", &many)]);
    let run = karpenter(folder.path(), &["plan", "-f", "."], b"");
    assert_eq!(run.code, 3);
    assert_eq!(
        run.out,
        "\
unschedulable:
  4 pods of shop/web (shop/web-0 and others)
    nodepool default: no instance type has enough cpu, the largest lacks 644100m
0 pods on 0 new nodes, 0 on existing nodes, 4 unschedulable
$0.0000 per hour (best planner)
"
    );
}

#[test]
fn volumes_that_nobody_has_keep_pods_back() {
    let pod = BIG
        .replace("\"300\"", "\"1\"")
        .replace("  containers:", "  volumes: [{name: v, persistentVolumeClaim: {claimName: lost}}]\n  containers:");
    let folder = folder(&[("pool.yaml", POOL), ("pod.yaml", &pod)]);
    let run = karpenter(folder.path(), &["plan", "-f", "."], b"");
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.out.contains("default/big\n") && run.out.contains("lost"), "{}", run.out);
}

#[test]
fn pools_that_take_no_pods_and_pods_that_are_held_back_are_noted() {
    let fixed = POOL.replace("spec:\n  template:", "spec:\n  replicas: 3\n  template:");
    let gated = BIG.replace("  containers:", "  schedulingGates: [{name: quota}]\n  containers:");
    let folder = folder(&[("pool.yaml", &fixed), ("pod.yaml", &gated)]);
    let run = karpenter(folder.path(), &["plan", "-f", "."], b"");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(run.err.contains("note: NodePool/default has a fixed number of nodes"), "{}", run.err);
    assert!(run.err.contains("note: Pod/big waits for its scheduling gates"), "{}", run.err);
}

#[test]
fn ec2_is_what_pools_of_ec2_classes_are_planned_with() {
    let pool = POOL
        .replace("group: karpenter.kwok.sh, kind: KWOKNodeClass", "group: karpenter.k8s.aws, kind: EC2NodeClass")
        .replace("values: [amd64]", "values: [arm64]");
    let pod = BIG.replace("\"300\"", "\"3\"");
    let folder = folder(&[("pool.yaml", &pool), ("pod.yaml", &pod)]);
    let run = karpenter(folder.path(), &["plan", "-f", ".", "-o", "json"], b"");
    let plan: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(plan["nodes"][0]["launch"]["zone"], "us-east-1a", "{run:?}");
}

#[test]
fn wrong_usage_is_told() {
    let folder = folder(&[("pool.yaml", POOL)]);
    for (args, want) in [
        (&["plan"][..], "--filename"),
        (&["plan", "-f", "pool.yaml", "-o", "xml"], "xml"),
        (&["plan", "-f", "pool.yaml", "--planner", "luck"], "luck"),
    ] {
        let run = karpenter(folder.path(), args, b"");
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains(want), "{}", run.err);
    }
    let run = karpenter(folder.path(), &["plan", "-f", "pool.yaml", "--instance-types", "nowhere.json"], b"");
    assert_eq!(run.code, 1);
    assert!(run.err.contains("cannot read instance types from nowhere.json"), "{}", run.err);
    let help = karpenter(folder.path(), &["plan", "--help"], b"");
    assert!(help.out.contains("karpenter plan -f manifests/") && help.out.contains("Exit code: 0"), "{}", help.out);
}

/// Best never costs more than the reference and places as many pods; both say what no plan can beat.
#[test]
fn the_best_plan_is_not_dearer() {
    let folder = folder(&[("pool.yaml", POOL), ("web.yaml", WEB)]);
    let plan = |planner: &str| -> Value {
        let run = karpenter(folder.path(), &["plan", "-f", ".", "-o", "json", "--planner", planner], b"");
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        serde_json::from_str(&run.out).unwrap()
    };
    let (reference, best) = (plan("reference"), plan("best"));
    assert_eq!((&reference["planner"], &best["planner"]), (&"reference".into(), &"best".into()));
    let number = |plan: &Value, member: &str| plan["cost"][member].as_f64().unwrap();
    assert!(number(&best, "perHour") <= number(&reference, "perHour"));
    for plan in [&reference, &best] {
        assert!(number(plan, "lowerBound") <= number(plan, "perHour") + 1e-9);
        assert!(number(plan, "gap") >= 0.0);
        assert!(plan["cost"]["boundKind"].is_string() && plan["cost"]["dualPrices"]["perCpu"].is_number());
        assert!(plan["work"]["part"].is_string());
        assert_eq!(plan["violations"], serde_json::json!([]));
    }
}
