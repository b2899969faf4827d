output "queue_name" {
  description = "Queue of interruptions."
  value       = module.karpenter_infra.queue_name
}

output "node_iam_role_name" {
  description = "Role of nodes."
  value       = module.karpenter_infra.node_iam_role_name
}
