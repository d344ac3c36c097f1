/** A farm in which something happens of everything that metrics tell: served, waiting, failed, killed, drained. */

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "vitest";
import { testAddress } from "../../../agent/fixtures/agent.ts";
import { INFERENCE_REPLICAS } from "../../../src/api/kinds.ts";
import { livingEngines } from "../../bed/engines.ts";
import { model, serviceAnywhere } from "../../bed/manifests.ts";
import { type Part, startPart } from "../../bed/part.ts";
import { freePort } from "../../bed/ports.ts";
import { startFleet, type TestFleet } from "../../bed/test-fleet.ts";
import { until } from "../../bed/until.ts";
import { writeTinyGguf } from "../../fixtures/tiny-gguf.ts";
import type { Job } from "./server.ts";

export interface BusyFleet extends AsyncDisposable {
  readonly farm: TestFleet;
  /** Scrape jobs as in docs/observability.md: the controller, the agent on its own machine, the agent from elsewhere, the server. */
  readonly jobs: readonly Job[];
  /** Addresses of /metrics that need no token. */
  readonly open: Readonly<Record<"agent" | "controller", string>>;
  readonly apply: (name: string, file: string, spec?: object) => Promise<void>;
  readonly untilReady: (name: string) => Promise<void>;
  /** Requests to a service's engine, more at once than it has slots, until disposed. */
  readonly keepBusy: (name: string) => Promise<AsyncDisposable>;
  readonly killEngines: () => void;
}

const CLIENTS = 12;

export async function startBusyFleet(kubeconfig: string): Promise<BusyFleet> {
  const folder = await mkdtemp(path.join(tmpdir(), "mb-busy-"));
  const outside = `${testAddress()}:${await freePort(testAddress())}`;
  const credentials_file = path.join(folder, "token");
  await writeFile(credentials_file, "token-of-this-test\n");
  const [metricsAddress, metricsPort] = outside.split(":");
  const config = { metricsPort: Number(metricsPort), metricsAddress, metricsTokenFile: credentials_file };
  const farm = await startFleet({ kubeconfig, address: testAddress(), agents: [{ config }] });
  const flags = ["server", "--kubeconfig", kubeconfig, "--port", "0", "--health-port", "0"];
  const server = startPart(flags, path.join(folder, "server.log"));
  await writeTinyGguf(path.join(farm.modelsDir, "chat.gguf"), {
    endless: true,
    layers: 8,
    embeddingSize: 256,
  });
  const open = {
    agent: `127.0.0.1:${await portIn(farm.agent(), "port")}`,
    controller: `127.0.0.1:${await portIn(farm.controller(), "healthPort")}`,
  };
  const density = `127.0.0.1:${await portIn(server, "health")}`;
  const at = (...targets: readonly string[]) => [{ targets }];
  return {
    farm,
    open,
    jobs: [
      { job_name: "metalbridge-controller", honor_labels: true, static_configs: at(open.controller) },
      { job_name: "metalbridge-agent", honor_labels: true, static_configs: at(open.agent) },
      {
        job_name: "metalbridge-agent-outside",
        honor_labels: true,
        authorization: { credentials_file },
        static_configs: at(outside),
      },
      { job_name: "metalbridge-server", honor_labels: true, static_configs: at(density) },
    ],
    apply: (name, file, spec = {}) => apply(farm, name, file, spec),
    untilReady: async (name) => {
      await farm.objects.until("default", `isvc/${name}`, (service) =>
        expect(service?.status?.phase).toBe("Ready"),
      );
    },
    keepBusy: (name) => keepBusy(farm, name),
    killEngines: () => {
      for (const pid of livingEngines(farm.stateDir).values()) process.kill(pid, "SIGKILL");
    },
    [Symbol.asyncDispose]: async () => {
      await server[Symbol.asyncDispose]();
      await farm[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function portIn(part: Part, key: string): Promise<string> {
  return until(() => {
    const found = new RegExp(
      `"${key}":(\\d+),"msg":"(?:listening on loopback|controller started|server started)`,
    ).exec(part.log())?.[1];
    if (found === undefined) throw new Error(`no port in the log: ${part.log().slice(-1_000)}`);
    return found;
  });
}

async function apply(farm: TestFleet, name: string, file: string, spec: object): Promise<void> {
  const service = serviceAnywhere(name, { contextSize: 512, ...spec });
  await farm.objects.apply(model(name, path.join(farm.modelsDir, file)), service);
}

async function keepBusy(farm: TestFleet, service: string): Promise<AsyncDisposable> {
  const [replica] = await farm.objects.list(INFERENCE_REPLICAS, `metalbridge.dev/service=${service}`);
  const url = `http://${testAddress()}:${replica?.status?.port}/v1/chat/completions`;
  const stop = new AbortController();
  const body = JSON.stringify({
    max_tokens: 64,
    messages: [{ role: "user", content: "Tell me of the sea." }],
  });
  const headers = { "content-type": "application/json" };
  const client = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      const answer = await fetch(url, { method: "POST", headers, body, signal: stop.signal });
      await answer.text();
    }
  };
  const clients = Promise.allSettled(Array.from({ length: CLIENTS }, client));
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await clients;
    },
  };
}
