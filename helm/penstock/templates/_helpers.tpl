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
{{- include "penstock.strings" .Values.commonLabels }}
{{- end }}

{{- /* Labels, annotations: Kubernetes refuses numbers and booleans in them. */ -}}
{{- define "penstock.strings" -}}
{{- range $name, $value := . }}
{{ $name }}: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}
{{- end }}
{{- end }}

{{- define "penstock.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- /* Names of runs are made of it: of a CronJob it has at most 52 characters, of a ScheduledSparkApplication 43, as the label of a run. */ -}}
{{- define "penstock.trendsName" -}}
{{- printf "%s-trends" (include "penstock.fullname" . | trunc (ternary 36 45 (eq .Values.trends.mode "sparkoperator")) | trimSuffix "-") }}
{{- end }}

{{- /* (dict "root" $ "context" .Values.podSecurityContext): OpenShift gives each namespace users of its own. */ -}}
{{- define "penstock.securityContext" -}}
{{- ternary (omit .context "runAsUser" "runAsGroup" "fsGroup") .context (not (empty (include "penstock.openshift" .root))) | toYaml }}
{{- end }}

{{- define "penstock.openshift" -}}
{{- $said := dig "compatibility" "openshift" "auto" .Values.global | toString -}}
{{- if or (eq $said "true") (and (eq $said "auto") (.Capabilities.APIVersions.Has "security.openshift.io/v1")) }}yes{{ end }}
{{- end }}

{{- /* Where pods of this chart run, and what names they know. */ -}}
{{- define "penstock.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- include "penstock.scheduling" . }}
{{- range $key := list "priorityClassName" "dnsPolicy" }}
{{- with get $.Values $key }}
{{ $key }}: {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "penstock.scheduling" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- include "penstock.strings" . | trim | nindent 2 }}
{{- end }}
{{- range $key := list "tolerations" "affinity" "hostAliases" "dnsConfig" }}
{{- with get $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Secrets whose keys are variables of the environment. */ -}}
{{- define "penstock.envFrom" -}}
{{- if .Values.secrets.values }}
- secretRef: {name: {{ include "penstock.fullname" . }}-secrets}
{{- end }}
{{- range .Values.secrets.existing }}
- secretRef: {name: {{ . }}}
{{- end }}
{{- with .Values.extraEnvFrom }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "penstock.serviceAccountName" -}}
{{- ternary (default (include "penstock.fullname" .) .Values.serviceAccount.name) (default "default" .Values.serviceAccount.name) .Values.serviceAccount.create }}
{{- end }}

{{- /* (dict "root" $ "suffix" "-trends") */ -}}
{{- define "penstock.image" -}}
{{- $image := .root.Values.image -}}
{{- $registry := default $image.registry (dig "imageRegistry" "" .root.Values.global) -}}
{{- $repository := printf "%s/%s" $registry $image.repository | trimPrefix "/" -}}
{{- $digest := ternary .root.Values.trends.image.digest $image.digest (not (empty .suffix)) -}}
{{- if $digest -}}
{{ printf "%s@%s" $repository $digest }}
{{- else -}}
{{ printf "%s:%s%s" $repository (default .root.Chart.AppVersion $image.tag) (default "" .suffix) }}
{{- end -}}
{{- end }}

{{- define "penstock.hasWeb" -}}
{{- if or .Values.web.config .Values.web.existingSecret }}yes{{ end }}
{{- end }}

{{- define "penstock.scheme" -}}
{{- if or (hasKey .Values.web.config "tls_server_config") (and .Values.web.existingSecret .Values.web.existingSecretHasTls) -}}HTTPS{{- else -}}HTTP{{- end }}
{{- end }}

{{- define "penstock.probe" -}}
httpGet: {path: {{ .path }}, port: probes}
{{ toYaml .timing }}
{{- end }}
