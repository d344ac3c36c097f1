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

{{- define "metalbridge.extenderSelector" -}}
app.kubernetes.io/name: metalbridge
app.kubernetes.io/component: scheduler-extender
{{- end }}

{{- define "metalbridge.extenderLabels" -}}
{{ include "metalbridge.extenderSelector" . }}
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
