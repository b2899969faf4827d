//! The commands, in order: later ones see what earlier ones made. With what is given on standard input.

use serde_json::json;

use super::Step;

/// A second session. `session.txt` has one command per line after `$`, or after `?` one that is awaited; what stands between
/// `<<` and `>>` is the standard input of the commands after it, and `<< crds` are our definitions.
pub(super) fn session() -> Vec<Step> {
    let mut steps = Vec::new();
    let mut input = String::new();
    let mut lines = include_str!("session.txt").lines();
    while let Some(line) = lines.next() {
        match line {
            "<<" => {
                input = lines.by_ref().take_while(|line| *line != ">>").fold(String::new(), |all, l| all + l + "\n");
            }
            "<< crds" => {
                let items = karpenter_api::crd::all();
                input = json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string();
            }
            line => {
                let (mark, rest) = line.split_once(' ').unwrap_or_else(|| panic!("no command: {line}"));
                let line = format!("-n smoke {rest}");
                steps.push(Step { line, input: input.clone(), awaited: mark == "?" });
            }
        }
    }
    steps
}

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: play, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: registry/main:1
        ports: [{containerPort: 80}]
        resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
";

const DEPLOYMENT_CHANGED: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: play, labels: {app: web, tier: front}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: registry/main:2
        env: [{name: A, value: "1"}]
"#;

const PODS: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: one, namespace: play, labels: {app: web}}
spec:
  containers: [{name: main, image: "registry/main:1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: two, namespace: play, labels: {app: db}}
spec:
  nodeName: node-a
  nodeSelector: {disk: fast}
  containers:
  - {name: main, image: "registry/main:1", resources: {requests: {cpu: "1", memory: 1Gi}}}
  - {name: side, image: registry/side}
"#;

const NODES: &str = r#"
apiVersion: v1
kind: Node
metadata: {name: node-a, labels: {disk: fast, kubernetes.io/hostname: node-a, node-role.kubernetes.io/worker: ""}}
spec: {providerID: "x://a"}
---
apiVersion: v1
kind: Node
metadata: {name: node-b}
spec: {taints: [{key: dedicated, value: db, effect: NoSchedule}]}
"#;

const BUDGET: &str = "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: keep, namespace: play}
spec: {minAvailable: 1, selector: {matchLabels: {app: db}}}
";

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing, shortNames: [th], categories: [stuff]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
    schema:
      openAPIV3Schema:
        type: object
        description: A thing of some size.
        required: [spec]
        properties:
          spec:
            type: object
            description: What is wanted.
            required: [size]
            properties:
              size: {type: integer, minimum: 1, maximum: 10, description: How big it is.}
              color: {type: string, enum: [red, blue], default: red}
            x-kubernetes-validations:
            - {rule: "self.color == oldSelf.color", message: "color is immutable"}
          status:
            type: object
            properties:
              size: {type: integer}
              conditions:
                type: array
                items: {type: object, x-kubernetes-preserve-unknown-fields: true}
"#;

const THING: &str = "{apiVersion: example.com/v1, kind: Thing, metadata: {name: a, namespace: play}, spec: {size: 3}}";
const BAD_THING: &str =
    "{apiVersion: example.com/v1, kind: Thing, metadata: {name: b, namespace: play}, spec: {size: 30}}";
const ODD_THING: &str =
    "{apiVersion: example.com/v1, kind: Thing, metadata: {name: b, namespace: play}, spec: {size: 3, weight: 4}}";
const EVENT: &str = r#"
apiVersion: v1
kind: Event
metadata: {name: two.1, namespace: play}
involvedObject: {apiVersion: v1, kind: Pod, name: two, namespace: play}
reason: Started
message: it runs
type: Normal
count: 1
source: {component: kubelet}
firstTimestamp: "2026-01-02T03:04:05Z"
lastTimestamp: "2026-01-02T03:04:05Z"
"#;
const CONFIG: &str =
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: applied, namespace: play}, data: {k: v, l: w}}";
const CONFIG_CHANGED: &str =
    "{apiVersion: v1, kind: ConfigMap, metadata: {name: applied, namespace: play}, data: {k: x}}";

pub(super) const SCRIPT: &[(&str, &str)] = &[
    // The server about itself.
    ("version -o json --client=false", ""),
    ("api-resources --api-group=apps", ""),
    ("api-resources --api-group=policy -o wide", ""),
    ("api-resources --namespaced=false --api-group=storage.k8s.io -o name", ""),
    ("get --raw /healthz", ""),
    ("auth can-i create pods", ""),
    ("auth can-i delete nodes --all-namespaces", ""),
    ("auth whoami -o jsonpath={.status.userInfo.groups}", ""),
    ("explain pod.spec.nodeSelector", ""),
    ("explain deployment.spec.strategy", ""),
    ("explain poddisruptionbudget.spec.minAvailable", ""),
    ("explain pod.spec.nothing", ""),
    // Namespaces and simple objects.
    ("create namespace play", ""),
    ("create namespace play", ""),
    ("get namespace play", ""),
    ("get namespace play -o jsonpath={.status.phase}", ""),
    ("describe namespace play", ""),
    ("-n play create configmap settings --from-literal=color=red --from-literal=size=3", ""),
    ("-n play get configmap settings", ""),
    ("-n play get configmap settings -o yaml", ""),
    ("-n play get configmap settings -o json", ""),
    ("-n play get configmap settings -o name", ""),
    ("-n play describe configmap settings", ""),
    ("-n play create secret generic hidden --from-literal=password=x", ""),
    ("-n play get secret hidden -o yaml", ""),
    ("-n play describe secret hidden", ""),
    ("-n play create serviceaccount robot", ""),
    ("-n play get serviceaccounts", ""),
    // Apply from the client and from the server.
    ("apply -f -", CONFIG),
    ("apply -f -", CONFIG),
    ("apply -f -", CONFIG_CHANGED),
    ("diff -f -", CONFIG),
    ("-n play get configmap applied -o yaml", ""),
    ("apply --server-side -f -", CONFIG),
    ("apply --server-side --force-conflicts -f -", CONFIG),
    ("-n play get configmap applied -o yaml --show-managed-fields", ""),
    ("apply --server-side --field-manager=other -f -", CONFIG_CHANGED),
    ("apply --dry-run=server -f -", CONFIG_CHANGED),
    ("apply -f -", DEPLOYMENT),
    ("-n play get deployment web", ""),
    ("-n play get deployment web -o wide", ""),
    ("-n play get deployment web -o yaml", ""),
    ("-n play describe deployment web", ""),
    ("apply -f -", DEPLOYMENT_CHANGED),
    ("-n play get deployment web -o yaml", ""),
    ("-n play get deployment web -o jsonpath='{.metadata.generation} {.spec.template.spec.containers[*].image}'", ""),
    // Change.
    ("-n play scale deployment web --replicas=5", ""),
    ("-n play scale deployment web --replicas=1 --current-replicas=3", ""),
    ("-n play label configmap settings a=b", ""),
    ("-n play label configmap settings a=c", ""),
    ("-n play label configmap settings a=c --overwrite", ""),
    ("-n play label configmap settings a-", ""),
    ("-n play annotate configmap settings note='some words'", ""),
    ("-n play get configmaps --show-labels", ""),
    ("-n play get configmaps -l a=c", ""),
    ("-n play get configmaps --field-selector metadata.name=settings", ""),
    ("-n play get configmaps --field-selector spec.color=red", ""),
    ("-n play patch configmap settings -p '{\"data\": {\"color\": \"blue\"}}'", ""),
    ("-n play patch configmap settings --type=merge -p '{\"data\": {\"size\": null}}'", ""),
    (
        "-n play patch configmap settings --type=json -p '[{\"op\": \"add\", \"path\": \"/data/new\", \"value\": \"x\"}]'",
        "",
    ),
    ("-n play patch configmap settings --type=json -p '[{\"op\": \"remove\", \"path\": \"/data/none\"}]'", ""),
    ("-n play patch configmap settings -p '{\"data\": {\"color\": \"blue\"}}'", ""),
    (
        "-n play patch deployment web -p '{\"spec\": {\"template\": {\"spec\": {\"containers\": [{\"name\": \"main\", \"image\": \"registry/main:3\"}]}}}}'",
        "",
    ),
    ("-n play patch deployment web --subresource=status --type=merge -p '{\"status\": {\"replicas\": 2}}'", ""),
    ("-n play set image deployment/web main=registry/main:4", ""),
    ("-n play set env deployment/web B=2", ""),
    // Nodes and pods.
    ("apply -f -", NODES),
    ("apply -f -", PODS),
    ("get nodes", ""),
    ("get nodes -o wide", ""),
    ("get nodes -L disk", ""),
    ("describe node node-b", ""),
    ("-n play get pods", ""),
    ("-n play get pods -o wide", ""),
    ("-n play get pods -o custom-columns=NAME:.metadata.name,NODE:.spec.nodeName", ""),
    ("-n play get pods --sort-by=.metadata.name --no-headers", ""),
    ("-n play get pod one -o yaml", ""),
    ("-n play describe pod two", ""),
    (
        "-n play patch pod two --subresource=status --type=merge -p '{\"status\": {\"phase\": \"Running\", \"conditions\": [{\"type\": \"Ready\", \"status\": \"True\"}]}}'",
        "",
    ),
    ("-n play wait pod/two --for=condition=Ready --timeout=5s", ""),
    ("-n play wait pod/two --for=jsonpath={.status.phase}=Running --timeout=5s", ""),
    ("-n play wait pod/one --for=condition=Ready --timeout=1s", ""),
    ("create -f -", EVENT),
    ("-n play get events", ""),
    ("-n play events", ""),
    ("-n play events --for pod/two", ""),
    ("-n play describe pod two", ""),
    ("cordon node-a", ""),
    ("cordon node-a", ""),
    ("get node node-a", ""),
    ("uncordon node-a", ""),
    ("taint node node-a dedicated=web:NoSchedule", ""),
    ("taint node node-a dedicated-", ""),
    ("apply -f -", BUDGET),
    ("-n play get pdb", ""),
    ("-n play describe pdb keep", ""),
    ("drain node-a --timeout=1s", ""),
    ("drain node-a --force --grace-period=0 --timeout=4s", ""),
    ("-n play delete pdb keep", ""),
    ("drain node-a --force --grace-period=0 --timeout=20s", ""),
    ("-n play get pods", ""),
    ("-n play get pods -w --request-timeout=2s", ""),
    ("-n play get configmaps --watch-only --output-watch-events --request-timeout=2s", ""),
    // Custom resources.
    ("apply -f -", DEFINITION),
    ("wait crd/things.example.com --for=condition=Established --timeout=10s", ""),
    ("get crd things.example.com", ""),
    ("api-resources --api-group=example.com", ""),
    ("explain thing", ""),
    ("explain thing.spec.size", ""),
    ("apply -f -", THING),
    ("-n play get things", ""),
    ("-n play get th -o wide", ""),
    ("-n play get stuff", ""),
    ("-n play get thing a -o yaml", ""),
    ("-n play describe thing a", ""),
    ("apply -f -", BAD_THING),
    ("create -f -", ODD_THING),
    ("create --validate=ignore -f -", ODD_THING),
    ("-n play patch thing a --type=merge -p '{\"spec\": {\"color\": \"blue\"}}'", ""),
    ("-n play patch thing a --type=merge -p '{\"spec\": {\"size\": 0}}'", ""),
    ("-n play patch thing a -p '{\"spec\": {\"size\": 4}}'", ""),
    ("-n play scale thing a --replicas=7", ""),
    ("-n play get thing a --subresource=scale", ""),
    ("-n play edit thing none", ""),
    ("-n play delete thing a", ""),
    // Deletion and what goes wrong.
    ("-n play delete configmap settings", ""),
    ("-n play delete configmap settings", ""),
    ("-n play delete configmap settings --ignore-not-found", ""),
    ("-n play delete configmaps --all", ""),
    ("-n play delete deployment web --cascade=orphan --wait=false --dry-run=server", ""),
    ("-n play delete deployment web", ""),
    ("-n play delete pod one --grace-period=0 --force", ""),
    ("-n play get pod none", ""),
    ("-n play get wonders", ""),
    ("-n play get pods -l 'a in ('", ""),
    ("create -f -", "{apiVersion: v1, kind: Wonder, metadata: {name: a}}"),
    ("create -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: A_B, namespace: play}}"),
    ("create -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: nowhere}}"),
    ("create -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: made-, namespace: play}}"),
    (
        "create -f -",
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: play}, spec: {containers: [{name: c}]}}",
    ),
    (
        "create -f -",
        "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: play}, spec: {colour: red, containers: [{name: c, image: i}]}}",
    ),
    ("replace -f -", "{apiVersion: v1, kind: ConfigMap, metadata: {name: none, namespace: play}}"),
    ("-n nowhere get pods", ""),
    ("delete namespace default --wait=false", ""),
    ("delete crd things.example.com", ""),
    ("delete node node-a node-b", ""),
];
