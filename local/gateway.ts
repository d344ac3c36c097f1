/** The gateway of a fleet on this machine: one base URL in front of all services. */

import { once } from "node:events";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { GATEWAY_PORT, readUserJwtSecret } from "../gateway/config.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { GATEWAY_HEALTH_PORT } from "../src/gateway/request-queues.ts";
import { hash } from "../src/util/hash.ts";

export interface GatewayPlan {
  /** Without a path. */
  readonly url: string;
  /** Arguments of `metalbridge gateway`, beside the kubeconfig. */
  readonly args: readonly string[];
  /** Base URL of its health port. */
  readonly healthUrl: string;
}

export interface GatewayPlanOptions {
  /** Used as soon as there is a key. Default: loopback. */
  readonly address?: string | undefined;
  /** File with the secret by which Open WebUI signs its users. */
  readonly userJwtSecretFile?: string | undefined;
}

const LOOPBACK = "127.0.0.1";
/** The path of a Unix socket has at most 103 bytes; the longest in this folder has 20 more. */
const MAX_FOLDER = 80;
const READY_MS = 60_000;
const CHECK_MS = 50;

/** Uses the usual ports, or free ones if another program has them. Throws GatewayConfigInvalid if a file cannot be read. */
export async function planGateway(
  dir: string,
  envoy: string,
  { address = LOOPBACK, userJwtSecretFile }: GatewayPlanOptions = {},
): Promise<GatewayPlan> {
  await readUserJwtSecret({ userJwtSecretFile });
  const port = (await freeLoopbackPort(GATEWAY_PORT)) ?? (await freeLoopbackPort(0)) ?? GATEWAY_PORT;
  const healthPort =
    (await freeLoopbackPort(GATEWAY_HEALTH_PORT)) ?? (await freeLoopbackPort(0)) ?? GATEWAY_HEALTH_PORT;
  const folder = path.join(dir, "gateway");
  const short =
    folder.length <= MAX_FOLDER ? folder : path.join(tmpdir(), `metalbridge-gateway-${hash(folder, 10)}`);
  const args = [
    "--dir",
    short,
    "--envoy",
    envoy,
    "--address",
    address,
    "--port",
    String(port),
    "--health-port",
    String(healthPort),
  ];
  if (userJwtSecretFile !== undefined) args.push("--user-jwt-secret-file", path.resolve(userJwtSecretFile));
  return { url: `http://${LOOPBACK}:${port}`, healthUrl: `http://${LOOPBACK}:${healthPort}`, args };
}

/** Resolves once it answers. Throws `NoAnswer` after a minute. */
export async function untilGatewayAnswers({ url }: GatewayPlan, signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + READY_MS;
  while (performance.now() < deadline) {
    const isReady = await fetch(`${url}/healthz`, { signal }).then(
      ({ ok }) => ok,
      () => false,
    );
    if (isReady) return;
    await pause(CHECK_MS, undefined, { signal });
  }
  throw new MetalbridgeError("NoAnswer", `the gateway at ${url} did not answer`);
}

/** Undefined if another program uses the port. 0 selects a free one. */
export async function freeLoopbackPort(port: number): Promise<number | undefined> {
  const server = createServer();
  try {
    server.listen(port, LOOPBACK);
    await once(server, "listening");
    const address = server.address();
    return typeof address === "object" ? address?.port : undefined;
  } catch {
    return undefined;
  } finally {
    server.close();
  }
}
