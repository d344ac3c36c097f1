/**
 * The very containers of a group of llamacpp, each as process 1 of a machine of its own, with the real llama-server and the real
 * ggml-rpc-server in the place of the image.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { findLlamaRpc } from "../../../scripts/setup/llama/rpc.mjs";
import type { Container } from "../../../src/kube/workload-objects.ts";
import { type Network, openNetwork, type Station, whyNoNetwork } from "../../../test/bed/network.ts";
import { execute } from "../../../test/bed/run.ts";
import { send } from "../../../test/bed/signal.ts";
import { findLlamaServer } from "../../../test/fixtures/llama-server.ts";
import { type TemporaryFolder, temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { writeTinyGguf } from "../../../test/fixtures/tiny-gguf.ts";
import { inputOf } from "./fixtures/workload-input.ts";
import { buildGroup } from "./group.ts";

const server = findLlamaServer();
const programs = server === undefined ? undefined : findLlamaRpc(server);
const why = whyNoNetwork() ?? (programs === undefined ? "needs ggml-rpc-server" : undefined);
const WAIT = { timeout: 60_000, interval: 50 };
const LEADER = "chat-group-0";
const WORKER = "chat-group-0-1";

const { group } = buildGroup(
  inputOf({
    service: {
      image: "engine-with-rpc:1",
      group: { size: 2 },
      contextSize: 512,
      extraArgs: ["--threads", "1"],
    },
    model: { source: "hf://org/m/m.gguf", hardware: { accelerator: "cpu" } },
    status: { gguf: { layerCount: 4 } },
    weights: { claimName: "cache", folder: "k", file: "m.gguf" },
    replicas: 1,
  }),
);
const { leaderTemplate, workerTemplate } = group.spec.leaderWorkerTemplate;

const isRunning = ({ exitCode, signalCode }: ChildProcess) => exitCode === null && signalCode === null;

/** The process that is process 1 in a container. */
function processOf({ pid }: ChildProcess): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8"));
}

describe.skipIf(why !== undefined)(`a group of llamacpp (${why ?? "real processes"})`, () => {
  let folder: TemporaryFolder;
  let network: Network;
  const running: ChildProcess[] = [];

  beforeAll(async () => {
    folder = await temporaryFolder();
    network = await openNetwork(["leader", "worker"]);
    const address = (name: string) => network.station(name).address;
    const hosts = [`${address("worker")} ${WORKER}.chat-group.team-a`, `${address("leader")} ${LEADER}`];
    writeFileSync(path.join(folder.path, "hosts"), `127.0.0.1 localhost\n${hosts.join("\n")}\n`);
    await writeTinyGguf(path.join(folder.path, "m.gguf"), { layers: 4 });
  });
  afterAll(async () => {
    const ended = running.filter(isRunning).map((child) => once(child, "exit"));
    for (const child of running) child.kill("SIGKILL");
    await Promise.all(ended);
    await network?.[Symbol.asyncDispose]();
    await folder?.[Symbol.asyncDispose]();
  });

  const logOf = (name: string) => readFileSync(path.join(folder.path, `${name}.log`), "utf8");

  /** Starts a container as a kubelet does. */
  function start(station: Station, { name, command = ["llama-server"], args = [], env = [] }: Container) {
    const variables = Object.fromEntries(
      env.map(({ name, value, valueFrom }) => [name, valueFrom === undefined ? value : LEADER]),
    );
    const given = [...command, ...args].map((text) =>
      text
        .replace(/\$\((\w+)\)/g, (_, name) => String(variables[name]))
        .replace("/models/", `${folder.path}/`),
    );
    const hosts = path.join(folder.path, "hosts");
    const [enter = "", ...inside] = [
      ...station.inside,
      ...["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"],
      ...["sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"', hosts, ...given],
    ];
    const log = openSync(path.join(folder.path, `${station.name}-${name}.log`), "w");
    const programPath = `${programs}:${process.env.PATH}`;
    const child = spawn(enter, inside, {
      env: { ...variables, HOME: folder.path, PATH: programPath, LLAMA_ARG_LOG_VERBOSITY: "4" },
      stdio: ["ignore", log, log],
    });
    closeSync(log);
    running.push(child);
    return child;
  }

  /** The exit code of a liveness probe. */
  async function probe(child: ChildProcess, { livenessProbe }: Container): Promise<number | string> {
    const { exec } = livenessProbe as { exec: { command: string[] } };
    const within = ["--target", String(processOf(child)), "--mount", "--pid", "--"];
    return (await execute("nsenter", [...within, ...exec.command])).code;
  }

  test("the leader waits for its worker, answers with layers on it, and ends when it has lost it", async () => {
    const [leader, worker] = [network.station("leader"), network.station("worker")];
    const [engine] = leaderTemplate.spec.containers;
    const [waiting] = leaderTemplate.spec.initContainers ?? [];
    const [fed] = workerTemplate.spec.containers;
    if (engine === undefined || waiting === undefined || fed === undefined) throw new Error("no containers");
    const init = start(leader, waiting);
    const rpc = start(worker, fed);
    expect(await once(init, "exit")).toEqual([0, null]);

    const head = start(leader, engine);
    const url = `http://${leader.address}:8080`;
    const health = async () => (await fetch(`${url}/health`)).status;
    await vi.waitFor(async () => expect(await health(), logOf("leader-engine")).toBe(200), WAIT);
    const complete = () =>
      fetch(`${url}/v1/completions`, {
        method: "POST",
        body: JSON.stringify({ prompt: "a", max_tokens: 4 }),
      });
    expect(await (await complete()).json()).toMatchObject({ usage: { completion_tokens: 4 } });
    // Two of its four layers, and the output.
    expect(logOf("leader-engine")).toContain("offloaded 3/5 layers");
    expect(logOf("leader-engine")).toContain(`RPC0[${WORKER}.chat-group.team-a:50052] model buffer size`);
    expect(await probe(rpc, fed)).toBe(0);
    send(processOf(rpc), "SIGSTOP");
    expect(await probe(rpc, fed)).toBe(1);
    send(processOf(rpc), "SIGCONT");

    const [rpcEnded, headEnded] = [once(rpc, "exit"), once(head, "exit")];
    send(processOf(rpc), "SIGKILL");
    await rpcEnded;
    // Its probe still succeeds, so only LeaderWorkerSet, which sees the exit of the worker, can recreate the group at once.
    expect(await health()).toBe(200);
    await expect(complete()).rejects.toThrow();
    expect(await headEnded).not.toEqual([0, null]);
    expect(logOf("leader-engine")).toContain("Remote RPC server crashed");
  });
});
