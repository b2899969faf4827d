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

{{- $affinity := $values.affinity }}
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

{{- range $name := list "settings.aws.defaultInstanceProfile" "aws.defaultInstanceProfile" }}
{{- $profile := ternary $aws.defaultInstanceProfile $old.defaultInstanceProfile (hasPrefix "settings" $name) }}
{{- if $profile }}
{{- $used = append $used (printf "%s (ignored: name it in spec.instanceProfile of an EC2NodeClass)" $name) }}
{{- end }}
{{- end }}
{{- $resolved := dict "nodeSelector" $nodeSelector "tolerations" $tolerations "affinity" $affinity "logLevel" $logLevel "used" $used }}
{{- if not (kindIs "invalid" $replicas) }}
{{- $_ := set $resolved "replicas" $replicas }}
{{- end }}
{{- toYaml (merge $resolved $found) }}
{{- end }}
