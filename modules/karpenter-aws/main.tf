data "aws_partition" "current" {}
data "aws_region" "current" {}
data "aws_caller_identity" "current" {}

locals {
  queue_name    = coalesce(var.queue_name, replace(var.cluster_name, ".", "-"))
  iam_role_name = coalesce(var.iam_role_name, "KarpenterControllerRole-${var.cluster_name}")
  node_role     = coalesce(var.node_iam_role_name, "KarpenterNodeRole-${var.cluster_name}")
  policies      = "${path.module}/policies"

  values = {
    partition     = data.aws_partition.current.partition
    region        = data.aws_region.current.name
    account_id    = data.aws_caller_identity.current.account_id
    cluster_name  = var.cluster_name
    node_role_arn = aws_iam_role.node.arn
    queue_arn     = aws_sqs_queue.interruption.arn
  }

  # Apart from the others, so that a plan can show the trust policy.
  trust_values = {
    partition       = data.aws_partition.current.partition
    account_id      = data.aws_caller_identity.current.account_id
    oidc_provider   = trimprefix(var.oidc_provider, "https://")
    namespace       = var.namespace
    service_account = var.service_account
  }

  # File, and the name before the cluster's.
  controller_policies = {
    node-lifecycle     = "KarpenterControllerNodeLifecyclePolicy"
    iam-integration    = "KarpenterControllerIAMIntegrationPolicy"
    eks-integration    = "KarpenterControllerEKSIntegrationPolicy"
    interruption       = "KarpenterControllerInterruptionPolicy"
    zonal-shift        = "KarpenterControllerZonalShiftPolicy"
    resource-discovery = "KarpenterControllerResourceDiscoveryPolicy"
  }

  node_policies = merge(
    { for name in jsondecode(file("${local.policies}/node-role.json")).managedPolicies :
    name => "arn:${data.aws_partition.current.partition}:iam::aws:policy/${name}" },
    var.node_iam_role_additional_policies,
  )

  trust = concat(
    var.create_pod_identity_association ? [file("${local.policies}/trust-pod-identity.json")] : [],
    var.oidc_provider != "" ? [templatefile("${local.policies}/trust-irsa.json", local.trust_values)] : [],
  )
}

# Nodes.

resource "aws_iam_role" "node" {
  name               = local.node_role
  assume_role_policy = templatefile("${local.policies}/trust-node.json", { url_suffix = data.aws_partition.current.dns_suffix })
  tags               = var.tags

  lifecycle {
    precondition {
      condition     = length(local.node_role) <= 64
      error_message = "The name of the nodes' role, ${local.node_role}, has more than 64 characters; set node_iam_role_name."
    }
  }
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = local.node_policies

  role       = aws_iam_role.node.name
  policy_arn = each.value
}

resource "aws_eks_access_entry" "node" {
  count = var.create_access_entry ? 1 : 0

  cluster_name  = var.cluster_name
  principal_arn = aws_iam_role.node.arn
  type          = var.access_entry_type
  tags          = var.tags
}

# The controller.

resource "aws_iam_role" "controller" {
  name = local.iam_role_name
  assume_role_policy = jsonencode({
    Version   = "2012-10-17"
    Statement = flatten([for document in local.trust : jsondecode(document).Statement])
  })
  tags = var.tags

  lifecycle {
    precondition {
      condition     = length(local.iam_role_name) <= 64
      error_message = "The name of the controller's role, ${local.iam_role_name}, has more than 64 characters; set iam_role_name."
    }
    precondition {
      condition     = length(local.trust) > 0
      error_message = "Nobody could take the controller's role: set create_pod_identity_association or oidc_provider."
    }
  }
}

resource "aws_iam_policy" "controller" {
  for_each = local.controller_policies

  name   = "${each.value}-${var.cluster_name}"
  policy = templatefile("${local.policies}/${each.key}.json", local.values)
  tags   = var.tags
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each = local.controller_policies

  role       = aws_iam_role.controller.name
  policy_arn = aws_iam_policy.controller[each.key].arn
}

resource "aws_eks_pod_identity_association" "controller" {
  count = var.create_pod_identity_association ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.controller.arn
  tags            = var.tags
}

# Interruptions.

resource "aws_sqs_queue" "interruption" {
  name                      = local.queue_name
  message_retention_seconds = 300
  sqs_managed_sse_enabled   = true
  tags                      = var.tags
}

resource "aws_sqs_queue_policy" "interruption" {
  queue_url = aws_sqs_queue.interruption.url
  policy    = templatefile("${local.policies}/queue-policy.json", { queue_arn = aws_sqs_queue.interruption.arn })
}

resource "aws_cloudwatch_event_rule" "interruption" {
  for_each = jsondecode(file("${local.policies}/event-rules.json"))

  name_prefix   = "Karpenter${substr(each.key, 0, 24)}-"
  description   = "${each.key} for Karpenter in ${var.cluster_name}"
  event_pattern = jsonencode(each.value)
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "interruption" {
  for_each = aws_cloudwatch_event_rule.interruption

  rule      = each.value.name
  target_id = "KarpenterInterruptionQueueTarget"
  arn       = aws_sqs_queue.interruption.arn
}
