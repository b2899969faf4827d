#!/bin/sh
# Removes every node of the autoscaler before the autoscaler goes: CLUSTER_NAME, DRAIN_TIMEOUT, DRAIN_REGION, DRAIN_KUBECONFIG.
# All pools are deleted, not only those of this module: whoever made them, nobody would remove their nodes later.
set -u
[ -n "${CLUSTER_NAME:-}" ] || { echo 'drain: CLUSTER_NAME is not set' >&2; exit 1; }
for tool in kubectl aws; do
  command -v "$tool" >/dev/null || { echo "drain: $tool is missing; without it instances would be left behind" >&2; exit 1; }
done
[ -z "${DRAIN_REGION:-}" ] || export AWS_REGION="$DRAIN_REGION"
[ -z "${DRAIN_KUBECONFIG:-}" ] || export KUBECONFIG="$DRAIN_KUBECONFIG"

# The controller drains and terminates what belongs to a deleted pool. Pools and claims are waited for together.
timeout=${DRAIN_TIMEOUT:-5m}
kubectl delete nodepools.karpenter.sh --all --ignore-not-found=true --wait=false || echo 'drain: pools could not be deleted' >&2
kubectl wait nodeclaims.karpenter.sh --all --for=delete --timeout="$timeout" || echo "drain: not all nodes were gone after $timeout" >&2

# What is left, of this cluster only.
left=$(aws ec2 describe-instances \
  --filters "Name=tag:kubernetes.io/cluster/$CLUSTER_NAME,Values=owned" 'Name=tag-key,Values=karpenter.sh/nodepool' \
    'Name=instance-state-name,Values=pending,running,stopping,stopped' \
  --query 'Reservations[].Instances[].InstanceId' --output text) || { echo 'drain: instances could not be listed' >&2; exit 1; }
[ "$left" != None ] || left=
if [ -n "$left" ]; then
  echo "drain: terminating $left"
  # shellcheck disable=SC2086 # a list of ids
  aws ec2 terminate-instances --instance-ids $left >/dev/null && aws ec2 wait instance-terminated --instance-ids $left || exit 1
fi
kubectl delete ec2nodeclasses.karpenter.k8s.aws --all --ignore-not-found=true --timeout="$timeout" || echo 'drain: node classes are left' >&2
