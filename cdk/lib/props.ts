import { Values } from "@aws-quickstart/eks-blueprints";

/** A requirement on nodes, in the form of the add-on. */
export interface Requirement {
  readonly key: string;
  readonly op: "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt";
  readonly vals?: string[];
}

export interface Taint {
  readonly key: string;
  readonly value?: string;
  readonly effect: "NoSchedule" | "PreferNoSchedule" | "NoExecute";
}

export interface KarpenterAddOnProps {
  /** Which nodes may be launched; without it any type, amd64, on demand. */
  readonly requirements?: Requirement[];
  /** The older form of `requirements`: key and values, operator `In`. */
  readonly provisionerSpecs?: Record<string, string[]>;
  /** Tags of the subnets of nodes. A node class and a pool `default` are made when these and `securityGroupTags` are given. */
  readonly subnetTags?: Record<string, string>;
  /** Tags of the security groups of nodes. */
  readonly securityGroupTags?: Record<string, string>;
  readonly taints?: Taint[];
  /** AL2 (the default), AL2023, Bottlerocket, Windows2019, Windows2022 or Windows2025. */
  readonly amiFamily?: string;
  /** Tags for instances, volumes and interfaces. */
  readonly tags?: Record<string, string>;
  /** Move pods to fewer and cheaper nodes. Not together with `ttlSecondsAfterEmpty`. */
  readonly consolidation?: { readonly enabled: boolean };
  /** Remove a node that has been empty for so long. */
  readonly ttlSecondsAfterEmpty?: number;
  /** Replace nodes that are so old. */
  readonly ttlSecondsUntilExpired?: number;
  /** 1 to 100; pools of a higher weight are tried first. */
  readonly weight?: number;
  /** Make a queue, rules that fill it, and have the controller read it. */
  readonly interruptionHandling?: boolean;

  /** Folder with the charts `karpenter` and `karpenter-crd`, instead of `repository`. */
  readonly chartsPath?: string;
  /** The chart `karpenter` in a registry, with `oci://`; `karpenter-crd` is beside it. */
  readonly repository?: string;
  /** Version of the charts, with or without a leading `v`. */
  readonly version?: string;
  /** Name of the release. Charts from a registry unpack as `karpenter`, so that is the default. */
  readonly release?: string;
  readonly namespace?: string;
  /** More values for the chart. */
  readonly values?: Values;
}

/** Values that the add-on sets itself, in their present and in their older names. */
const OWN_VALUES = [
  "settings.clusterName", "settings.clusterEndpoint", "settings.interruptionQueue",
  "settings.aws.defaultInstanceProfile", "settings.aws.clusterEndpoint", "settings.aws.clusterName", "settings.aws.interruptionQueueName",
  "serviceAccount.create", "serviceAccount.name", "serviceAccount.annotations",
];

/** Throws at what cannot be meant, before anything is made. */
export function check(props: KarpenterAddOnProps): void {
  for (const path of OWN_VALUES) {
    if (path.split(".").reduce<any>((at, part) => at?.[part], props.values) !== undefined) {
      throw new Error(`Karpenter add-on: values.${path} is set by the add-on itself; leave it out`);
    }
  }
  if (props.consolidation?.enabled && props.ttlSecondsAfterEmpty !== undefined) {
    throw new Error("Karpenter add-on: consolidation and ttlSecondsAfterEmpty are mutually exclusive; give one of them");
  }
  if (props.requirements && props.provisionerSpecs) {
    throw new Error("Karpenter add-on: provisionerSpecs is the older form of requirements; give requirements only");
  }
  if (props.weight !== undefined && !(Number.isInteger(props.weight) && props.weight >= 1 && props.weight <= 100)) {
    throw new Error(`Karpenter add-on: weight must be a whole number from 1 to 100, not ${props.weight}`);
  }
  for (const [what, given, since] of [
    ["consolidation", props.consolidation?.enabled, "0.15.0"],
    ["weight", props.weight !== undefined, "0.16.0"],
    ["interruptionHandling", props.interruptionHandling, "0.19.0"],
  ] as const) {
    if (given && before(props.version, since)) {
      throw new Error(`Karpenter add-on: ${what} needs version ${since} or later, not ${props.version}`);
    }
  }
}

/**
 * Whether a version is one of the charts that had no such feature yet. Those had minor versions from 5 on; smaller ones are this
 * project's own, which has all of them.
 */
function before(version: string | undefined, since: string): boolean {
  const [major, minor, patch] = (version ?? "").replace(/^v/, "").split(/[.+-]/).map(Number);
  if (major !== 0 || !(minor >= 5)) {
    return false;
  }
  const [, wantedMinor, wantedPatch] = since.split(".").map(Number);
  return minor < wantedMinor || (minor === wantedMinor && (patch || 0) < wantedPatch);
}
