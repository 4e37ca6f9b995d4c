{{- define "penstock.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "penstock.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := include "penstock.name" . }}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* Never to change: a selector cannot be upgraded. */ -}}
{{- define "penstock.selectorLabels" -}}
app.kubernetes.io/name: {{ include "penstock.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "penstock.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "penstock.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "penstock.serviceAccountName" -}}
{{- ternary (default (include "penstock.fullname" .) .Values.serviceAccount.name) (default "default" .Values.serviceAccount.name) .Values.serviceAccount.create }}
{{- end }}

{{- /* (dict "root" $ "suffix" "-trends") */ -}}
{{- define "penstock.image" -}}
{{- $image := .root.Values.image -}}
{{- $repository := printf "%s/%s" $image.registry $image.repository | trimPrefix "/" -}}
{{- if and $image.digest (not .suffix) -}}
{{ printf "%s@%s" $repository $image.digest }}
{{- else -}}
{{ printf "%s:%s%s" $repository (default .root.Chart.AppVersion $image.tag) (default "" .suffix) }}
{{- end -}}
{{- end }}

{{- define "penstock.hasWeb" -}}
{{- if or .Values.web.config .Values.web.existingSecret }}yes{{ end }}
{{- end }}

{{- define "penstock.scheme" -}}
{{- ternary "HTTPS" "HTTP" (hasKey .Values.web.config "tls_server_config") }}
{{- end }}

{{- define "penstock.probe" -}}
httpGet: {path: {{ .path }}, port: probes}
{{ toYaml .timing }}
{{- end }}
