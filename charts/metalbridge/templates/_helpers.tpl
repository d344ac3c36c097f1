{{- define "metalbridge.selector" -}}
app.kubernetes.io/name: metalbridge
app.kubernetes.io/component: controller
{{- end }}

{{- define "metalbridge.labels" -}}
{{ include "metalbridge.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "metalbridge.serverSelector" -}}
app.kubernetes.io/name: metalbridge
app.kubernetes.io/component: server
{{- end }}

{{- define "metalbridge.serverLabels" -}}
{{ include "metalbridge.serverSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "metalbridge.gatewaySelector" -}}
app.kubernetes.io/name: metalbridge
app.kubernetes.io/component: gateway
{{- end }}

{{- define "metalbridge.gatewayLabels" -}}
{{ include "metalbridge.gatewaySelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "metalbridge.relaySelector" -}}
app.kubernetes.io/name: metalbridge
app.kubernetes.io/component: relay
{{- end }}

{{- define "metalbridge.relayLabels" -}}
{{ include "metalbridge.relaySelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "metalbridge.nodeSelector" -}}
app.kubernetes.io/name: metalbridge
app.kubernetes.io/component: node
{{- end }}

{{- define "metalbridge.nodeLabels" -}}
{{ include "metalbridge.nodeSelector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "metalbridge.image" -}}
{{- $repository := required "image.repository is needed: this chart is from a checkout, build the image with npm run image" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ $repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ $repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- /* Values of an older chart, which --reuse-values keeps, lack labels, benchmarks and scheduler or parts of them. */}}
{{- define "metalbridge.labelPrefix" -}}
{{- $labels := .Values.labels | default dict -}}
{{- if dig "enabled" true $labels }}{{ dig "prefix" "metalbridge.dev/" $labels }}{{ end }}
{{- end }}

{{- define "metalbridge.scoreWeights" -}}
{{- $weights := (.Values.scheduler).weights | default dict -}}
--score-weights=tps={{ dig "tps" 0.7 $weights }},utilization={{ dig "util" 0.2 $weights }},cost={{ dig "cost" 0.1 $weights }}
{{- end }}

{{- /* Values of an older chart, which --reuse-values keeps, lack proxy. */}}
{{- define "metalbridge.proxyEnv" -}}
{{- $proxy := .Values.proxy | default dict }}
{{- range $name, $value := dict "HTTPS_PROXY" $proxy.httpsProxy "HTTP_PROXY" $proxy.httpProxy "NO_PROXY" $proxy.noProxy }}
{{- with $value }}
- { name: {{ $name }}, value: {{ . | quote }} }
{{- end }}
{{- end }}
{{- end }}

{{- /* The Pod Security level that the namespace enforces. Empty where Helm reads no cluster. */}}
{{- define "metalbridge.podSecurity" -}}
{{- with (lookup "v1" "Namespace" "" .Release.Namespace).metadata }}{{ get (.labels | default dict) "pod-security.kubernetes.io/enforce" }}{{ end }}
{{- end }}

{{- /* Empty where Helm reads no cluster (helm template, Argo CD): what is generated would then be new at each rendering. */}}
{{- define "metalbridge.hasCluster" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" }}true{{ end }}
{{- end }}

{{- /* Without node.enabled: where the chart runs a server and makes the pods' account and rights, unless Pod Security refuses the folders of nodes, for which helm --wait would wait without end. */}}
{{- define "metalbridge.hasNode" -}}
{{- if hasKey .Values.node "enabled" }}{{ ternary "true" "" .Values.node.enabled }}
{{- else if and .Values.server.enabled .Values.serviceAccount.create .Values.rbac.create (include "metalbridge.hasCluster" .) (not (has (include "metalbridge.podSecurity" .) (list "baseline" "restricted"))) }}true{{ end }}
{{- end }}

{{- /* Secret with the token of port 8787. Empty: the port is closed. Values of an older chart, which lack node.llmfit.enabled, open nothing. */}}
{{- define "metalbridge.nodeToken" -}}
{{- $llmfit := .Values.node.llmfit | default dict -}}
{{- $isAsked := hasKey $llmfit "enabled" | ternary $llmfit.enabled (or $llmfit.tokenSecret (not (hasKey .Values.node "enabled"))) }}
{{- if and $isAsked (not $llmfit.tokenSecret) (not (include "metalbridge.hasCluster" .)) }}
{{- fail "node.llmfit.enabled generates a token, which would be new at each rendering without a cluster: set node.llmfit.tokenSecret to a Secret with the key token" }}
{{- end }}
{{- if $isAsked }}{{ $llmfit.tokenSecret | default "metalbridge-node-llmfit" }}{{ end }}
{{- end }}

{{- /* Data of the Secrets that openWebUI makes, as JSON: "own" of Open WebUI, "key" of the gateway. Made once, because two templates read it. */}}
{{- define "metalbridge.openWebUISecrets" -}}
{{- if not (hasKey . "openWebUISecrets") }}
{{- $own := (lookup "v1" "Secret" .Release.Namespace "metalbridge-open-webui").data }}
{{- $key := (lookup "v1" "Secret" (.Values.gateway.keysNamespace | default .Release.Namespace) "open-webui").data }}
{{- $namespaces := .Values.openWebUI.namespaces }}
{{- /* A key that an administrator has limited, disabled or rotated stays as it is. If one of the two Secrets is missing, the key is new: its limits, and the other secrets, stay. */}}
{{- if not (and $own $key) }}
{{- $text := printf "mbk_%s" (randAlphaNum 43) }}
{{- $hash := dict "sha256" (sha256sum $text) "createdAt" (now | date "2006-01-02T15:04:05Z07:00") "hint" (trunc 8 $text) }}
{{- $record := dict "owner" "Open WebUI" "scope" ($namespaces | empty | ternary "all" (dict "namespaces" $namespaces)) }}
{{- with $key }}{{ $record = get . "key.json" | b64dec | fromJson }}{{ end }}
{{- $_ := set $record "hashes" (list $hash) }}
{{- $key = dict "key.json" (toJson $record | b64enc) }}
{{- $own = merge (dict "apiKey" (b64enc $text)) ($own | default dict) (dict "secret" (randAlphaNum 64 | b64enc) "sessionSecret" (randAlphaNum 64 | b64enc)) }}
{{- end }}
{{- $_ := set . "openWebUISecrets" (toJson (dict "own" $own "key" $key)) }}
{{- end }}
{{- .openWebUISecrets }}
{{- end }}

{{- /* Data of a Secret in the release's namespace, as this rendering leaves it. Empty: unknown. */}}
{{- define "metalbridge.secretData" -}}
{{- if and (eq .name "metalbridge-open-webui") (.root.Values.openWebUI).enabled (not .root.Values.openWebUI.secretName) }}
{{- include "metalbridge.openWebUISecrets" .root | fromJson | dig "own" dict | toJson }}
{{- else }}
{{- with (lookup "v1" "Secret" .root.Release.Namespace .name).data }}{{ toJson . }}{{ end }}
{{- end }}
{{- end }}

{{- define "metalbridge.userJwtSecret" -}}
{{- $openWebUI := .Values.openWebUI | default dict -}}
{{- .Values.gateway.userJwtSecretName | default (ternary ($openWebUI.secretName | default "metalbridge-open-webui") "" (eq (toString $openWebUI.enabled) "true")) }}
{{- end }}
