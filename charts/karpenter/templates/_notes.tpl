{{- define "karpenter.notes" -}}
{{- $aliases := include "karpenter.aliases" . | fromYaml }}
{{ .Chart.Name }} {{ .Chart.AppVersion }} is installed as {{ include "karpenter.fullname" . }} in {{ .Release.Namespace }}.

  kubectl get pods -n {{ .Release.Namespace }} -l app.kubernetes.io/instance={{ .Release.Name }}
{{- if $aliases.used }}

Values of older charts are in use; they work, and have other names now:
{{- range $aliases.used }}
  - {{ . }}
{{- end }}
{{- end }}
{{- end }}
