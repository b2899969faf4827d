import { ClusterAddOn, ClusterInfo } from "@aws-quickstart/eks-blueprints";
import { Annotations, CfnResource, Fn, RemovalPolicy, Stack } from "aws-cdk-lib";
import * as eks from "aws-cdk-lib/aws-eks";
import * as events from "aws-cdk-lib/aws-events";
import * as iam from "aws-cdk-lib/aws-iam";
import { Asset } from "aws-cdk-lib/aws-s3-assets";
import * as sqs from "aws-cdk-lib/aws-sqs";
import { Construct } from "constructs";
import * as path from "node:path";

import { nodeClass, nodePool } from "./node-pool";
import { controllerPolicies, eventRules, nodePolicies, nodeTrust, queuePolicy } from "./policies";
import { check, KarpenterAddOnProps } from "./props";

const REPOSITORY = "oci://ghcr.io/karpenter-rs/charts/karpenter";
const NEEDS = "VpcCniAddOn";
// The library spells it in its own way.
const CONFLICTS = ["ClusterAutoscalerAddOn", "ClusterAutoScalerAddOn"];
const SERVICE_ACCOUNT = "karpenter";

/** Installs the autoscaler on the cluster of a blueprint, with what it needs in the account. */
export class KarpenterAddOn implements ClusterAddOn {
  readonly id = "KarpenterAddOn";
  private readonly props: KarpenterAddOnProps;

  constructor(props: KarpenterAddOnProps = {}) {
    check(props);
    this.props = props;
  }

  deploy(clusterInfo: ClusterInfo): Promise<Construct> {
    const { cluster } = clusterInfo;
    const vpcCni = clusterInfo.getScheduledAddOn(NEEDS);
    if (!vpcCni) {
      throw new Error(`Assertion failed: Missing a dependency for ${NEEDS}`);
    }
    // Where it comes after this one in the list, it is the other that refuses.
    if (CONFLICTS.some((name) => clusterInfo.getScheduledAddOn(name))) {
      throw new Error(`Deploying ${cluster.stack.stackName} failed due to conflicting add-on: ${CONFLICTS[0]}.`);
    }
    if (!(cluster instanceof eks.Cluster)) {
      throw new Error("Karpenter add-on: the cluster was imported, so its nodes' role cannot be let in");
    }
    const chart = new Installation(cluster, clusterInfo.version.version, this.props).deploy();
    return vpcCni.then((construct) => {
      chart.node.addDependency(construct);
      return chart;
    });
  }
}

class Installation {
  private readonly stack: Stack;
  private readonly namespace: string;

  constructor(private readonly cluster: eks.Cluster, private readonly kubernetes: string, private readonly props: KarpenterAddOnProps) {
    this.stack = cluster.stack;
    this.namespace = props.namespace ?? "karpenter";
  }

  deploy(): Construct {
    const role = this.nodeRole();
    const profile = new iam.CfnInstanceProfile(this.cluster, "KarpenterNodeInstanceProfile", { roles: [role.ref] });
    const queue = this.props.interruptionHandling ? this.queue() : undefined;
    const policies = this.policies(role, queue);

    const namespace = this.cluster.addManifest("karpenter-namespace", {
      apiVersion: "v1", kind: "Namespace", metadata: { name: this.namespace },
    });
    const account = this.cluster.addServiceAccount(SERVICE_ACCOUNT, { name: SERVICE_ACCOUNT, namespace: this.namespace });
    account.node.addDependency(namespace);
    policies.forEach((policy, n) => account.role.addManagedPolicy(iam.ManagedPolicy.fromManagedPolicyArn(this.cluster, `KarpenterPolicy${n}`, policy.ref)));

    const crds = this.chart("karpenter-crd", "karpenter-crd", {});
    crds.node.addDependency(namespace);
    const chart = this.chart("karpenter", this.props.release ?? "karpenter", {
      ...this.props.values,
      settings: {
        ...(this.props.values?.settings as object | undefined),
        clusterName: this.cluster.clusterName,
        clusterEndpoint: this.cluster.clusterEndpoint,
        ...(queue && { interruptionQueue: queue.attrQueueName }),
      },
      serviceAccount: {
        create: false,
        name: SERVICE_ACCOUNT,
        annotations: { "eks.amazonaws.com/role-arn": account.role.roleArn },
      },
    });
    chart.node.addDependency(crds, account);
    this.pool(profile, chart);
    return chart;
  }

  private nodeRole(): iam.CfnRole {
    const role = new iam.CfnRole(this.cluster, "KarpenterNodeRole", {
      assumeRolePolicyDocument: this.filled(nodeTrust, {}),
      managedPolicyArns: nodePolicies.map((name) => `arn:${this.stack.partition}:iam::aws:policy/${name}`),
    });
    const mode = this.cluster.authenticationMode;
    if (mode === undefined || mode === eks.AuthenticationMode.CONFIG_MAP) {
      this.cluster.awsAuth.addRoleMapping(iam.Role.fromRoleArn(this.cluster, "KarpenterNodeRoleImport", role.attrArn), {
        username: "system:node:{{EC2PrivateDNSName}}", groups: ["system:bootstrappers", "system:nodes"],
      });
    } else {
      new eks.CfnAccessEntry(this.cluster, "KarpenterNodeAccess", {
        clusterName: this.cluster.clusterName, principalArn: role.attrArn, type: "EC2_LINUX",
      });
    }
    return role;
  }

  private queue(): sqs.CfnQueue {
    const queue = new sqs.CfnQueue(this.cluster, "KarpenterInterruptionQueue", {
      queueName: this.cluster.clusterName, messageRetentionPeriod: 300, sqsManagedSseEnabled: true,
    });
    // Messages are of use for minutes only.
    queue.applyRemovalPolicy(RemovalPolicy.DESTROY);
    new sqs.CfnQueuePolicy(this.cluster, "KarpenterInterruptionQueuePolicy", {
      queues: [queue.ref], policyDocument: this.filled(queuePolicy, { queue_arn: queue.attrArn }),
    });
    for (const [name, pattern] of Object.entries(eventRules)) {
      new events.CfnRule(this.cluster, `Karpenter${name}Rule`, {
        eventPattern: pattern, targets: [{ id: "KarpenterInterruptionQueueTarget", arn: queue.attrArn }],
      });
    }
    return queue;
  }

  private policies(role: iam.CfnRole, queue: sqs.CfnQueue | undefined): CfnResource[] {
    const values = {
      cluster_name: this.cluster.clusterName, node_role_arn: role.attrArn, ...(queue && { queue_arn: queue.attrArn }),
    };
    return Object.entries(controllerPolicies)
      .filter(([name]) => queue || name !== "interruption")
      .map(([name, document]) => new iam.CfnManagedPolicy(this.cluster, `KarpenterController-${name}`, { policyDocument: this.filled(document, values) }));
  }

  /** As text that CloudFormation fills in: keys of conditions hold the cluster's name, which is known only then. */
  private filled(document: object, values: Record<string, string>): string {
    const text = JSON.stringify(document);
    const all: Record<string, string> = {
      partition: this.stack.partition, region: this.stack.region, account_id: this.stack.account, url_suffix: this.stack.urlSuffix, ...values,
    };
    return Fn.sub(text, Object.fromEntries(Object.entries(all).filter(([name]) => text.includes(`\${${name}}`))));
  }

  private chart(name: string, release: string, values: Record<string, unknown>): eks.HelmChart {
    const { chartsPath, repository, version } = this.props;
    const source = chartsPath
      ? { chartAsset: new Asset(this.cluster, `${name}-chart`, { path: path.join(chartsPath, name) }) }
      : { chart: name, repository: (repository ?? REPOSITORY).replace(/\/karpenter$/, `/${name}`), version: version?.replace(/^v(?=[1-9]|0\.[0-4]\.)/, "") };
    return this.cluster.addHelmChart(`${name}-release`, {
      ...source, release, namespace: this.namespace, createNamespace: false, skipCrds: true, wait: true, values,
    });
  }

  private pool(profile: iam.CfnInstanceProfile, chart: Construct): void {
    if (!this.props.subnetTags || !this.props.securityGroupTags) {
      return;
    }
    const warn = (text: string) => Annotations.of(this.cluster).addWarningV2("karpenter:ami-family", text);
    const made = this.cluster.addManifest("karpenter-node-class", nodeClass(this.props, profile.ref, this.kubernetes, warn) as Record<string, any>);
    made.node.addDependency(chart);
    const pool = this.cluster.addManifest("karpenter-node-pool", nodePool(this.props) as Record<string, any>);
    pool.node.addDependency(made);
  }
}
