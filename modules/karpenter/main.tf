locals {
  charts = var.chart_repository == "" ? "${path.module}/../../charts" : null

  values = {
    replicas = var.replicas
    serviceAccount = {
      create      = true
      name        = var.service_account
      annotations = var.service_account_role_arn == "" ? {} : { "eks.amazonaws.com/role-arn" = var.service_account_role_arn }
    }
    settings = {
      clusterName       = var.cluster_name
      interruptionQueue = var.queue_name
    }
    controller   = { resources = var.resources }
    nodeSelector = var.node_selector
    tolerations  = var.tolerations
  }

  groups    = compact([var.node_security_group_id])
  discovery = [{ tags = { "karpenter.sh/discovery" = var.cluster_name } }]

  node_class = {
    apiVersion = "karpenter.k8s.aws/v1"
    kind       = "EC2NodeClass"
    metadata   = { name = "default" }
    spec = merge({
      role                       = var.karpenter_role
      amiSelectorTerms           = [{ alias = var.ami_alias }]
      subnetSelectorTerms        = concat([for id in var.private_subnet_ids : { id = id }], [for term in local.discovery : term if length(var.private_subnet_ids) == 0])
      securityGroupSelectorTerms = concat([for id in local.groups : { id = id }], [for term in local.discovery : term if length(local.groups) == 0])
    }, var.node_class)
  }

  node_pools = [for name, pool in var.node_pools : {
    apiVersion = "karpenter.sh/v1"
    kind       = "NodePool"
    metadata   = { name = name }
    spec = merge({
      limits = { cpu = pool.cpu_limit }
      disruption = {
        consolidationPolicy = "WhenEmptyOrUnderutilized"
        consolidateAfter    = pool.consolidate_after
      }
      template = {
        metadata = { labels = pool.labels }
        spec = {
          expireAfter = pool.expire_after
          taints      = pool.taints
          nodeClassRef = {
            group = "karpenter.k8s.aws"
            kind  = "EC2NodeClass"
            name  = "default"
          }
          requirements = [
            { key = "karpenter.sh/capacity-type", operator = "In", values = pool.capacity_types },
            { key = "karpenter.k8s.aws/instance-category", operator = "In", values = pool.instance_category },
            { key = "kubernetes.io/arch", operator = "In", values = pool.architectures },
            { key = "kubernetes.io/os", operator = "In", values = ["linux"] },
          ]
        }
      }
    }, pool.weight == null ? {} : { weight = pool.weight })
  }]
}

resource "helm_release" "crds" {
  name             = "karpenter-crd"
  namespace        = var.namespace
  create_namespace = true
  repository       = var.chart_repository == "" ? null : var.chart_repository
  chart            = var.chart_repository == "" ? "${local.charts}/karpenter-crd" : "karpenter-crd"
  version          = var.chart_version
}

resource "helm_release" "karpenter" {
  name             = "karpenter"
  namespace        = var.namespace
  create_namespace = true
  repository       = var.chart_repository == "" ? null : var.chart_repository
  chart            = var.chart_repository == "" ? "${local.charts}/karpenter" : "karpenter"
  version          = var.chart_version
  # The CRDs have a release of their own, which upgrades them.
  skip_crds = true
  wait      = true
  values    = concat([yamlencode(local.values)], var.values)

  depends_on = [helm_release.crds]
}

# Node class and pools are a chart, too: the same provider applies, compares and removes them, and a plan needs no cluster.
resource "helm_release" "node_pools" {
  name      = "karpenter-node-pools"
  namespace = var.namespace
  chart     = "${path.module}/node-pools"
  values    = [yamlencode({ objects = concat([local.node_class], local.node_pools) })]

  depends_on = [helm_release.karpenter]
}

# Destroyed before everything else, since it depends on all of it: while the controller still runs, every pool is deleted and
# its nodes drained; instances that are left are terminated.
resource "terraform_data" "drain" {
  input = {
    script     = file("${path.module}/drain.sh")
    cluster    = var.cluster_name
    timeout    = var.drain_timeout
    region     = var.region
    kubeconfig = var.kubeconfig
  }

  provisioner "local-exec" {
    when        = destroy
    interpreter = ["/bin/sh", "-c"]
    command     = self.input.script
    environment = {
      CLUSTER_NAME     = self.input.cluster
      DRAIN_TIMEOUT    = self.input.timeout
      DRAIN_REGION     = self.input.region
      DRAIN_KUBECONFIG = self.input.kubeconfig
    }
  }

  depends_on = [helm_release.node_pools]
}
