{{- define "penstock.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The name of a Service begins with a letter, that of a release may be a number. */ -}}
{{- define "penstock.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := include "penstock.name" . }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- ternary $full (printf "%s-%s" .Chart.Name $full) (regexMatch "^[a-z]" $full) | trunc 52 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- /* Never to change: a selector cannot be upgraded. */ -}}
{{- define "penstock.selectorLabels" -}}
app.kubernetes.io/name: {{ include "penstock.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "penstock.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
{{ include "penstock.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
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
{{- $context := default dict .context }}
{{- ternary (omit $context "runAsUser" "runAsGroup" "fsGroup") $context (not (empty (include "penstock.openshift" .root))) | toYaml }}
{{- end }}

{{- define "penstock.openshift" -}}
{{- $said := dig "compatibility" "openshift" "auto" (default dict .Values.global) | toString -}}
{{- if or (eq $said "true") (and (eq $said "auto") (.Capabilities.APIVersions.Has "security.openshift.io/v1")) }}yes{{ end }}
{{- end }}

{{- /* Where pods of this chart run, and what names they know. */ -}}
{{- define "penstock.placement" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- include "penstock.scheduling" . }}
{{- range $key := list "priorityClassName" "dnsPolicy" }}
{{- with get $.Values $key }}
{{ $key }}: {{ . | quote }}
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
- secretRef: {name: "{{ include "penstock.fullname" . }}-secrets"}
{{- end }}
{{- range .Values.secrets.existing }}
- secretRef: {name: {{ . | quote }}}
{{- end }}
{{- with .Values.extraEnvFrom }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "penstock.serviceAccountName" -}}
{{- $made := ternary (include "penstock.fullname" .) "default" (not (empty .Values.serviceAccount.create)) }}
{{- default $made .Values.serviceAccount.name }}
{{- end }}

{{- /* (dict "root" $ "suffix" "-trends") */ -}}
{{- define "penstock.image" -}}
{{- $image := .root.Values.image -}}
{{- $registry := default $image.registry (dig "imageRegistry" "" (default dict .root.Values.global)) -}}
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
{{- if or (hasKey (default dict .Values.web.config) "tls_server_config") (and .Values.web.existingSecret .Values.web.existingSecretHasTls) -}}HTTPS{{- else -}}HTTP{{- end }}
{{- end }}

{{- /* Whether a scrape must say who asks. */ -}}
{{- define "penstock.hasUsers" -}}
{{- $inValues := dig "basic_auth_users" dict (default dict .Values.web.config) -}}
{{- if or $inValues (and .Values.web.existingSecret .Values.web.existingSecretHasUsers) }}yes{{ end }}
{{- end }}

{{- define "penstock.probe" -}}
httpGet: {path: {{ .path }}, port: probes}
{{- with .timing }}
{{ toYaml . }}
{{- end }}
{{- end }}
