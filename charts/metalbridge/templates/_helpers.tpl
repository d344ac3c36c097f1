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

{{- /* Without node.enabled: where the chart runs a server, unless Pod Security refuses the folders of nodes, for which helm --wait would wait without end. */}}
{{- define "metalbridge.hasNode" -}}
{{- if hasKey .Values.node "enabled" }}{{ ternary "true" "" .Values.node.enabled }}
{{- else if and .Values.server.enabled (not (has (include "metalbridge.podSecurity" .) (list "baseline" "restricted"))) }}true{{ end }}
{{- end }}

{{- /* Secret with the token of port 8787. Empty: the port is closed. */}}
{{- define "metalbridge.nodeToken" -}}
{{- $llmfit := .Values.node.llmfit | default dict -}}
{{- if dig "enabled" true $llmfit }}{{ $llmfit.tokenSecret | default "metalbridge-node-llmfit" }}{{ end }}
{{- end }}

{{- define "metalbridge.userJwtSecret" -}}
{{- $openWebUI := .Values.openWebUI | default dict -}}
{{- .Values.gateway.userJwtSecretName | default (ternary ($openWebUI.secretName | default "metalbridge-open-webui") "" (eq (toString $openWebUI.enabled) "true")) }}
{{- end }}
