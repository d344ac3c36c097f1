/** The preStop hook that lets a pod finish its requests. Kubernetes sends SIGTERM only after the hook has finished. */

import type { PodRuntime } from "../../../src/engines/contract/pod.ts";
import type { Container } from "../../../src/kube/workload-objects.ts";
import { hostInUrl } from "../../../src/util/host-in-url.ts";

/** Time for kube-proxy on every node to stop sending new requests to a terminating pod. */
export const WITHDRAWAL_SECONDS = 5;
/** Maximum time between SIGTERM and the exit of an engine. */
export const STOP_SECONDS = 30;

export interface DrainSpec {
  /** Absent if requests in flight cannot be counted. The hook then always waits for drainSeconds. */
  readonly gauges?: { readonly path: string; readonly names: readonly string[] };
  readonly address: string;
  readonly port: number;
  readonly drainSeconds: number;
  /** File with the API key that the metrics endpoint requires. */
  readonly keyFile?: string;
  readonly endsAtSecondTerm?: boolean;
}

/** Termination grace period of the pod. */
export function graceSeconds(drainSeconds: number): number {
  return WITHDRAWAL_SECONDS + drainSeconds + STOP_SECONDS;
}

export function preStopOf(spec: DrainSpec): NonNullable<NonNullable<Container["lifecycle"]>["preStop"]> {
  const { gauges, drainSeconds } = spec;
  if (gauges === undefined) return { sleep: { seconds: WITHDRAWAL_SECONDS + drainSeconds } };
  return { exec: { command: ["/bin/sh", "-c", drainScript({ ...spec, gauges })] } };
}

/**
 * The preStop hook of a worker of a group. The leader needs its workers until it has finished its requests, so they wait until
 * it no longer answers, or its time has elapsed.
 */
export function waitForLeaderOf({
  port,
  path = "/",
  drainSeconds,
}: {
  readonly port: number;
  readonly path: string | undefined;
  readonly drainSeconds: number;
}): NonNullable<NonNullable<Container["lifecycle"]>["preStop"]> {
  const script = `end=$(( $(date +%s) + ${WITHDRAWAL_SECONDS + drainSeconds} ))
url="http://$LWS_LEADER_ADDRESS:${port}${path}"
key=
export url key
${FETCH}
while [ "$(date +%s)" -lt $end ] && fetch >/dev/null; do sleep 1; done
exit 0
`;
  return { exec: { command: ["/bin/sh", "-c", script] } };
}

/** The metrics of a runtime, or those that spec.inFlightProbe names for runtime generic. */
export function gaugesOf(
  pod: PodRuntime,
  probe?: { readonly path?: string | undefined; readonly gauges: readonly string[] },
): DrainSpec["gauges"] {
  if (probe !== undefined) return { path: probe.path ?? "/metrics", names: probe.gauges };
  return pod.metrics && { path: pod.metrics.path, names: pod.metrics.inFlight };
}

/**
 * The engine is idle if every gauge is present and zero in two consecutive readings. A failed reading does not count as idle.
 * The script uses curl, Python or wget, whichever the image has, and bypasses any proxy from the environment.
 */
function drainScript(spec: DrainSpec & { readonly gauges: NonNullable<DrainSpec["gauges"]> }): string {
  const { gauges, address, port, drainSeconds, keyFile, endsAtSecondTerm = false } = spec;
  const url = `http://${hostOf(address)}:${port}${gauges.path}`;
  return `sleep ${WITHDRAWAL_SECONDS}
end=$(( $(date +%s) + ${drainSeconds} ))
url=${quoted(url)}
${keyFile === undefined ? "key=" : `key=$(grep -v '^#' ${quoted(keyFile)} | head -n 1)`}
export url key
${FETCH}
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

/** A shell function that reads `$url` with the key `$key`. */
const FETCH = `fetch() {
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
}`;

/**
 * Sent to an engine that is still busy. The kubelet sends the second SIGTERM once the hook has finished. Without the pause, two
 * signals at the same moment would count as one.
 */
export const SEND_FIRST_TERM = "kill -TERM 1 && sleep 1\n";

/** "localhost" covers both address families, for engines that listen on only one of them. */
function hostOf(address: string): string {
  if (["::", "0.0.0.0"].includes(address)) return "localhost";
  return hostInUrl(address);
}

/** Quotes a text as one shell word. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
