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
  POOL     TYPE                    ZONE         CAPACITY  $/HOUR  FILL                         PODS
  default  c-1x-amd64-linux (+71)  test-zone-a  spot      0.0190  cpu 100% memory 50% pods 6%  1: shop/web-0
  default  c-1x-amd64-linux (+71)  test-zone-b  spot      0.0190  cpu 100% memory 50% pods 6%  1: shop/web-1
  default  c-1x-amd64-linux (+71)  test-zone-c  spot      0.0190  cpu 100% memory 50% pods 6%  1: shop/web-2
  default  c-1x-amd64-linux (+71)  test-zone-d  spot      0.0190  cpu 100% memory 50% pods 6%  1: shop/web-3
unschedulable:
  default/big
    nodepool default: no instance type has enough cpu, the largest lacks 44100m
4 pods on 4 new nodes, 0 on existing nodes, 1 unschedulable; $0.0760 per hour
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
    assert_eq!(plan["unschedulable"], serde_json::json!([]));
    assert_eq!(plan["planner"], "reference");
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
        "existing nodes:\n  there  default/big\n0 pods on 0 new nodes, 1 on existing nodes, 0 unschedulable; $0.0000 per hour\n"
    );
}

#[test]
fn bad_input_is_named_and_the_rest_is_planned() {
    let odd = BIG.replace("\"300\"", "lots");
    let folder = folder(&[("pool.yaml", POOL), ("web.yaml", WEB), ("odd.yaml", &odd), ("broken.yaml", "a: [")]);
    let run = karpenter(folder.path(), &["plan", "-f", ".", "-f", "missing.yaml"], b"");
    assert_eq!(run.code, 1, "{run:?}");
    for named in
        ["missing.yaml", "broken.yaml", "odd.yaml:1 Pod/default/big spec.containers[0].resources.requests[cpu]"]
    {
        assert!(run.err.contains(named), "{named}: {}", run.err);
    }
    assert!(run.out.contains("4 pods on 4 new nodes"), "{}", run.out);
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
  POOL     TYPE             ZONE        CAPACITY   $/HOUR  FILL             PODS
  default  m7i.xlarge (+9)  us-east-1a  on-demand  0.2016  cpu 77% pods 2%  1: default/big
1 pod on 1 new node, 0 on existing nodes, 0 unschedulable; $0.2016 per hour
"
    );
}
