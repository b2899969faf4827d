{{- define "karpenter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "karpenter.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "karpenter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "karpenter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "karpenter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "karpenter.selectorLabels" . }}
{{- with .Chart.AppVersion }}
app.kubernetes.io/version: {{ . | quote }}
{{- end }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Of the object itself and then, in `extra`, of its own. */}}
{{- define "karpenter.annotations" -}}
{{- $all := merge (dict) (default (dict) .extra) (default (dict) .root.Values.additionalAnnotations) }}
{{- with $all -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "karpenter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "karpenter.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- /* Where values of older charts are used, the account is one that was made beforehand under the name of those charts. */}}
{{- $old := or (include "karpenter.style" .) .Values.clusterName .Values.controller.clusterName (default (dict) .Values.settings.aws).clusterName }}
{{- default (ternary "karpenter" "default" (not (empty $old))) .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "karpenter.image" -}}
{{- $tag := default .Chart.AppVersion .Values.controller.image.tag }}
{{- if .Values.controller.image.digest }}
{{- printf "%s:%s@%s" .Values.controller.image.repository $tag .Values.controller.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.controller.image.repository $tag }}
{{- end }}
{{- end }}

{{/* Fills the labels of our pods in where a term says nothing about which pods it means. */}}
{{- define "karpenter.withSelector" -}}
{{- $term := deepCopy .term }}
{{- if not (hasKey $term "labelSelector") }}
{{- $_ := set $term "labelSelector" (dict "matchLabels" (include "karpenter.selectorLabels" .root | fromYaml)) }}
{{- end }}
{{- toYaml $term }}
{{- end }}

{{- define "karpenter.affinity" -}}
{{- $root := .root }}
{{- $affinity := deepCopy .affinity }}
{{- range $kind := list "podAffinity" "podAntiAffinity" }}
{{- with (index $affinity $kind) }}
{{- $filled := deepCopy . }}
{{- if .requiredDuringSchedulingIgnoredDuringExecution }}
{{- $terms := list }}
{{- range .requiredDuringSchedulingIgnoredDuringExecution }}
{{- $terms = append $terms (include "karpenter.withSelector" (dict "term" . "root" $root) | fromYaml) }}
{{- end }}
{{- $_ := set $filled "requiredDuringSchedulingIgnoredDuringExecution" $terms }}
{{- end }}
{{- if .preferredDuringSchedulingIgnoredDuringExecution }}
{{- $terms := list }}
{{- range .preferredDuringSchedulingIgnoredDuringExecution }}
{{- $term := deepCopy . }}
{{- $_ := set $term "podAffinityTerm" (include "karpenter.withSelector" (dict "term" .podAffinityTerm "root" $root) | fromYaml) }}
{{- $terms = append $terms $term }}
{{- end }}
{{- $_ := set $filled "preferredDuringSchedulingIgnoredDuringExecution" $terms }}
{{- end }}
{{- $_ := set $affinity $kind $filled }}
{{- end }}
{{- end }}
{{- toYaml $affinity }}
{{- end }}

{{- define "karpenter.featureGates" -}}
{{- $gates := .Values.settings.featureGates }}
{{- printf "NodeRepair=%t" $gates.nodeRepair }}
{{- printf ",ReservedCapacity=%t" $gates.reservedCapacity }}
{{- printf ",SpotToSpotConsolidation=%t" $gates.spotToSpotConsolidation }}
{{- printf ",NodeOverlay=%t" $gates.nodeOverlay }}
{{- printf ",StaticCapacity=%t" $gates.staticCapacity }}
{{- printf ",CapacityBuffer=%t" $gates.capacityBuffer }}
{{- printf ",TerminateFirstDrift=%t" $gates.terminateFirstDrift }}
{{- printf ",TerminateFirstRepair=%t" $gates.terminateFirstRepair }}
{{- printf ",PodDeletionCostManagement=%t" $gates.podDeletionCostManagement }}
{{- end }}

{{/* The Deployment of the controller, and with it whoever asks for it by name. */}}
{{- define "karpenter.deploymentName" -}}
{{- include "karpenter.fullname" . }}{{ if eq (include "karpenter.style" .) "0.5" }}-controller{{ end }}
{{- end }}

{{- define "karpenter.containerName" -}}
{{- if and (eq (include "karpenter.style" .) "0.5") (eq .Values.controller.containerName "controller") }}manager{{ else }}{{ .Values.controller.containerName }}{{ end }}
{{- end }}

{{/* What older charts called a webhook. There is none: it says when Provisioners can be made, which is what was waited for. */}}
{{- define "karpenter.webhookContainer" -}}
name: webhook
{{- with .Values.controller.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
image: {{ include "karpenter.image" . }}
imagePullPolicy: {{ .Values.imagePullPolicy }}
args: ["webhook"]
ports:
  - name: https-webhook
    containerPort: 8443
    protocol: TCP
livenessProbe:
  initialDelaySeconds: 30
  timeoutSeconds: 30
  httpGet:
    path: /healthz
    port: https-webhook
readinessProbe:
  timeoutSeconds: 30
  httpGet:
    path: /readyz
    port: https-webhook
resources:
  {{- toYaml (default (dict "requests" (dict "cpu" "100m" "memory" "50Mi") "limits" (dict "cpu" "100m" "memory" "50Mi")) (default (dict) .Values.webhook).resources) | nindent 2 }}
{{- end }}
