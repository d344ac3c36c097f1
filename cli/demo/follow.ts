/** Follows one service until it serves, telling each phase as it happens. */

import { LABEL_SERVICE, LABEL_SERVICE_NAME } from "../../src/api/group.ts";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../../src/api/kinds.ts";
import { MetalbridgeError } from "../../src/errors.ts";
import type { KubeConnection } from "../../src/kube/client/connect.ts";
import { ENDPOINT_SLICES } from "../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../src/kube/objects.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { startReflector } from "../../src/kube/watch/reflector.ts";
import { silentLog } from "../program/terminal-log.ts";
import type { Screen } from "./screen.ts";

export interface Followed {
  /** `http://address:port`, as the EndpointSlice holds it. */
  readonly endpoint: string;
}

interface FollowOptions {
  readonly connection: KubeConnection;
  readonly namespace: string;
  readonly name: string;
  readonly screen: Screen;
  readonly startedAtMs: number;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Resolves when the service is Ready and its slice holds a ready endpoint; rejects with what is in the way after `timeoutMs`. */
export function followUntilReady(options: FollowOptions): Promise<Followed> {
  // An abort that has already happened is told to nobody any more.
  if (options.signal.aborted) return Promise.reject(options.signal.reason);
  const { connection, namespace, name, screen } = options;
  const ending = new AbortController();
  const signal = AbortSignal.any([options.signal, ending.signal]);
  const told = new Map<string, string>();
  const obstacles = new Map<string, string>();
  const tell = (who: string, phase: string | undefined, message: string | undefined) => {
    if (phase === undefined) return;
    obstacles.set(who, `${who} is ${phase}${message === undefined ? "" : `: ${message}`}`);
    if (told.get(who) === phase) return;
    told.set(who, phase);
    const elapsed = `${((performance.now() - options.startedAtMs) / 1_000).toFixed(2)} s`;
    screen.line(
      `    ${elapsed.padStart(8)}  ${who.padEnd(36)} ${phase}${phase === "Ready" ? "" : shorten(message)}`,
    );
  };
  const watched = { connection, namespace, clock: systemClock, log: silentLog, signal };
  return new Promise<Followed>((resolve, reject) => {
    const finish = (settle: () => void) => {
      ending.abort();
      cancelTimeout();
      screen.fetching(undefined);
      settle();
    };
    const cancelTimeout = systemClock.after(options.timeoutMs, () => {
      const why = obstacles.size === 0 ? "nothing has been reported yet" : [...obstacles.values()].join("; ");
      finish(() => reject(new MetalbridgeError("DemoNotReady", `not ready in time; ${why}`)));
    });
    options.signal.addEventListener("abort", () => finish(() => reject(options.signal.reason)), {
      once: true,
    });
    const settleWhenReady = () => {
      const endpoint = slices
        .list()
        .map(readyEndpoint)
        .find((found) => found !== undefined);
      if (endpoint !== undefined && told.get(`InferenceService/${name}`) === "Ready")
        finish(() => resolve({ endpoint }));
    };
    const slices = startReflector<EndpointSlice>({
      ...watched,
      kind: ENDPOINT_SLICES,
      labelSelector: `${LABEL_SERVICE_NAME}=${name}`,
      onChange: () => settleWhenReady(),
    });
    startReflector<InferenceReplica>({
      ...watched,
      kind: INFERENCE_REPLICAS,
      labelSelector: `${LABEL_SERVICE}=${name}`,
      onChange: (_key, replica) => {
        // What an earlier run left behind: the agent of this one has not looked yet.
        if (replica === undefined || replica.status?.phase === "Stopped") return;
        const { progress, phase, message } = replica.status ?? {};
        if (progress?.totalBytes !== undefined)
          screen.fetching({ bytes: progress.bytes, totalBytes: progress.totalBytes });
        tell(`InferenceReplica/${replica.metadata.name}`, phase, message);
      },
    });
    startReflector<InferenceService>({
      ...watched,
      kind: INFERENCE_SERVICES,
      fieldSelector: `metadata.name=${name}`,
      onChange: (_key, service) => {
        const { phase, message } = service?.status ?? {};
        tell(`InferenceService/${name}`, phase, message);
        settleWhenReady();
      },
    });
  });
}

function readyEndpoint(slice: EndpointSlice): string | undefined {
  const address = slice.endpoints?.find((endpoint) => endpoint.conditions?.ready === true)?.addresses[0];
  const port = slice.ports?.[0]?.port;
  if (address === undefined || port === undefined || port === null) return undefined;
  return `http://${address.includes(":") ? `[${address}]` : address}:${port}`;
}

function shorten(message: string | undefined): string {
  if (message === undefined || message === "") return "";
  return message.length > 110 ? `  ${message.slice(0, 109)}…` : `  ${message}`;
}
