/**
 * Changes of services at a rate that the API server does not reach on two cores, where a write takes it 10 ms of CPU: the
 * console's server watches through a proxy, which adds the changes to the API server's own events.
 */
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createServer, request } from "node:https";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { API_VERSION } from "../../../../src/api/group.ts";
import type { InferenceService } from "../../../../src/api/inference-service/index.ts";
import { performanceAt } from "../../../../test/bed/console/synthetic-services.ts";
import { createRandom } from "../../../../test/bed/random.ts";
import type { Plane } from "../../beds/plane.ts";

export interface WatchProxy extends AsyncDisposable {
  /** The administrator's, through the proxy. */
  readonly kubeconfig: string;
  /** Adds a change of the object to all watches of services. False if none took it: the server is behind. */
  readonly send: (service: InferenceService) => boolean;
}

export interface Changes {
  /** Those that the server has taken. */
  readonly count: () => number;
  readonly stop: () => void;
}

const SERVICE_WATCH = /\/inferenceservices\?.*watch=true/;
const LINE_END = 10;
const TICK_MS = 50;

/** With the API server's certificate. */
export async function startWatchProxy({ controlPlane, dir }: Plane): Promise<WatchProxy> {
  const pki = path.join(dir, "pki", "serving-127.0.0.1");
  const cert = readFileSync(path.join(pki, "apiserver.crt"));
  const watches = new Set<ServerResponse>();
  const proxy = createServer(
    { cert, key: readFileSync(path.join(pki, "apiserver.key")) },
    (inbound, outbound) => {
      const { method, headers, url = "/" } = inbound;
      const forwarded = request(new URL(url, controlPlane.url), { method, headers, ca: cert }, (response) => {
        outbound.writeHead(response.statusCode ?? 502, response.headers);
        if (SERVICE_WATCH.test(url)) passEvents(response, outbound, watches);
        else response.pipe(outbound);
      });
      forwarded.on("error", () => outbound.destroy());
      outbound.on("close", () => forwarded.destroy());
      inbound.pipe(forwarded);
    },
  ).listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const kubeconfig = path.join(dir, "proxied.kubeconfig");
  const url = `https://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  writeFileSync(kubeconfig, readFileSync(controlPlane.kubeconfig, "utf8").replace(controlPlane.url, url));
  return {
    kubeconfig,
    send: (service) => {
      const object = { apiVersion: API_VERSION, kind: "InferenceService", ...service };
      const line = `${JSON.stringify({ type: "MODIFIED", object })}\n`;
      const ready = [...watches].filter((watch) => !watch.writableNeedDrain);
      for (const watch of ready) watch.write(line);
      return ready.length > 0;
    },
    [Symbol.asyncDispose]: async () => {
      const closed = once(proxy, "close");
      proxy.closeAllConnections();
      proxy.close();
      await closed;
    },
  };
}

/** No change is added within a line. */
function passEvents(response: IncomingMessage, outbound: ServerResponse, watches: Set<ServerResponse>): void {
  outbound.flushHeaders();
  watches.add(outbound);
  response.on("data", (chunk: Buffer) => {
    outbound.write(chunk);
    if (chunk.at(-1) === LINE_END) watches.add(outbound);
    else watches.delete(outbound);
  });
  response.on("close", () => outbound.end());
  outbound.on("close", () => watches.delete(outbound));
}

/** Speeds of random services, so many changes a second, until it is stopped. */
export function startChanges(
  services: readonly InferenceService[],
  perSecond: number,
  send: WatchProxy["send"],
): Changes {
  const random = createRandom(27);
  const startedMs = performance.now();
  let [begun, count] = [0, 0];
  const timer = setInterval(() => {
    const due = ((performance.now() - startedMs) / 1_000) * perSecond;
    for (; begun < due; begun += 1) {
      const index = random.integer(0, services.length - 1);
      const service = services[index] as InferenceService;
      const status = { ...service.status, performance: performanceAt(index, begun) };
      if (send({ ...service, status })) count += 1;
    }
  }, TICK_MS);
  return { count: () => count, stop: () => clearInterval(timer) };
}
