// The add-on in a blueprint, synthesised without network or credentials, and what its template holds. That it compiles as one of
// the library's add-ons is SEED-1-43.

import * as blueprints from "@aws-quickstart/eks-blueprints";
import { App } from "aws-cdk-lib";
import { KubernetesVersion } from "aws-cdk-lib/aws-eks";
import { Match, Template } from "aws-cdk-lib/assertions";
import * as assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { KarpenterAddOn, KarpenterAddOnProps } from "../lib";

const ROOT = process.env.KARPENTER_ROOT ?? join(__dirname, "../../..");
const CHARTS = join(ROOT, "charts");

// The properties of the document, word for word.
const DOCUMENTED: KarpenterAddOnProps = {
  requirements: [
    { key: "node.kubernetes.io/instance-type", op: "In", vals: ["m5.2xlarge"] },
    { key: "topology.kubernetes.io/zone", op: "NotIn", vals: ["us-west-2c"] },
    { key: "kubernetes.io/arch", op: "In", vals: ["amd64", "arm64"] },
    { key: "karpenter.sh/capacity-type", op: "In", vals: ["spot", "on-demand"] },
  ],
  subnetTags: { Name: "blueprint-construct-dev/blueprint-construct-dev-vpc/PrivateSubnet1" },
  securityGroupTags: { "kubernetes.io/cluster/blueprint-construct-dev": "owned" },
  taints: [{ key: "workload", value: "test", effect: "NoSchedule" }],
  amiFamily: "AL2",
  consolidation: { enabled: true },
  ttlSecondsUntilExpired: 2592000,
  weight: 20,
  interruptionHandling: true,
};

async function stack(addOns: blueprints.ClusterAddOn[], version = KubernetesVersion.V1_32): Promise<Template> {
  const app = new App();
  const built = await blueprints.EksBlueprint.builder().version(version).addOns(...addOns).buildAsync(app, "my-stack-name");
  return Template.fromStack(built);
}

// Without a version the add-on asks EKS for one.
const vpcCni = () => new blueprints.addons.VpcCniAddOn({ version: "v1.20.4-eksbuild.2" });
const withCni = (props: KarpenterAddOnProps) => [vpcCni(), new KarpenterAddOn({ chartsPath: CHARTS, ...props })];

function manifests(template: Template): any[] {
  const found = template.findResources("Custom::AWSCDK-EKS-KubernetesResource");
  return Object.values(found).flatMap((r: any) => JSON.parse(text(r.Properties.Manifest)));
}

/** What CloudFormation would make of a value, with <logical.attribute> in the place of what is known only then. */
function text(value: any): string {
  if (typeof value === "string") return value;
  if (value.Ref) return ({ "AWS::Partition": "aws", "AWS::Region": "us-west-2", "AWS::AccountId": "123456789012", "AWS::URLSuffix": "amazonaws.com" } as any)[value.Ref] ?? `<${value.Ref}>`;
  if (value["Fn::GetAtt"]) return `<${value["Fn::GetAtt"].join(".")}>`;
  if (value["Fn::Join"]) return value["Fn::Join"][1].map(text).join(value["Fn::Join"][0]);
  if (value["Fn::Sub"]) {
    const [body, values] = value["Fn::Sub"];
    return body.replace(/\$\{(\w+)\}/g, (_: string, name: string) => text(values[name]));
  }
  if (value["Fn::Select"] || value["Fn::Split"]) return "<selected>";
  throw new Error(`no text: ${JSON.stringify(value)}`);
}

function release(template: Template, name: string): any {
  const found = Object.values(template.findResources("Custom::AWSCDK-EKS-HelmChart", { Properties: { Release: name } }));
  assert.equal(found.length, 1, name);
  return (found[0] as any).Properties;
}

let documented: Promise<Template> | undefined;
const documentedStack = () => (documented ??= stack(withCni(DOCUMENTED)));

// SEED-1-5, SEED-1-6, SEED-1-7, SEED-1-8, SEED-1-9, SEED-1-10, SEED-1-11, SEED-1-12, SEED-1-13, SEED-1-14, SEED-1-16, SEED-1-17
test("a class and a pool mean what the properties say", async () => {
  const objects = manifests(await documentedStack());
  const pool = objects.find((o) => o.kind === "NodePool");
  assert.equal(pool.spec.weight, 20);
  assert.deepEqual(pool.spec.disruption, { consolidationPolicy: "WhenEmptyOrUnderutilized", consolidateAfter: "0s" });
  const node = pool.spec.template.spec;
  assert.equal(node.expireAfter, "720h");
  assert.deepEqual(node.taints, [{ key: "workload", value: "test", effect: "NoSchedule" }]);
  assert.deepEqual(node.requirements, [
    { key: "node.kubernetes.io/instance-type", operator: "In", values: ["m5.2xlarge"] },
    { key: "topology.kubernetes.io/zone", operator: "NotIn", values: ["us-west-2c"] },
    { key: "kubernetes.io/arch", operator: "In", values: ["amd64", "arm64"] },
    { key: "karpenter.sh/capacity-type", operator: "In", values: ["spot", "on-demand"] },
    { key: "kubernetes.io/os", operator: "In", values: ["linux"] },
  ]);
  const { spec } = objects.find((o) => o.kind === "EC2NodeClass");
  assert.deepEqual(spec.amiSelectorTerms, [{ alias: "al2@latest" }]);
  assert.deepEqual(spec.subnetSelectorTerms, [{ tags: DOCUMENTED.subnetTags }]);
  assert.deepEqual(spec.securityGroupSelectorTerms, [{ tags: DOCUMENTED.securityGroupTags }]);
  assert.match(spec.instanceProfile, /KarpenterNodeInstanceProfile/);
});

// SEED-1-18, SEED-1-20, SEED-1-21, SEED-1-22, SEED-1-23
test("chart, namespace, account, profile and queue belong together", async () => {
  const template = await documentedStack();
  const properties = release(template, "karpenter");
  assert.equal(properties.Namespace, "karpenter");
  const values = JSON.parse(text(properties.Values));
  assert.match(values.settings.clusterName, /^<.+>$/);
  assert.match(values.settings.clusterEndpoint, /Endpoint>$/);
  assert.match(values.settings.interruptionQueue, /KarpenterInterruptionQueue.*QueueName>$/);
  assert.equal(values.serviceAccount.create, false);
  assert.equal(values.serviceAccount.name, "karpenter");
  assert.match(values.serviceAccount.annotations["eks.amazonaws.com/role-arn"], /Arn>$/);
  // Its cluster, endpoint, queue and role aside, what crates/operator/tests/it/installing installs.
  const shape = (json: string) => JSON.parse(json.replace(/<[^>]*>/g, "<>"));
  assert.deepEqual(shape(text(properties.Values)), shape(readFileSync(join(ROOT, "deploy/tests/values/cdk.json"), "utf8")));
  assert.equal(release(template, "karpenter-crd").Namespace, "karpenter");
  assert.ok(manifests(template).some((o) => o.kind === "Namespace" && o.metadata.name === "karpenter"));
  assert.ok(manifests(template).some((o) => o.kind === "ServiceAccount" && o.metadata.name === "karpenter" && o.metadata.namespace === "karpenter"));
  template.resourceCountIs("AWS::Events::Rule", 5);
  template.hasResourceProperties("AWS::SQS::Queue", { MessageRetentionPeriod: 300, SqsManagedSseEnabled: true });
  template.hasResourceProperties("AWS::IAM::InstanceProfile", { Roles: [Match.anyValue()] });
  const account = Object.values(template.findResources("AWS::IAM::Role")).find((r: any) => JSON.stringify(r).includes("AssumeRoleWithWebIdentity")
    && r.Properties.ManagedPolicyArns?.length === 6);
  assert.ok(account, "a role for the service account with six policies");
});

test("policies are those of deploy/iam, filled in (AWS-240, AWS-243)", async () => {
  const template = await documentedStack();
  const found = Object.entries(template.findResources("AWS::IAM::ManagedPolicy")).filter(([id]) => id.includes("KarpenterController"));
  const made = found.map(([, r]: any) => JSON.parse(text(r.Properties.PolicyDocument)));
  const name = (o: Record<string, any>, kind: string) => Object.keys(o).find((id) => id.includes(kind))!;
  const role = name(template.findResources("AWS::IAM::Role"), "KarpenterNodeRole");
  const queue = name(template.findResources("AWS::SQS::Queue"), "KarpenterInterruptionQueue");
  const cluster = made.flatMap((d) => d.Statement).find((s: any) => s.Action === "eks:DescribeCluster").Resource.split("/")[1];
  const values: Record<string, string> = {
    partition: "aws", region: "us-west-2", account_id: "123456789012", cluster_name: cluster, node_role_arn: `<${role}.Arn>`, queue_arn: `<${queue}.Arn>`,
  };
  const wanted = ["node-lifecycle", "iam-integration", "eks-integration", "interruption", "zonal-shift", "resource-discovery"].map((file) =>
    JSON.parse(readFileSync(join(ROOT, `deploy/iam/controller/${file}.json`), "utf8").replace(/\$\{(\w+)\}/g, (_, n) => values[n])));
  const sorted = (documents: object[]) => documents.map((d) => JSON.stringify(d)).sort();
  assert.deepEqual(sorted(made), sorted(wanted));
  const trust = text(template.findResources("AWS::IAM::Role")[role].Properties.AssumeRolePolicyDocument);
  assert.deepEqual(JSON.parse(trust), JSON.parse(readFileSync(join(ROOT, "deploy/iam/trust-node.json"), "utf8").replace("${url_suffix}", "amazonaws.com")));
});

// SEED-1-24, SEED-1-25
test("without both tags there is no pool, without requirements the choice is free", async () => {
  const [bare, free] = await Promise.all([
    stack(withCni({ subnetTags: { a: "b" } })),
    stack(withCni({ subnetTags: { a: "b" }, securityGroupTags: { a: "b" }, ttlSecondsAfterEmpty: 30 }), KubernetesVersion.V1_33),
  ]);
  assert.deepEqual(manifests(bare).filter((o) => ["NodePool", "EC2NodeClass"].includes(o.kind)), []);
  bare.resourceCountIs("AWS::SQS::Queue", 0);
  const pool = manifests(free).find((o) => o.kind === "NodePool");
  assert.deepEqual(pool.spec.disruption, { consolidationPolicy: "WhenEmpty", consolidateAfter: "30s" });
  assert.equal(pool.spec.template.spec.expireAfter, "Never");
  assert.deepEqual(pool.spec.template.spec.requirements.map((r: any) => [r.key, r.values[0]]),
    [["karpenter.sh/capacity-type", "on-demand"], ["kubernetes.io/arch", "amd64"], ["kubernetes.io/os", "linux"]]);
  // SEED-1-13: no AL2 any more.
  assert.deepEqual(manifests(free).find((o) => o.kind === "EC2NodeClass").spec.amiSelectorTerms, [{ alias: "al2023@latest" }]);
});

// SEED-1-2
test("the VPC CNI comes first", async () => {
  const message = { message: "Assertion failed: Missing a dependency for VpcCniAddOn" };
  await assert.rejects(stack([new KarpenterAddOn({ chartsPath: CHARTS })]), message);
});

// SEED-1-3
test("no cluster autoscaler beside it, before or after", async () => {
  const message = { message: "Deploying my-stack-name failed due to conflicting add-on: ClusterAutoscalerAddOn." };
  const autoscaler = () => new blueprints.addons.ClusterAutoScalerAddOn();
  const [cni, karpenter] = withCni({});
  await assert.rejects(stack([cni, autoscaler(), karpenter]), message);
  // Here it is the other add-on that refuses.
  await assert.rejects(stack([cni, karpenter, autoscaler()]), { message: "Deploying my-stack-name failed due to conflicting add-on: KarpenterAddOn." });
});

test("what cannot be meant is refused at once", () => {
  const cases: [string, any, RegExp][] = [
    ["SEED-1-15", { consolidation: { enabled: true }, ttlSecondsAfterEmpty: 30 }, /mutually exclusive/],
    ["SEED-1-14", { consolidation: { enabled: true }, version: "0.14.1" }, /consolidation needs version 0.15.0 or later, not 0.14.1/],
    ["SEED-1-17", { weight: 20, version: "v0.15.0" }, /weight needs version 0.16.0/],
    ["SEED-1-18", { interruptionHandling: true, version: "v0.18.1" }, /interruptionHandling needs version 0.19.0/],
    ["SEED-1-19", { values: { settings: { aws: { clusterName: "x" } } } }, /values.settings.aws.clusterName is set by the add-on/],
    ["SEED-1-19", { values: { serviceAccount: { create: true } } }, /values.serviceAccount.create is set/],
    ["SEED-1-36", { requirements: [], provisionerSpecs: {} }, /older form/],
    ["weight", { weight: 0 }, /1 to 100/],
  ];
  for (const [name, props, message] of cases) {
    assert.throws(() => new KarpenterAddOn(props), message, name);
  }
  // This project's own versions, and newer ones, have everything.
  for (const version of ["0.1.0", "v0.19.0", "1.8.1", undefined]) {
    new KarpenterAddOn({ version, weight: 1, interruptionHandling: true, consolidation: { enabled: true } });
  }
});

// SEED-1-36, SEED-1-38, SEED-1-42
test("the older form, charts from a registry, versions in either spelling", async () => {
  const template = await stack([vpcCni(), new KarpenterAddOn({
    provisionerSpecs: { "topology.kubernetes.io/zone": ["us-east-1c"], "kubernetes.io/arch": ["arm64", "amd64"] },
    subnetTags: { a: "b" }, securityGroupTags: { a: "b" }, repository: "oci://registry.example.com/charts/karpenter", version: "v1.15.0",
  })]);
  const chart = release(template, "karpenter");
  assert.deepEqual([chart.Repository, chart.Chart, chart.Version], ["oci://registry.example.com/charts/karpenter", "karpenter", "1.15.0"]);
  assert.equal(release(template, "karpenter-crd").Repository, "oci://registry.example.com/charts/karpenter-crd");
  const pool = manifests(template).find((o) => o.kind === "NodePool");
  assert.deepEqual(pool.spec.template.spec.requirements.slice(0, 2), [
    { key: "topology.kubernetes.io/zone", operator: "In", values: ["us-east-1c"] },
    { key: "kubernetes.io/arch", operator: "In", values: ["arm64", "amd64"] },
  ]);
});
