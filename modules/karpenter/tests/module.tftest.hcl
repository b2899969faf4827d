# What the module installs, with a Helm provider that answers anything. Plans only: an apply is followed by a destroy, and that
# would run drain.sh on whatever cluster kubectl points at.

mock_provider "helm" {}

variables {
  queue_name             = "shop"
  cluster_name           = "shop"
  karpenter_role         = "KarpenterNodeRole-shop"
  private_subnet_ids     = ["subnet-1", "subnet-2"]
  node_security_group_id = "sg-1"
}

# SEED-3-16, SEED-3-17, SEED-3-26, SEED-3-27, SEED-3-28, SEED-3-30: the inputs and values of the document.
run "the_documents_values" {
  command = plan
  assert {
    condition     = output.values.serviceAccount.name == "karpenter-sa" && output.values.serviceAccount.create
    error_message = "the service account is another"
  }
  assert {
    condition     = output.values.settings.clusterName == "shop" && output.values.settings.interruptionQueue == "shop"
    error_message = "cluster or queue is another"
  }
  assert {
    condition     = output.values.controller.resources.requests.cpu == "500m" && output.values.controller.resources.limits.memory == "1Gi"
    error_message = "resources are not those of the document"
  }
  assert {
    condition     = output.values.nodeSelector == tomap({ workload-type = "system" }) && output.values.tolerations[0].effect == "NoSchedule"
    error_message = "the controller would not run on the system nodes"
  }
  assert {
    condition     = output.objects[0].spec.subnetSelectorTerms == [{ id = "subnet-1" }, { id = "subnet-2" }] && output.objects[0].spec.securityGroupSelectorTerms == [{ id = "sg-1" }]
    error_message = "subnets and groups are not selected by id"
  }
  assert {
    condition     = helm_release.karpenter.skip_crds && endswith(helm_release.crds.chart, "charts/karpenter-crd")
    error_message = "CRDs do not have a release of their own"
  }
}

# SEED-3-20, SEED-3-21: spot first, on-demand when there is none.
run "two_pools_in_order" {
  command = plan
  assert {
    condition     = toset(output.node_pools) == toset(["spot-pool", "ondemand-pool"])
    error_message = "the pools have other names"
  }
  assert {
    condition     = [for o in output.objects : o.spec.weight if o.metadata.name == "spot-pool"][0] > [for o in output.objects : o.spec.weight if o.metadata.name == "ondemand-pool"][0]
    error_message = "spot is not tried first"
  }
}

# SEED-3-14: without ids, by tag.
run "by_tag" {
  command = plan
  variables {
    private_subnet_ids     = []
    node_security_group_id = ""
  }
  assert {
    condition     = output.objects[0].spec.subnetSelectorTerms[0].tags["karpenter.sh/discovery"] == "shop" && output.objects[0].spec.securityGroupSelectorTerms[0].tags["karpenter.sh/discovery"] == "shop"
    error_message = "subnets and groups are not selected by tag"
  }
}

# SEED-3-18: charts from a registry.
run "from_a_registry" {
  command = plan
  variables {
    chart_repository = "oci://registry.example.com/charts"
    chart_version    = "1.8.1"
  }
  assert {
    condition     = helm_release.karpenter.repository == "oci://registry.example.com/charts" && helm_release.karpenter.chart == "karpenter" && helm_release.karpenter.version == "1.8.1"
    error_message = "the chart comes from elsewhere"
  }
}

# SEED-3-11: a class takes the name of a role.
run "an_arn_is_not_a_name" {
  command = plan
  variables {
    karpenter_role = "arn:aws:iam::123456789012:role/KarpenterNodeRole-shop"
  }
  expect_failures = [var.karpenter_role]
}
