variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
}

variable "queue_name" {
  description = "Name of the queue of interruptions; empty means that interruptions are not handled."
  type        = string
  default     = ""
}

variable "karpenter_role" {
  description = "Name (not the ARN) of the role of nodes."
  type        = string

  validation {
    condition     = !startswith(var.karpenter_role, "arn:")
    error_message = "karpenter_role is the name of the role, not its ARN."
  }
}

variable "private_subnet_ids" {
  description = "Subnets that nodes are launched in. Empty: those tagged karpenter.sh/discovery=<cluster>."
  type        = list(string)
  default     = []
}

variable "node_security_group_id" {
  description = "Security group of nodes. Empty: those tagged karpenter.sh/discovery=<cluster>."
  type        = string
  default     = ""
}

variable "namespace" {
  description = "Namespace of the controller; that of the Pod Identity association."
  type        = string
  default     = "karpenter"
}

variable "service_account" {
  description = "Service account of the controller; that of the Pod Identity association."
  type        = string
  default     = "karpenter-sa"
}

variable "service_account_role_arn" {
  description = "Role for the service account's annotation (IRSA). Empty with Pod Identity."
  type        = string
  default     = ""
}

variable "chart_repository" {
  description = "Where the charts karpenter and karpenter-crd are, such as oci://registry.example.com/charts. Empty: those beside this module."
  type        = string
  default     = ""
}

variable "chart_version" {
  description = "Version of the charts; the newest by default."
  type        = string
  default     = null
}

variable "replicas" {
  description = "Replicas of the controller. Two need two nodes to run on; with a system node group of one, take 1."
  type        = number
  default     = 2
}

variable "node_selector" {
  description = "Labels of the nodes that the controller runs on. They must not be nodes of its own."
  type        = map(string)
  default     = { workload-type = "system" }
}

variable "tolerations" {
  description = "Taints that the controller tolerates."
  type        = list(map(string))
  default     = [{ key = "workload-type", operator = "Equal", value = "system", effect = "NoSchedule" }]
}

variable "resources" {
  description = "Requests and limits of the controller."
  type        = map(map(string))
  default = {
    requests = { cpu = "500m", memory = "1Gi" }
    limits   = { cpu = "1", memory = "1Gi" }
  }
}

variable "values" {
  description = "More values for the chart, as YAML; later ones win."
  type        = list(string)
  default     = []
}

variable "ami_alias" {
  description = "Machine image of nodes. Pin a version for production."
  type        = string
  default     = "al2023@latest"
}

variable "node_class" {
  description = "More of the EC2NodeClass's spec, such as {tags = {...}}."
  type        = any
  default     = {}
}

variable "node_pools" {
  description = "NodePools, by name. Those of a higher weight are tried first."
  type = map(object({
    capacity_types    = list(string)
    weight            = optional(number)
    instance_category = optional(list(string), ["c", "m", "r"])
    architectures     = optional(list(string), ["amd64"])
    cpu_limit         = optional(string, "1000")
    expire_after      = optional(string, "720h")
    consolidate_after = optional(string, "30s")
    labels            = optional(map(string), {})
    taints            = optional(list(map(string)), [])
  }))
  default = {
    spot-pool     = { capacity_types = ["spot"], weight = 50 }
    ondemand-pool = { capacity_types = ["on-demand"], weight = 10 }
  }
}

variable "drain_timeout" {
  description = "How long `terraform destroy` waits for nodes to drain before it terminates what is left."
  type        = string
  default     = "5m"
}

variable "region" {
  description = "Region of the cluster, for the clean-up on destroy. Empty: that of the AWS command line."
  type        = string
  default     = ""
}

variable "kubeconfig" {
  description = "Kubeconfig for the clean-up on destroy. Empty: that of kubectl."
  type        = string
  default     = ""
}
