import { KarpenterAddOnProps, Requirement } from "./props";

/** Families of images, as the add-on calls them, and their alias. */
const ALIASES: Record<string, string> = {
  AL2: "al2", AL2023: "al2023", Bottlerocket: "bottlerocket", Windows2019: "windows2019", Windows2022: "windows2022", Windows2025: "windows2025",
};
/** The first minor version of Kubernetes without images of Amazon Linux 2. */
const WITHOUT_AL2 = 33;

const CAPACITY_TYPE = "karpenter.sh/capacity-type";
const ARCH = "kubernetes.io/arch";
const OS = "kubernetes.io/os";

/** The node class `default`. */
export function nodeClass(props: KarpenterAddOnProps, instanceProfile: string, kubernetes: string, warn: (text: string) => void): object {
  return {
    apiVersion: "karpenter.k8s.aws/v1",
    kind: "EC2NodeClass",
    metadata: { name: "default" },
    spec: {
      instanceProfile,
      amiSelectorTerms: [{ alias: `${alias(props.amiFamily ?? "AL2", kubernetes, warn)}@latest` }],
      subnetSelectorTerms: [{ tags: props.subnetTags }],
      securityGroupSelectorTerms: [{ tags: props.securityGroupTags }],
      ...(props.tags && { tags: props.tags }),
    },
  };
}

function alias(family: string, kubernetes: string, warn: (text: string) => void): string {
  const found = ALIASES[family];
  if (!found) {
    throw new Error(`Karpenter add-on: amiFamily ${family} is unknown; there are ${Object.keys(ALIASES).join(", ")}`);
  }
  if (found === "al2" && Number(kubernetes.split(".")[1]) >= WITHOUT_AL2) {
    warn(`Karpenter add-on: there is no AL2 image for Kubernetes ${kubernetes}, so AL2023 is taken; set amiFamily to AL2023`);
    return "al2023";
  }
  return found;
}

/** The pool `default`, which means what a Provisioner of these properties meant. */
export function nodePool(props: KarpenterAddOnProps): object {
  return {
    apiVersion: "karpenter.sh/v1",
    kind: "NodePool",
    metadata: { name: "default" },
    spec: {
      ...(props.weight !== undefined && { weight: props.weight }),
      disruption: disruption(props),
      template: {
        spec: {
          nodeClassRef: { group: "karpenter.k8s.aws", kind: "EC2NodeClass", name: "default" },
          requirements: requirements(props).map(({ key, op, vals }) => ({ key, operator: op, ...(vals && { values: vals }) })),
          expireAfter: props.ttlSecondsUntilExpired === undefined ? "Never" : duration(props.ttlSecondsUntilExpired),
          ...(props.taints && { taints: props.taints }),
        },
      },
    },
  };
}

function requirements(props: KarpenterAddOnProps): Requirement[] {
  const given: Requirement[] = props.requirements
    ?? Object.entries(props.provisionerSpecs ?? {}).map(([key, vals]) => ({ key, op: "In", vals }));
  // What a Provisioner took where nothing was said.
  const defaults: Requirement[] = [
    { key: CAPACITY_TYPE, op: "In", vals: ["on-demand"] },
    { key: ARCH, op: "In", vals: ["amd64"] },
    { key: OS, op: "In", vals: ["linux"] },
  ];
  return [...given, ...defaults.filter((d) => !given.some((g) => g.key === d.key))];
}

function disruption(props: KarpenterAddOnProps): object {
  if (props.consolidation?.enabled) {
    return { consolidationPolicy: "WhenEmptyOrUnderutilized", consolidateAfter: "0s" };
  }
  if (props.ttlSecondsAfterEmpty !== undefined) {
    return { consolidationPolicy: "WhenEmpty", consolidateAfter: duration(props.ttlSecondsAfterEmpty) };
  }
  return { consolidationPolicy: "WhenEmpty", consolidateAfter: "Never" };
}

function duration(seconds: number): string {
  return seconds > 0 && seconds % 3600 === 0 ? `${seconds / 3600}h` : `${seconds}s`;
}
