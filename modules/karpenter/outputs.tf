output "values" {
  description = "The values that the chart is given, before those of var.values."
  value       = local.values
}

output "node_pools" {
  description = "Names of the NodePools."
  value       = keys(var.node_pools)
}

output "objects" {
  description = "Node class and pools as they are applied."
  value       = concat([local.node_class], local.node_pools)
}
