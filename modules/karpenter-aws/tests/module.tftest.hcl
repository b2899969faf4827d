# What the module makes, with an AWS provider that answers anything (AWS-245, AWS-246).

mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }
  mock_data "aws_region" {
    defaults = { name = "eu-west-1" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/mocked" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/mocked" }
  }
  mock_resource "aws_sqs_queue" {
    defaults = { arn = "arn:aws:sqs:eu-west-1:123456789012:shop", url = "https://sqs.eu-west-1.amazonaws.com/123456789012/shop" }
  }
}

# SEED-3-10, SEED-3-11 and SEED-3-12: the inputs of the document, and the outputs that it goes on with.
run "pod_identity" {
  variables {
    cluster_name                    = "shop"
    create_pod_identity_association = true
    namespace                       = "karpenter"
    service_account                 = "karpenter-sa"
    node_iam_role_additional_policies = {
      AmazonSSMManagedInstanceCore = "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
      Extra                        = "arn:aws:iam::123456789012:policy/extra"
    }
  }

  assert {
    condition     = output.queue_name == "shop" && output.node_iam_role_name == "KarpenterNodeRole-shop"
    error_message = "the outputs are not the names of queue and role"
  }
  assert {
    condition     = aws_eks_pod_identity_association.controller[0].service_account == "karpenter-sa" && aws_eks_pod_identity_association.controller[0].namespace == "karpenter"
    error_message = "the association is for another account"
  }
  assert {
    condition     = aws_eks_access_entry.node[0].type == "EC2_LINUX" && aws_eks_access_entry.node[0].principal_arn == aws_iam_role.node.arn
    error_message = "nodes could not join"
  }
  assert {
    condition     = jsondecode(aws_iam_role.controller.assume_role_policy).Statement[0].Principal.Service == "pods.eks.amazonaws.com" && length(jsondecode(aws_iam_role.controller.assume_role_policy).Statement) == 1
    error_message = "the role is not for Pod Identity alone"
  }
  assert {
    condition     = length(aws_iam_role_policy_attachment.node) == 5 && length(aws_iam_role_policy_attachment.controller) == 6
    error_message = "nodes have four policies and the extra one, the controller has six"
  }
  assert {
    condition     = aws_sqs_queue.interruption.message_retention_seconds == 300 && aws_sqs_queue.interruption.sqs_managed_sse_enabled
    error_message = "AWS-243: the queue keeps messages for 300 s and encrypts them"
  }
  assert {
    condition     = length(aws_cloudwatch_event_target.interruption) == 5
    error_message = "AWS-244: five rules have a target each"
  }
}

# SEED-0-18 with Terraform, and SEED-4-4: names with dots.
run "web_identity" {
  variables {
    cluster_name                    = "my-cluster.example.com"
    create_pod_identity_association = false
    create_access_entry             = false
    oidc_provider                   = "https://oidc.example.com/id/1"
    namespace                       = "kube-system"
  }

  assert {
    condition     = jsondecode(aws_iam_role.controller.assume_role_policy).Statement[0].Condition.StringEquals["oidc.example.com/id/1:sub"] == "system:serviceaccount:kube-system:karpenter"
    error_message = "the role is not for the service account"
  }
  assert {
    condition     = aws_sqs_queue.interruption.name == "my-cluster-example-com"
    error_message = "names of queues have no dots"
  }
  assert {
    condition     = length(aws_eks_pod_identity_association.controller) == 0 && length(aws_eks_access_entry.node) == 0
    error_message = "something was made that was turned off"
  }
}

run "nobody_may_take_the_role" {
  command = plan
  variables {
    cluster_name                    = "shop"
    create_pod_identity_association = false
  }
  expect_failures = [aws_iam_role.controller]
}

run "a_name_too_long_is_refused_before_anything_is_made" {
  command = plan
  variables {
    cluster_name = "a-cluster-with-a-name-so-long-that-no-role-can-hold-it"
  }
  expect_failures = [aws_iam_role.node, aws_iam_role.controller]
}
