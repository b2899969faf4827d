# The whole example, with providers that answer anything (SEED-3-8, SEED-3-36).

mock_provider "helm" {}
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

run "everything_at_once" {
  command = plan
  variables {
    cluster_name           = "shop"
    private_subnet_ids     = ["subnet-1", "subnet-2"]
    node_security_group_id = "sg-1"
  }

  assert {
    condition     = aws_eks_node_group.system[0].instance_types == tolist(["c7i-flex.large"]) && aws_eks_node_group.system[0].capacity_type == "ON_DEMAND"
    error_message = "the system group is not that of the document"
  }
  assert {
    condition     = alltrue([for t in aws_eks_node_group.system[0].taint : t.key == "workload-type" && t.effect == "NO_SCHEDULE"])
    error_message = "other pods would land on the system nodes"
  }
  assert {
    condition     = length(aws_ec2_tag.discovery) == 3
    error_message = "subnets and group are not tagged"
  }
  assert {
    condition     = output.queue_name == "shop" && output.node_iam_role_name == "KarpenterNodeRole-shop"
    error_message = "the outputs are others"
  }
}
