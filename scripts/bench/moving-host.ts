/** One host in a network of its own, whose addresses can be changed under its agent; control plane and controller stay outside. */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { readPartsConfig } from "../../cli/control-plane/config.ts";
import { findLlamaServer } from "../../cli/control-plane/llama-server.ts";
import { API_VERSION } from "../../src/api/group.ts";
import type { Host } from "../../src/api/host.ts";
import { HOSTS } from "../../src/api/kinds.ts";
import { createNamespacePair, type NamespacePair } from "../../test/cluster/network-namespace.ts";
import { writeTinyGguf } from "../../test/fixtures/tiny-gguf.ts";
import { killEngines } from "../../test/system/engines.ts";
import { startPart } from "../../test/system/part.ts";
import { run } from "../../test/torture/bed/command.ts";
import { expectOk, isTrue, openPlane, type Plane } from "./plane.ts";
import { installRelease } from "./release.ts";

export interface MovingHost extends Plane {
  readonly stateDir: string;
  /** Its first address, and another one of the same network. */
  readonly addresses: readonly [string, string];
  /** One command of `ip` in the host's network per entry, all by one process. */
  readonly ip: (commands: readonly string[]) => Promise<void>;
  /** This machine's side: the API server is there. */
  readonly gateway: string;
}

const NAME = "mac-on-the-move";

/** Controller and agent run, Host and Model are ready. The agent finds its address by the route to the API server. */
export async function openMovingHost(): Promise<MovingHost> {
  const pair = await createNamespacePair();
  let plane: Plane | undefined;
  const dispose = async () => {
    await plane?.[Symbol.asyncDispose]();
    await pair.remove();
  };
  try {
    plane = await openPlane(pair.hostAddress);
    const stateDir = await startBoth(plane, pair);
    return {
      ...{ ...plane, stateDir, gateway: pair.hostAddress },
      addresses: [pair.insideAddress, pair.insideAddress.replace(/\d+$/, "102")],
      ip: async (commands) => {
        await run("ip", ["-n", pair.name, "-batch", "-"], `${commands.join("\n")}\n`);
      },
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** Resolves with the agent's state folder. */
async function startBoth(plane: Plane, pair: NamespacePair): Promise<string> {
  const { kubeconfig } = plane.controlPlane;
  const stateDir = path.join(plane.dir, "agent");
  const models = path.join(plane.dir, "models");
  const source = path.join(models, "bench.gguf");
  mkdirSync(models);
  await writeTinyGguf(source);
  const addresses = [pair.hostAddress.replace(/\d+$/, "0/24")];
  const host = { apiVersion: API_VERSION, kind: "Host", metadata: { name: NAME }, spec: { addresses } };
  expectOk(await plane.client.create(HOSTS, host as unknown as Host));
  const program = await installRelease(path.join(plane.dir, "release"));
  const controllerArgs = ["controller", "--kubeconfig", kubeconfig, "--health-port", "0"];
  const controller = startPart(controllerArgs, path.join(plane.dir, "controller.log"), program);
  plane.atEnd(() => controller.kill("SIGTERM"));
  const engine = findLlamaServer(readPartsConfig());
  const agentArgs = [
    ...["agent", "--kubeconfig", kubeconfig, "--host-name", NAME],
    ...["--state-dir", stateDir, "--model-root", models],
    ...(engine === undefined ? [] : ["--llama-server", engine]),
  ];
  const inside = ["nsenter", `--net=/run/netns/${pair.name}`, "--", process.execPath];
  const agent = startPart(agentArgs, path.join(plane.dir, "agent.log"), program, inside);
  plane.atEnd(async () => {
    await agent.kill("SIGTERM");
    killEngines(stateDir);
  });
  await plane.changed.until(
    "a Host that is ready",
    () => plane.hosts.list().some(({ status }) => isTrue(status?.conditions, "Ready")) || undefined,
  );
  await plane.createModel(source);
  return stateDir;
}
