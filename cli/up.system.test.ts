import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { findControlPlaneSession } from "../local/control-plane/session.ts";
import { kubectlFor } from "../test/bed/kubectl.ts";
import { type TemporaryFolder, temporaryFolder } from "../test/fixtures/temporary-folder.ts";

const program = path.join(import.meta.dirname, "metalbridge.mjs");

interface RunningUp extends AsyncDisposable {
  readonly child: ChildProcess;
  readonly ready: Promise<void>;
  readonly output: () => string;
}

function startUp(dir: string, ...args: string[]): RunningUp {
  const child = spawn(process.execPath, [program, "up", "--dir", dir, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
  });
  let text = "";
  const ready = new Promise<void>((resolve, reject) => {
    const see = (chunk: Buffer) => {
      text += chunk.toString("utf8");
      if (text.includes("export KUBECONFIG=")) resolve();
    };
    child.stdout?.on("data", see);
    child.stderr?.on("data", see);
    child.once("exit", (code) => reject(new Error(`up ended with ${code}: ${text}`)));
  });
  ready.catch(() => {});
  const dispose = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGKILL");
    await once(child, "exit");
  };
  return { child, ready, output: () => text, [Symbol.asyncDispose]: dispose };
}

function run(...args: string[]): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [program, ...args], { timeout: 120_000 }, (error, stdout, stderr) => {
      resolve({ code: error === null ? 0 : Number(error.code), output: `${stdout}${stderr}` });
    });
  });
}

/** Command lines that name the folder: every part's does. */
function processesOf(dir: string): Promise<string[]> {
  return new Promise((resolve) => {
    execFile("ps", ["-A", "-o", "args="], { maxBuffer: 16 * 1024 * 1024 }, (_error, stdout) => {
      resolve(stdout.split("\n").filter((line) => line.includes(dir) && !line.startsWith("ps ")));
    });
  });
}

async function nothingLeft(dir: string, port: number): Promise<void> {
  await vi.waitFor(async () => expect(await processesOf(dir)).toEqual([]), {
    timeout: 60_000,
    interval: 100,
  });
  await expect(
    new Promise((resolve, reject) => {
      const socket = connect(port, "127.0.0.1", () => resolve(socket.destroy()));
      socket.once("error", reject);
    }),
  ).rejects.toThrow(/ECONNREFUSED/);
}

function portOf(dir: string): number {
  return Number(JSON.parse(readFileSync(path.join(dir, "control-plane.json"), "utf8")).port);
}

test("a detached control plane is found by a second up, keeps its data and its port, and is stopped by down", async () => {
  await using folder = await temporaryFolder();
  const dir = path.join(folder.path, "state");
  const first = await run("up", "--dir", dir, "--detach");
  expect(first).toMatchObject({
    code: 0,
    output: expect.stringContaining(`export KUBECONFIG=${dir}/kubeconfig`),
  });
  expect(first.output).toMatch(/console at http:\/\/127\.0\.0\.1:\d+\/console\/#code=/);
  try {
    const port = portOf(dir);
    const again = await run("up", "--dir", dir);
    expect(again).toMatchObject({ code: 0, output: expect.stringContaining("already running") });
    const kubectl = kubectlFor(path.join(dir, "kubeconfig"));
    const installed = await kubectl(["get", "crd,priorityclass", "-o", "name"]);
    expect(installed).toContain("inferenceservices.metalbridge.dev");
    expect(installed).toContain("/metalbridge-normal");
    await kubectl(["create", "configmap", "kept"]);
    expect((await run("down", "--dir", dir)).code).toBe(0);
    await nothingLeft(dir, port);

    expect((await run("up", "--dir", dir, "--detach")).code).toBe(0);
    expect(portOf(dir)).toBe(port);
    expect(await kubectl(["get", "configmap", "kept", "-o", "name"])).toBe("configmap/kept\n");
  } finally {
    await run("down", "--dir", dir);
  }
});

test.each([
  ["Ctrl-C", ["SIGINT"], 130],
  ["two Ctrl-C", ["SIGINT", "SIGINT"], 130],
  ["a closed terminal", ["SIGHUP"], 0],
  ["TERM", ["SIGTERM"], 0],
] as const)("%s stops everything", async (_name, signals, code) => {
  await using folder = await temporaryFolder();
  await using up = startUp(folder.path);
  await up.ready;
  const port = portOf(folder.path);
  for (const signal of signals) up.child.kill(signal);
  const [exitCode] = await once(up.child, "exit");
  expect(exitCode).toBe(code);
  await nothingLeft(folder.path, port);
});

test("Ctrl-C while it is still starting leaves nothing either", async () => {
  await using folder = await temporaryFolder();
  await using up = startUp(folder.path);
  await vi.waitFor(async () => expect((await processesOf(folder.path)).length).toBeGreaterThan(1), {
    timeout: 60_000,
  });
  up.child.kill("SIGINT");
  await once(up.child, "exit");
  await vi.waitFor(async () => expect(await processesOf(folder.path)).toEqual([]), { timeout: 60_000 });
});

test("a killed up leaves nothing running, and the next one starts on the same port", async () => {
  await using folder = await temporaryFolder();
  const dir = folder.path;
  await using up = startUp(dir);
  await up.ready;
  const port = portOf(dir);
  up.child.kill("SIGKILL");
  // At once, while the parts of the killed one are still ending.
  await using next = startUp(dir);
  await next.ready;
  expect(portOf(dir)).toBe(port);
  expect((await findControlPlaneSession(dir))?.pid).toBe(next.child.pid);
  next.child.kill("SIGKILL");
  await once(next.child, "exit");
  await nothingLeft(dir, port);
});

describe("a control plane that runs", () => {
  let folder: TemporaryFolder;
  let up: RunningUp;

  beforeAll(async () => {
    folder = await temporaryFolder();
    up = startUp(folder.path);
    await up.ready;
  });

  afterAll(async () => {
    await up?.[Symbol.asyncDispose]();
    await folder?.[Symbol.asyncDispose]();
  });

  test("a port that is taken is named, and nothing is started", async () => {
    await using other = await temporaryFolder();
    const refused = await run("up", "--dir", other.path, "--port", String(portOf(folder.path)));
    expect(refused).toMatchObject({ code: 1, output: expect.stringMatching(/PortTaken: cannot listen/) });
    expect(await processesOf(other.path)).toEqual([]);
  });

  test("the parts that crash come back, and the terminal says so", async () => {
    const kubectl = kubectlFor(path.join(folder.path, "kubeconfig"));
    for (const part of ["etcd", "kube-apiserver"]) {
      const pids = await new Promise<number[]>((resolve) => {
        execFile("ps", ["-A", "-o", "pid=,args="], { maxBuffer: 16 * 1024 * 1024 }, (_error, stdout) => {
          const mine = stdout
            .split("\n")
            .filter((line) => line.includes(folder.path) && line.includes(`/${part} --`));
          resolve(mine.filter((line) => !line.includes("/bin/sh")).map((line) => Number.parseInt(line, 10)));
        });
      });
      expect(pids).toHaveLength(1);
      process.kill(pids[0] ?? 0, "SIGKILL");
      await vi.waitFor(() => expect(up.output()).toContain(`part=${part}`), { timeout: 60_000 });
      await vi.waitFor(async () => expect(await kubectl(["get", "--raw", "/readyz"])).toBe("ok"), {
        timeout: 60_000,
        interval: 200,
      });
    }
  });
});
