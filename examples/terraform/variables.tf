variable "cluster_name" {
  description = "Name of the EKS cluster."
  type        = string
}

variable "private_subnet_ids" {
  description = "Subnets that nodes are launched in."
  type        = list(string)
}

variable "node_security_group_id" {
  description = "Security group of nodes."
  type        = string
}

variable "create_system_node_group" {
  description = "Make a node group that the controller runs on."
  type        = bool
  default     = true
}

variable "tag_for_discovery" {
  description = "Tag subnets and group with karpenter.sh/discovery, for node classes that select by it."
  type        = bool
  default     = true
}

variable "create_pod_identity_association" {
  description = "Use EKS Pod Identity; otherwise set oidc_provider."
  type        = bool
  default     = true
}

variable "create_access_entry" {
  description = "Let nodes join by an access entry."
  type        = bool
  default     = true
}

variable "oidc_provider" {
  description = "Issuer of the cluster's tokens, where no Pod Identity is used."
  type        = string
  default     = ""
}
