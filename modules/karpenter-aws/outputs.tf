output "queue_name" {
  description = "Name of the queue of interruptions, for settings.interruptionQueue."
  value       = aws_sqs_queue.interruption.name
}

output "queue_arn" {
  description = "ARN of the queue of interruptions."
  value       = aws_sqs_queue.interruption.arn
}

output "node_iam_role_name" {
  description = "Name of the nodes' role, for spec.role of an EC2NodeClass."
  value       = aws_iam_role.node.name
}

output "node_iam_role_arn" {
  description = "ARN of the nodes' role, for aws-auth."
  value       = aws_iam_role.node.arn
}

output "iam_role_arn" {
  description = "ARN of the controller's role, for the service account's annotation where no Pod Identity is used."
  value       = aws_iam_role.controller.arn
}

output "namespace" {
  description = "Namespace that the controller must run in."
  value       = var.namespace
}

output "service_account" {
  description = "Service account that the controller must run as."
  value       = var.service_account
}

output "controller_policies" {
  description = "Documents of the controller's policies."
  value       = { for name, policy in aws_iam_policy.controller : name => policy.policy }
}
