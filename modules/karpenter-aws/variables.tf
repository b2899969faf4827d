variable "cluster_name" {
  description = "Name of the EKS cluster."
  type        = string

  validation {
    condition     = length(var.cluster_name) > 0 && length(var.cluster_name) <= 100
    error_message = "cluster_name must have 1 to 100 characters."
  }
}

variable "namespace" {
  description = "Namespace that the controller runs in. The chart must be installed into the same one."
  type        = string
  default     = "karpenter"
}

variable "service_account" {
  description = "Service account that the controller runs as. The chart must be given the same one."
  type        = string
  default     = "karpenter"
}

variable "create_pod_identity_association" {
  description = "Give the service account the controller's role with EKS Pod Identity. The add-on eks-pod-identity-agent must be installed."
  type        = bool
  default     = true
}

variable "oidc_provider" {
  description = "Issuer of the cluster's tokens, with or without https://. When it is given, the service account may take the role by itself (IRSA)."
  type        = string
  default     = ""
}

variable "iam_role_name" {
  description = "Name of the controller's role; KarpenterControllerRole-<cluster> by default."
  type        = string
  default     = null
}

variable "node_iam_role_name" {
  description = "Name of the nodes' role; KarpenterNodeRole-<cluster> by default."
  type        = string
  default     = null
}

variable "node_iam_role_additional_policies" {
  description = "Policies for nodes beyond those that they need, as {name = ARN}."
  type        = map(string)
  default     = {}
}

variable "create_access_entry" {
  description = "Let nodes with the nodes' role join the cluster by an access entry. Turn it off where aws-auth maps the role."
  type        = bool
  default     = true
}

variable "access_entry_type" {
  description = "Type of the access entry: EC2_LINUX, EC2_WINDOWS or STANDARD."
  type        = string
  default     = "EC2_LINUX"

  validation {
    condition     = contains(["EC2_LINUX", "EC2_WINDOWS", "STANDARD"], var.access_entry_type)
    error_message = "access_entry_type must be EC2_LINUX, EC2_WINDOWS or STANDARD."
  }
}

variable "queue_name" {
  description = "Name of the queue of interruptions; the cluster's by default, with - in the place of dots."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags for everything that is made."
  type        = map(string)
  default     = {}
}
