/** The gateway as the process that users run, with a real Envoy, for one cluster. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "vitest";
import { envoyPath, envoyPids } from "../bed/envoy.ts";
import { type Part, startPart } from "../bed/part.ts";
import { freePort } from "../bed/ports.ts";
import { until } from "../bed/until.ts";

export interface StartedGateway extends AsyncDisposable {
  /** Without /v1. */
  readonly url: string;
  readonly dir: string;
  readonly port: number;
  readonly part: () => Part;
  /** Starts the program again with the same folder and ports. */
  readonly restart: () => Promise<Part>;
  /** Base URL of /metrics and /queues. */
  readonly health: string;
  readonly metrics: () => Promise<string>;
  readonly envoyPid: () => number;
}

/** Undefined where there is an Envoy, else the reason for skipping a test. */
export const whyNoGateway: string | undefined =
  envoyPath === undefined ? "no envoy: npm run setup -- --for test" : undefined;

/** Resolves once it answers. `at` is the health port; by default a free one on loopback. */
export async function startGateway(
  kubeconfig: string,
  args: readonly string[] = [],
  at: { readonly address: string; readonly port: number } | undefined = undefined,
): Promise<StartedGateway> {
  const dir = await mkdtemp(path.join(tmpdir(), "mb-gateway-"));
  const port = await freePort();
  const { address, port: healthPort } = at ?? { address: "127.0.0.1", port: await freePort() };
  const health = `http://${address}:${healthPort}`;
  const url = `http://127.0.0.1:${port}`;
  const flags = [
    ...["--kubeconfig", kubeconfig, "--dir", path.join(dir, "run"), "--envoy", envoyPath ?? "envoy"],
    ...["--port", String(port), "--health-address", address, "--health-port", String(healthPort), ...args],
  ];
  const start = () => startPart(["gateway", ...flags], path.join(dir, "gateway.log"));
  let part = start();
  const untilReady = async (): Promise<void> => {
    await until(async () => {
      if (!part.isRunning()) throw new Error(`the gateway has exited: ${part.log()}`);
      expect((await fetch(`${health}/readyz`)).status).toBe(200);
      expect((await fetch(`${url}/healthz`)).status).toBe(200);
    });
  };
  await untilReady();
  return {
    url,
    dir: path.join(dir, "run"),
    port,
    part: () => part,
    restart: async () => {
      part = start();
      await untilReady();
      return part;
    },
    health,
    envoyPid: () => envoyPids(path.join(dir, "run")).at(-1) ?? 0,
    metrics: async () => (await fetch(`${health}/metrics`)).text(),
    [Symbol.asyncDispose]: async () => {
      await part.kill("SIGTERM");
      await rm(dir, { recursive: true, force: true });
    },
  };
}
