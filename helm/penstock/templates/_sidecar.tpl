{{- /*
The agent as a sidecar of one broker, for the pod template of another chart:

  containers:
    {{- include "penstock.sidecar.container" (dict "image" "ghcr.io/penstock/penstock:0.1.0" "configMap" "penstock") | nindent 4 }}
  volumes:
    {{- include "penstock.sidecar.volumes" (dict "configMap" "penstock") | nindent 4 }}

image, configMap (with the key penstock.yaml) are needed. passwordSecret and passwordKey: the Secret and key with the broker's
password, as ${PENSTOCK_PASSWORD}. brokerHost: what the console is bound to, as ${BROKER_HOST}; default localhost. native: true for an init container that Kubernetes 1.29 and later runs beside the others.
*/ -}}
{{- define "penstock.sidecar.container" -}}
- name: penstock
  image: {{ required "image: which image the sidecar runs" .image | quote }}
  {{- if .native }}
  restartPolicy: Always
  {{- end }}
  args: [run, --config.file=/etc/penstock/penstock.yaml, --storage.path=/var/lib/penstock, --web.probe-listen-address=:19772]
  env:
    - name: POD_NAME
      valueFrom: {fieldRef: {fieldPath: metadata.name}}
    - name: POD_NAMESPACE
      valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
    - name: BROKER_HOST
      value: {{ default "localhost" .brokerHost | quote }}
    {{- with .passwordSecret }}
    - name: PENSTOCK_PASSWORD
      valueFrom: {secretKeyRef: {name: {{ . | quote }}, key: {{ default "password" $.passwordKey | quote }}}}
    {{- end }}
  ports:
    - {name: penstock, containerPort: 19771, protocol: TCP}
    - {name: penstock-probes, containerPort: 19772, protocol: TCP}
  livenessProbe:
    httpGet: {path: /-/healthy, port: penstock-probes}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
  resources:
    requests: {cpu: 50m, memory: 96Mi}
    limits: {memory: 320Mi}
  securityContext:
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    runAsNonRoot: true
    capabilities: {drop: [ALL]}
    seccompProfile: {type: RuntimeDefault}
  volumeMounts:
    - {name: penstock-config, mountPath: /etc/penstock, readOnly: true}
    - {name: penstock-data, mountPath: /var/lib/penstock}
{{- end }}

{{- define "penstock.sidecar.volumes" -}}
- name: penstock-config
  configMap: {name: {{ required "configMap: which ConfigMap holds penstock.yaml" .configMap | quote }}}
- name: penstock-data
  emptyDir: {sizeLimit: 64Mi}
{{- end }}
