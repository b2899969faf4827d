{{/*
Values by the names that older charts had for them, as YAML: what is in force of each, and `used`, the old names that count.
A value of the present name wins; where it has a default, a value other than that one.
*/}}
{{- define "karpenter.aliases" -}}
{{- $values := .Values }}
{{- $controller := default (dict) $values.controller }}
{{- $aws := default (dict) (default (dict) $values.settings).aws }}
{{- $old := default (dict) $values.aws }}
{{- $used := list }}

{{- $found := dict }}
{{- range $new, $names := dict
  "clusterName" (list (list "settings.aws.clusterName" $aws.clusterName) (list "controller.clusterName" $controller.clusterName) (list "clusterName" $values.clusterName))
  "clusterEndpoint" (list (list "settings.aws.clusterEndpoint" $aws.clusterEndpoint) (list "controller.clusterEndpoint" $controller.clusterEndpoint) (list "clusterEndpoint" $values.clusterEndpoint))
  "defaultInstanceProfile" (list (list "settings.aws.defaultInstanceProfile" $aws.defaultInstanceProfile) (list "aws.defaultInstanceProfile" $old.defaultInstanceProfile))
  "interruptionQueue" (list (list "settings.aws.interruptionQueueName" $aws.interruptionQueueName))
}}
{{- $value := index $values.settings $new }}
{{- range $pair := $names }}
{{- if and (not $value) (index $pair 1) }}
{{- $value = index $pair 1 }}
{{- $used = append $used (index $pair 0) }}
{{- end }}
{{- end }}
{{- /* `--output json` of the AWS command line leaves its quotes. */}}
{{- $_ := set $found $new (toString (default "" $value) | trimAll "\"") }}
{{- end }}

{{- $nodeSelector := deepCopy (default (dict) $values.nodeSelector) }}
{{- with $controller.nodeSelector }}
{{- $nodeSelector = merge $nodeSelector . }}
{{- $used = append $used "controller.nodeSelector" }}
{{- end }}

{{- $tolerations := $values.tolerations }}
{{- if and $controller.tolerations (eq (toJson $tolerations) "[{\"key\":\"CriticalAddonsOnly\",\"operator\":\"Exists\"}]") }}
{{- $tolerations = $controller.tolerations }}
{{- $used = append $used "controller.tolerations" }}
{{- end }}

{{- $style := include "karpenter.style" . }}
{{- $affinity := $values.affinity }}
{{- if and (eq $style "0.5") (eq (toJson $affinity) (include "karpenter.usualAffinity" .)) }}
{{- /* Its one node has room for both Deployments, and nodes of old say who made them. */}}
{{- $terms := list (dict "matchExpressions" (list (dict "key" "karpenter.sh/provisioner-name" "operator" "DoesNotExist") (dict "key" "karpenter.sh/nodepool" "operator" "DoesNotExist"))) }}
{{- $affinity = dict "nodeAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms)) }}
{{- end }}
{{- with $controller.affinity }}
{{- /* What is said of pods and nodes is taken part by part. */}}
{{- $affinity = mergeOverwrite (deepCopy (default (dict) $affinity)) . }}
{{- $used = append $used "controller.affinity" }}
{{- end }}

{{- $replicas := $values.replicas }}
{{- if and (kindIs "invalid" $replicas) (not (kindIs "invalid" $controller.replicas)) }}
{{- $replicas = $controller.replicas }}
{{- $used = append $used "controller.replicas" }}
{{- end }}

{{- $logLevel := $values.logLevel }}
{{- $levels := list (list "controller.logLevel" $controller.logLevel) }}
{{- with $values.logConfig }}
{{- $levels = append $levels (list "logConfig.logLevel.controller" (default (dict) .logLevel).controller) }}
{{- end }}
{{- range $controller.env }}
{{- if eq .name "LOGLEVEL" }}
{{- $levels = append $levels (list "controller.env LOGLEVEL" .value) }}
{{- end }}
{{- end }}
{{- range $pair := $levels }}
{{- if and (index $pair 1) (has $logLevel (list "info" "")) }}
{{- $logLevel = index $pair 1 }}
{{- $used = append $used (index $pair 0) }}
{{- end }}
{{- end }}

{{- $logFormat := $values.logFormat }}
{{- if not $logFormat }}
{{- $logFormat = ternary "legacy" "json" (eq $style "0.5") }}
{{- end }}
{{- $resolved := dict "logFormat" $logFormat "nodeSelector" $nodeSelector "tolerations" $tolerations "affinity" $affinity "logLevel" $logLevel "used" $used }}
{{- if not (kindIs "invalid" $replicas) }}
{{- $_ := set $resolved "replicas" $replicas }}
{{- end }}
{{- toYaml (merge $resolved $found) }}
{{- end }}

{{/*
How charts of old named and cut their objects (AWS-259): `0.5` or `0.16` where their values are in use and none of the present name
of the cluster is, else nothing.
*/}}
{{- define "karpenter.style" -}}
{{- $values := .Values }}
{{- $controller := default (dict) $values.controller }}
{{- if $values.legacy.style }}
{{- if ne $values.legacy.style "none" }}{{ $values.legacy.style }}{{ end }}
{{- else if or $values.settings.clusterName (ne $values.settings.cloudProvider "aws") }}
{{- else if or $controller.clusterName $controller.clusterEndpoint $values.webhook }}0.5
{{- else if or $values.clusterName $values.clusterEndpoint $values.aws }}0.16
{{- end }}
{{- end }}

{{/* Whether Provisioners and AWSNodeTemplates are served: where somebody says so, or has values of their time. */}}
{{- define "karpenter.legacy" -}}
{{- if ne .Values.settings.cloudProvider "aws" }}
{{- else if kindIs "bool" .Values.legacy.enabled }}{{ ternary "yes" "" .Values.legacy.enabled }}
{{- else if or (include "karpenter.style" .) .Values.settings.aws }}yes
{{- else if and (not .Values.settings.clusterName) (or .Values.clusterName (default (dict) .Values.controller).clusterName) }}yes
{{- end }}
{{- end }}

{{/* Whether this release makes a definition of old: where they are served, and nobody else has made it. */}}
{{- define "karpenter.definesLegacy" -}}
{{- if include "karpenter.legacy" .root }}
{{- $found := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" .name }}
{{- $owner := get (default (dict) (dig "metadata" "annotations" (dict) (default (dict) $found))) "meta.helm.sh/release-name" }}
{{- if or (not $found) (eq $owner .root.Release.Name) }}yes{{ end }}
{{- end }}
{{- end }}

{{/* The chart's own, in the form that it is compared in. */}}
{{- define "karpenter.usualAffinity" -}}
{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"karpenter.sh/nodepool","operator":"DoesNotExist"}]}]}},"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"kubernetes.io/hostname"}]}}
{{- end }}
