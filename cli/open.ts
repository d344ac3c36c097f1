/** `metalbridge open`: forwards a port on this machine to the ready engines of a service. */

import { createServer, type Server, type Socket } from "node:net";
import type { Command } from "commander";
import type { InferenceService } from "../src/api/inference-service/index.ts";
import { INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { explainListenError } from "../src/http/listener.ts";
import { ENDPOINT_SLICES } from "../src/kube/kinds.ts";
import type { EndpointSlice } from "../src/kube/objects.ts";
import { errorMessage } from "../src/util/error-message.ts";
import { type Cluster, withCluster } from "./cluster/cluster.ts";
import { findObject } from "./cluster/find.ts";
import { addNamespacedFlags, type ClusterFlags, parsePort, parseServiceName } from "./cluster/flags.ts";
import { follow } from "./cluster/follow.ts";
import { type Connect, createConnector } from "./endpoint/connector.ts";
import { readyEndpoints, type ServerEndpoint, slicesOf } from "./endpoint/target.ts";
import { wakeService } from "./endpoint/wake.ts";
import { printNote } from "./program/output.ts";
import { listenForStop } from "./program/stop-signals.ts";

interface Flags extends ClusterFlags {
  readonly port?: number;
}

/** Options and action of the verb. */
export function configureOpen(command: Command): void {
  addNamespacedFlags(command)
    .argument("<service>", "name of the InferenceService", parseServiceName)
    .option(
      "--port <n>",
      "port on 127.0.0.1; 0 chooses a free port (default: the port of the service)",
      parsePort,
    )
    .action(open);
}

async function open(name: string, flags: Flags): Promise<void> {
  await withCluster("open", flags, async (cluster) => {
    const service = await findObject(cluster, INFERENCE_SERVICES, name);
    const stop = listenForStop();
    let endpoints: readonly ServerEndpoint[] = [];
    const wake = createWake(cluster, service);
    const server = await listen(
      flags.port ?? service.spec.endpoint.port,
      () => {
        if (endpoints.length === 0) wake();
        return endpoints;
      },
      createConnector(cluster),
    );
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const scheme = service.spec.endpoint.tls === undefined ? "http" : "https";
    let shown: number | undefined;
    await follow<never>(cluster, { signal: stop.signal }, ({ watch, fail }) => {
      server.once("error", fail);
      const slices = watch<EndpointSlice>(ENDPOINT_SLICES, slicesOf(service), () => {
        endpoints = readyEndpoints(slices.list());
        if (shown === undefined) printNote(`${scheme}://127.0.0.1:${port} forwards to ${name} until Ctrl-C`);
        if (shown !== endpoints.length) printNote(countOf(service, endpoints.length));
        if (shown === undefined && endpoints.length === 0) wake();
        shown = endpoints.length;
      });
    }).finally(() => server.close());
    process.exitCode = stop.exitCode();
  });
}

/** Asks for the replicas of a service with spec.idle, and says once if that fails. */
function createWake(cluster: Cluster, service: InferenceService): () => void {
  let waking: Promise<void> | undefined;
  let problem: string | undefined;
  return () => {
    if (service.spec.idle === undefined || waking !== undefined) return;
    waking = wakeService(cluster, service)
      .catch((error: unknown) => {
        const message = errorMessage(error);
        if (message !== problem) printNote(message);
        problem = message;
      })
      .finally(() => {
        waking = undefined;
      });
  };
}

function countOf({ metadata, spec }: InferenceService, count: number): string {
  if (count === 0 && spec.idle !== undefined)
    return `no endpoint is ready; a connection loads replicas that are idle; see why: metalbridge describe ${metadata.name}`;
  if (count === 0) return `no endpoint is ready; see why: metalbridge describe ${metadata.name}`;
  return `${count} ready ${count === 1 ? "endpoint" : "endpoints"}`;
}

/** Forwards each connection to the next endpoint, byte for byte. Rejects with PortTaken or ListenFailed. */
function listen(
  port: number,
  endpoints: () => readonly ServerEndpoint[],
  connectTo: Connect,
): Promise<Server> {
  let turn = 0;
  const server = createServer((client) => {
    const ready = endpoints();
    const endpoint = ready[turn++ % Math.max(1, ready.length)];
    if (endpoint === undefined) return void client.destroy();
    client.on("error", () => client.destroy());
    connectTo(endpoint, (engine) => {
      if (engine === undefined || client.destroyed) {
        client.destroy();
        return void engine?.destroy();
      }
      join(client, engine);
    });
  });
  return new Promise((resolve, reject) => {
    server.once("error", (error) => reject(explainListenError(error, "127.0.0.1", port)));
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}

function join(client: Socket, engine: Socket): void {
  engine.once("connect", () => engine.setTimeout(0));
  engine.once("timeout", () => engine.destroy());
  client.on("error", () => engine.destroy());
  engine.on("error", () => client.destroy());
  engine.once("close", () => client.destroy());
  client.once("close", () => engine.destroy());
  client.pipe(engine).pipe(client);
}
