# A cluster that exists gets the autoscaler: a small group of nodes for the controller itself, what it needs in the account, and
# the charts with two pools. Variables and values are those that docs/guides/terraform.md goes through.

terraform {
  required_version = ">= 1.7"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.79"
    }
    helm = {
      source  = "hashicorp/helm"
      version = ">= 2.12"
    }
  }
}

# The controller must not run on nodes that it may remove.
resource "aws_eks_node_group" "system" {
  count = var.create_system_node_group ? 1 : 0

  cluster_name    = var.cluster_name
  node_group_name = "karpenter_node_group"
  node_role_arn   = module.karpenter_infra.node_iam_role_arn
  subnet_ids      = var.private_subnet_ids
  instance_types  = ["c7i-flex.large"]
  capacity_type   = "ON_DEMAND"
  labels          = { workload-type = "system" }

  scaling_config {
    min_size     = 1
    max_size     = 2
    desired_size = 1
  }

  taint {
    key    = "workload-type"
    value  = "system"
    effect = "NO_SCHEDULE"
  }
}

resource "aws_ec2_tag" "discovery" {
  for_each = var.tag_for_discovery ? toset(concat(var.private_subnet_ids, [var.node_security_group_id])) : toset([])

  resource_id = each.value
  key         = "karpenter.sh/discovery"
  value       = var.cluster_name
}

module "karpenter_infra" {
  source = "../../modules/karpenter-aws"

  cluster_name                    = var.cluster_name
  create_pod_identity_association = var.create_pod_identity_association
  create_access_entry             = var.create_access_entry
  oidc_provider                   = var.oidc_provider
  namespace                       = "karpenter"
  service_account                 = "karpenter-sa"

  node_iam_role_additional_policies = {
    AmazonSSMManagedInstanceCore = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
  }
}

module "karpenter_chart_and_crds" {
  source = "../../modules/karpenter"

  queue_name             = module.karpenter_infra.queue_name
  cluster_name           = var.cluster_name
  karpenter_role         = module.karpenter_infra.node_iam_role_name
  private_subnet_ids     = var.private_subnet_ids
  node_security_group_id = var.node_security_group_id
  namespace              = module.karpenter_infra.namespace
  service_account        = module.karpenter_infra.service_account
  # The system group has one node.
  replicas = 1

  service_account_role_arn = var.create_pod_identity_association ? "" : module.karpenter_infra.iam_role_arn

  depends_on = [module.karpenter_infra, aws_eks_node_group.system, aws_ec2_tag.discovery]
}
