/** How a pod that is to stop first finishes its requests. Kubernetes sends TERM only after this has finished. */
import type { PodRuntime } from "../../src/engines/contract/pod.ts";
import type { Container } from "../../src/kube/workload-objects.ts";

/** Until kube-proxy on every node has stopped sending new requests to a terminating pod. */
export const WITHDRAWAL_SECONDS = 5;
/** From TERM to the end of an engine. */
export const STOP_SECONDS = 30;

export interface DrainSpec {
  /** Absent: requests in flight cannot be counted, so all of drainSeconds is waited. */
  readonly gauges?: { readonly path: string; readonly names: readonly string[] } | undefined;
  readonly address: string;
  readonly port: number;
  readonly drainSeconds: number;
  /** File with the key that the metrics need. */
  readonly keyFile?: string | undefined;
  readonly endsAtSecondTerm?: boolean | undefined;
}

/** Seconds that Kubernetes must wait before it kills the pod. */
export function graceSeconds(drainSeconds: number): number {
  return WITHDRAWAL_SECONDS + drainSeconds + STOP_SECONDS;
}

export function preStopOf(wish: DrainSpec): NonNullable<NonNullable<Container["lifecycle"]>["preStop"]> {
  const { gauges, drainSeconds } = wish;
  if (gauges === undefined) return { sleep: { seconds: WITHDRAWAL_SECONDS + drainSeconds } };
  return { exec: { command: ["/bin/sh", "-c", drainScript({ ...wish, gauges })] } };
}

/** Metrics of a runtime, or those that runtime generic names. */
export function gaugesOf(
  pod: PodRuntime,
  probe?: { readonly path?: string | undefined; readonly gauges: readonly string[] },
): DrainSpec["gauges"] {
  if (probe !== undefined) return { path: probe.path ?? "/metrics", names: probe.gauges };
  return pod.metrics && { path: pod.metrics.path, names: pod.metrics.inFlight };
}

/**
 * Idle is two readings in a row in which every gauge is there and zero. A reading that fails is not "idle". Images have
 * curl, or Python, or wget; a proxy from the environment must not see these requests.
 */
function drainScript(wish: DrainSpec & { readonly gauges: NonNullable<DrainSpec["gauges"]> }): string {
  const { gauges, address, port, drainSeconds, keyFile, endsAtSecondTerm = false } = wish;
  const url = `http://${hostOf(address)}:${port}${gauges.path}`;
  return `sleep ${WITHDRAWAL_SECONDS}
end=$(( $(date +%s) + ${drainSeconds} ))
url=${quoted(url)}
${keyFile === undefined ? "key=" : `key=$(grep -v '^#' ${quoted(keyFile)} | head -n 1)`}
export url key
fetch() {
  if command -v curl >/dev/null; then
    curl -fsS -m 5 --noproxy '*' -H "Authorization: Bearer $key" "$url"
  elif command -v python3 >/dev/null; then
    python3 -c 'import os, urllib.request as http
key = {"Authorization": "Bearer " + os.environ["key"]}
request = http.Request(os.environ["url"], headers=key)
opener = http.build_opener(http.ProxyHandler({}))
print(opener.open(request, timeout=5).read().decode())'
  else
    wget -q -O - -T 5 -Y off --header "Authorization: Bearer $key" "$url"
  fi
}
quiet() {
  text=$(fetch) || return 1
  for gauge in ${gauges.names.join(" ")}; do
    values=$(printf '%s\\n' "$text" | grep -E "^$gauge(\\{.*\\})? ") || return 1
    printf '%s\\n' "$values" | grep -qvE ' 0(\\.0+)?$' && return 1
  done
  return 0
}
idle=0
while [ $idle -lt 2 ] && [ "$(date +%s)" -lt $end ]; do
  if quiet; then idle=$((idle + 1)); else idle=0; fi
  [ $idle -lt 2 ] && sleep 1
done
${endsAtSecondTerm ? `[ $idle -lt 2 ] && ${SEND_FIRST_TERM}` : ""}exit 0
`;
}

/**
 * Of an engine that is still busy; the second one is the kubelet's, once the hook has finished. Two that come at the same
 * moment would count as one.
 */
export const SEND_FIRST_TERM = "kill -TERM 1 && sleep 1\n";

/** "localhost" is both families, for engines that listen on either. */
function hostOf(address: string): string {
  if (["::", "0.0.0.0"].includes(address)) return "localhost";
  return address.includes(":") ? `[${address}]` : address;
}

/** One word of a shell, whatever it holds. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
