{{- define "penstock.pod" -}}
{{- $name := include "penstock.fullname" . -}}
metadata:
  annotations:
    checksum/secrets: {{ toJson .Values.secrets.values | sha256sum }}
    {{- with .Values.podAnnotations }}
    {{- include "penstock.strings" . | trim | nindent 4 }}
    {{- end }}
  labels:
    {{- include "penstock.labels" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- include "penstock.strings" . | trim | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "penstock.serviceAccountName" . | quote }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    {{- include "penstock.securityContext" (dict "root" $ "context" .Values.podSecurityContext) | nindent 4 }}
  {{- with include "penstock.placement" . }}
  {{- . | nindent 2 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.initContainers }}
  initContainers:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: penstock
      image: {{ include "penstock.image" (dict "root" $) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - run
        - --config.file=/etc/penstock/config/penstock.yaml
        - --config.watch
        - --storage.path=/data
        - --web.probe-listen-address=:{{ .Values.probes.port }}
        - --log.level={{ .Values.logLevel }}
        - --log.format={{ .Values.logFormat }}
        {{- if include "penstock.hasWeb" . }}
        - --web.config.file=/etc/penstock/web/web.yaml
        {{- end }}
        {{- if and (eq .Values.kind "StatefulSet") (gt (int .Values.replicas) 1) }}
        - --shard=$(POD_NAME)/{{ .Values.replicas }}
        {{- end }}
        {{- with .Values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- with .Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- with include "penstock.envFrom" . }}
      envFrom:
        {{- . | trim | nindent 8 }}
      {{- end }}
      ports:
        - {name: http, containerPort: 19771, protocol: TCP}
        - {name: probes, containerPort: {{ .Values.probes.port }}, protocol: TCP}
      startupProbe:
        {{- include "penstock.probe" (dict "path" "/-/healthy" "timing" .Values.probes.startup) | nindent 8 }}
      livenessProbe:
        {{- include "penstock.probe" (dict "path" "/-/healthy" "timing" .Values.probes.liveness) | nindent 8 }}
      readinessProbe:
        {{- include "penstock.probe" (dict "path" "/-/ready" "timing" .Values.probes.readiness) | nindent 8 }}
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        {{- include "penstock.securityContext" (dict "root" $ "context" .Values.securityContext) | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/penstock/config, readOnly: true}
        - {name: data, mountPath: /data}
        - {name: tmp, mountPath: /tmp}
        {{- if include "penstock.hasWeb" . }}
        - {name: web, mountPath: /etc/penstock/web, readOnly: true}
        {{- end }}
        {{- if .Values.web.tlsSecret }}
        - {name: tls, mountPath: /etc/penstock/tls, readOnly: true}
        {{- end }}
        {{- if or .Values.secrets.values .Values.secrets.existing }}
        - {name: secrets, mountPath: /etc/penstock/secrets, readOnly: true}
        {{- end }}
        {{- with .Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    {{- with .Values.extraContainers }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  volumes:
    - name: config
      {{- if .Values.existingConfigSecret }}
      secret: {secretName: {{ .Values.existingConfigSecret | quote }}, defaultMode: 0440}
      {{- else }}
      configMap: {name: {{ $name | quote }}}
      {{- end }}
    - name: tmp
      emptyDir: {sizeLimit: 64Mi}
    {{- if not (and .Values.persistence.enabled (eq .Values.kind "StatefulSet")) }}
    - name: data
      {{- if .Values.persistence.enabled }}
      persistentVolumeClaim: {claimName: {{ default $name .Values.persistence.existingClaim | quote }}}
      {{- else }}
      emptyDir: {}
      {{- end }}
    {{- end }}
    {{- if include "penstock.hasWeb" . }}
    - name: web
      secret: {secretName: {{ default (printf "%s-web" $name) .Values.web.existingSecret | quote }}}
    {{- end }}
    {{- with .Values.web.tlsSecret }}
    - name: tls
      secret: {secretName: {{ . | quote }}}
    {{- end }}
    {{- if or .Values.secrets.values .Values.secrets.existing }}
    - name: secrets
      projected:
        defaultMode: 0440
        sources:
          {{- if .Values.secrets.values }}
          - secret: {name: "{{ $name }}-secrets"}
          {{- end }}
          {{- range .Values.secrets.existing }}
          - secret: {name: {{ . | quote }}}
          {{- end }}
    {{- end }}
    {{- with .Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
