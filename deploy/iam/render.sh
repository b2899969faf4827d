#!/usr/bin/env bash
# Prints a document of this folder with its values put in: render.sh controller/node-lifecycle
#
#   CLUSTER_NAME, AWS_REGION, AWS_ACCOUNT_ID   must be set
#   AWS_PARTITION        aws by default
#   NODE_ROLE            KarpenterNodeRole-$CLUSTER_NAME by default
#   QUEUE_NAME           $CLUSTER_NAME by default
#   OIDC_ENDPOINT        the cluster's issuer, with or without https://, for trust-irsa
#   KARPENTER_NAMESPACE, SERVICE_ACCOUNT       kube-system and karpenter by default, for trust-irsa
set -euo pipefail

[ $# -eq 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0" >&2; exit 2; }
file=$(cd "$(dirname "$0")" && pwd)/${1%.json}.json
[ -e "$file" ] || { echo "render.sh: there is no $file" >&2; exit 1; }
for name in CLUSTER_NAME AWS_REGION AWS_ACCOUNT_ID; do
  [ -n "${!name:-}" ] || { echo "render.sh: $name is not set" >&2; exit 1; }
done
partition=${AWS_PARTITION:-aws}
suffix=amazonaws.com
[ "$partition" = aws-cn ] && suffix=amazonaws.com.cn
issuer=${OIDC_ENDPOINT:-}
if grep -q oidc_provider "$file" && [ -z "$issuer" ]; then
  echo 'render.sh: OIDC_ENDPOINT is not set' >&2
  exit 1
fi
sed -e "s|\${partition}|$partition|g" -e "s|\${region}|$AWS_REGION|g" -e "s|\${account_id}|$AWS_ACCOUNT_ID|g" \
  -e "s|\${cluster_name}|$CLUSTER_NAME|g" -e "s|\${url_suffix}|$suffix|g" -e "s|\${oidc_provider}|${issuer#*//}|g" \
  -e "s|\${namespace}|${KARPENTER_NAMESPACE:-kube-system}|g" -e "s|\${service_account}|${SERVICE_ACCOUNT:-karpenter}|g" \
  -e "s|\${node_role_arn}|arn:$partition:iam::$AWS_ACCOUNT_ID:role/${NODE_ROLE:-KarpenterNodeRole-$CLUSTER_NAME}|g" \
  -e "s|\${queue_arn}|arn:$partition:sqs:$AWS_REGION:$AWS_ACCOUNT_ID:${QUEUE_NAME:-$CLUSTER_NAME}|g" "$file"
