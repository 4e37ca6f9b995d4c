{{- /* Values that contradict each other, each told with its key. */ -}}
{{- define "penstock.checks" -}}
{{- $v := .Values -}}
{{- $discovery := default dict $v.config.discovery -}}
{{- if and (not $v.existingConfigSecret) (not $v.config.brokers) (not $discovery.dns) (not $discovery.files) -}}
{{- fail "config.brokers: name at least one broker (or set config.discovery, or existingConfigSecret)" -}}
{{- end -}}
{{- if and (eq $v.kind "Deployment") (gt (int $v.replicas) 1) -}}
{{- fail "replicas: several agents need kind: StatefulSet; with a Deployment each would watch every broker" -}}
{{- end -}}
{{- if and (eq $v.kind "StatefulSet") $v.persistence.existingClaim -}}
{{- fail "persistence.existingClaim: a StatefulSet makes a claim for each of its pods; leave it empty" -}}
{{- end -}}
{{- if and $v.web.config $v.web.existingSecret -}}
{{- fail "web.existingSecret: stands beside web.config; give only one of the two" -}}
{{- end -}}
{{- if and $v.serviceMonitor.enabled $v.podMonitor.enabled -}}
{{- fail "podMonitor.enabled: with serviceMonitor.enabled too every agent would be scraped twice; enable one of the two" -}}
{{- end -}}
{{- range $name := list "serviceMonitor" "podMonitor" -}}
{{- $monitor := get $v $name -}}
{{- if and $monitor.enabled (eq (include "penstock.scheme" $) "HTTPS") (ne $monitor.scheme "https") -}}
{{- fail (printf "%s.scheme: must be https, as the web configuration has TLS" $name) -}}
{{- end -}}
{{- if and $monitor.enabled (include "penstock.hasUsers" $) (not $monitor.basicAuth) -}}
{{- fail (printf "%s.basicAuth: the web configuration has users, so each scrape would be answered 401; name a Secret with one of them: {username: {name: SECRET, key: KEY}, password: {name: SECRET, key: KEY}}" $name) -}}
{{- end -}}
{{- end -}}
{{- with $v.fullnameOverride -}}
{{- if not (regexMatch "^[a-z]" .) -}}
{{- fail (printf "fullnameOverride: %q begins with no letter, as the name of a Service must" .) -}}
{{- end -}}
{{- end -}}
{{- range $index, $broker := $v.config.brokers -}}
{{- if not (contains "${" (default "${" $broker.password)) -}}
{{- fail (printf "config.brokers[%d].password: everybody who may read the ConfigMap would read it; write ${NAME}, and NAME into secrets.values or a Secret of secrets.existing" $index) -}}
{{- end -}}
{{- end -}}
{{- range $name, $profile := $discovery.profiles -}}
{{- if not (contains "${" (default "${" $profile.password)) -}}
{{- fail (printf "config.discovery.profiles.%s.password: everybody who may read the ConfigMap would read it; write ${NAME}, and NAME into secrets.values or a Secret of secrets.existing" $name) -}}
{{- end -}}
{{- end -}}
{{- if ne $v.trends.mode "disabled" -}}
{{- if not (and $v.trends.history $v.trends.out) -}}
{{- fail "trends.history, trends.out: say where history is and where results go, such as s3://bucket/history and s3://bucket/trends" -}}
{{- end -}}
{{- if not (hasPrefix "s3://" $v.trends.history) -}}
{{- if eq $v.trends.mode "sparkoperator" -}}
{{- fail "trends.history: the pods of a Spark cluster cannot read a file of the agent; use s3://…" -}}
{{- end -}}
{{- if eq $v.kind "StatefulSet" -}}
{{- fail "trends.history: each pod of a StatefulSet has a claim of its own, which the trend job cannot read; use s3://… or kind: Deployment" -}}
{{- end -}}
{{- if not (and $v.persistence.enabled (or $v.persistence.existingClaim (has "ReadWriteMany" $v.persistence.accessModes))) -}}
{{- fail "trends.history: the trend job could not read it: use s3://…, or persistence.enabled with accessModes [ReadWriteMany] or an existingClaim that both can mount" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
