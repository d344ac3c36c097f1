/** The gateway of the installation with a real Envoy, and daemons that a slice makes replicas of a service. */
import path from "node:path";
import { readPartsConfig } from "../../../local/control-plane/config.ts";
import { findEnvoy } from "../../../local/control-plane/engine-programs.ts";
import { LABEL_SERVICE } from "../../../src/api/group.ts";
import { ENDPOINT_SLICES } from "../../../src/kube/kinds.ts";
import type { EndpointSlice } from "../../../src/kube/objects.ts";
import { envoyPids } from "../../../test/bed/envoy.ts";
import { must } from "../../../test/bed/must.ts";
import { openNetwork } from "../../../test/bed/network.ts";
import { type Part, startPart } from "../../../test/bed/part.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { until } from "../../../test/bed/until.ts";
import { openOn } from "./bed.ts";
import { type PacedDaemon, startPacedDaemon } from "./paced-daemon.ts";
import { NAMESPACE, type Plane } from "./plane.ts";

export interface BenchGateway {
  /** Without /v1. */
  readonly url: string;
  readonly dir: string;
  /** Its program. */
  readonly envoy: string;
  readonly part: () => Part;
  /** The one that accepts connections. */
  readonly envoyPid: () => number;
  /** Starts the program again, with more flags; the one before must have exited. */
  readonly restart: (...more: readonly string[]) => Promise<void>;
}

export interface GatewayBed extends Plane {
  readonly gateway: BenchGateway;
  /** An address that a slice may have. */
  readonly address: string;
  readonly startDaemon: () => Promise<PacedDaemon>;
}

/** An engine with slots for all clients of a scenario: the queue is not measured. */
const SERVED = {
  runtime: "vllm",
  placement: { on: "Pods" },
  resources: { gpu: 1 },
  parallelSlots: undefined,
  promptCacheMiB: undefined,
};

/** Control plane, network and gateway; neither a controller nor an agent. */
export async function openGatewayBed(): Promise<GatewayBed> {
  return openOn({}, async (plane) => {
    const { gateway: address } = plane.use(await openNetwork([]));
    return {
      ...plane,
      address,
      gateway: await startBenchGateway(plane),
      startDaemon: async () => plane.use(await startPacedDaemon(address)),
    };
  });
}

/** Resolves once it answers. It ends with the plane. */
export async function startBenchGateway(plane: Plane): Promise<BenchGateway> {
  const envoy = findEnvoy(readPartsConfig());
  if (envoy === undefined) throw new Error("there is no Envoy: npm run setup");
  const [port, health] = [await freePort(), await freePort()];
  const url = `http://127.0.0.1:${port}`;
  const dir = path.join(plane.dir, "gateway");
  const flags = [
    ...["--kubeconfig", plane.controlPlane.kubeconfig, "--envoy", envoy],
    ...["--dir", dir, "--port", String(port), "--health-port", String(health)],
  ];
  const start = async (more: readonly string[]): Promise<Part> => {
    const started = startPart(
      ["gateway", ...flags, ...more],
      path.join(plane.dir, "gateway.log"),
      plane.program,
    );
    await until(async () => {
      if (!started.isRunning()) throw new Error(`the gateway has exited: ${started.log()}`);
      for (const probe of [`http://127.0.0.1:${health}/readyz`, `${url}/healthz`])
        if (!(await fetch(probe)).ok) throw new Error(`${probe} does not answer`);
    });
    return started;
  };
  let part = await start([]);
  plane.atEnd(() => part.kill("SIGTERM"));
  return {
    url,
    dir,
    envoy,
    part: () => part,
    envoyPid: () => {
      const newest = envoyPids(dir).at(-1);
      if (newest === undefined) throw new Error("no Envoy is recorded");
      return newest;
    },
    restart: async (...more) => {
      part = await start(more);
    },
  };
}

/** Without replicas: slices give it some. */
export async function createServed({ createService }: Plane, name: string): Promise<void> {
  await createService(name, SERVED);
}

/** Creates a service whose one replica is at this address; resolves once the gateway answers for it. */
export async function serveAt(
  bed: GatewayBed,
  name: string,
  port: number,
  headers: Readonly<Record<string, string>> = {},
): Promise<void> {
  await createServed(bed, name);
  must(await bed.client.create(ENDPOINT_SLICES, sliceOf(name, name, [bed.address], port)));
  await until(async () => {
    const response = await fetch(`${bed.gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ model: name }),
    });
    if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
    await response.text();
  });
}

/** Ready at all addresses. */
export function sliceOf(
  name: string,
  service: string,
  addresses: readonly string[],
  port: number,
): EndpointSlice {
  return {
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: { name, namespace: NAMESPACE, labels: { [LABEL_SERVICE]: service } },
    addressType: "IPv4",
    endpoints: addresses.map((address) => ({ addresses: [address], conditions: { ready: true } })),
    ports: [{ name: "http", port, protocol: "TCP" }],
  };
}
