import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import {
  findControlPlaneSession,
  openSession,
  requireSchedulerConfig,
  type SessionInfo,
  socketPath,
  stopSession,
} from "./session.ts";

const info: SessionInfo = { pid: process.pid, state: "ready", kubeconfig: "/k", url: "https://x" };
const open = (dir: string, onStop = async () => {}) => openSession({ dir, info: () => info, onStop });

test("the process that opened the folder answers for it, and no other can open it", async () => {
  await using folder = await temporaryFolder();
  expect(await findControlPlaneSession(folder.path)).toBeUndefined();
  const session = await open(folder.path);
  expect(await findControlPlaneSession(folder.path)).toEqual(info);
  await expect(open(folder.path)).rejects.toMatchObject({ code: "ControlPlaneRunning" });
  session.close();
  expect(await findControlPlaneSession(folder.path)).toBeUndefined();
});

test("a control plane with another configuration of its scheduler is not the requested one", () => {
  const configured = { ...info, schedulerConfig: "a" };
  requireSchedulerConfig("/d", configured, "a");
  requireSchedulerConfig("/d", configured, undefined);
  for (const other of [info, { ...info, schedulerConfig: "b" }])
    expect(() => requireSchedulerConfig("/d", other, "a")).toThrow(
      expect.objectContaining({ code: "ControlPlaneRunning" }),
    );
});

test("the order to stop is answered when everything has been stopped", async () => {
  await using folder = await temporaryFolder();
  const steps: string[] = [];
  const session = await open(folder.path, async () => {
    await new Promise((resolve) => setImmediate(resolve));
    steps.push("stopped");
    session.close();
  });
  expect(await stopSession(folder.path, 5_000)).toBe(true);
  expect(steps).toEqual(["stopped"]);
  expect(await stopSession(folder.path, 5_000)).toBe(false);
});

test("a socket that a killed process left is replaced", async () => {
  await using folder = await temporaryFolder();
  const file = socketPath(folder.path);
  spawnSync(process.execPath, [
    "-e",
    `require("net").createServer().listen(${JSON.stringify(file)}, () => process.kill(process.pid, "SIGKILL"))`,
  ]);
  expect(existsSync(file)).toBe(true);
  const session = await open(folder.path);
  expect(await findControlPlaneSession(folder.path)).toEqual(info);
  session.close();
});

test("a process that holds the folder and does not answer is not none", async () => {
  await using folder = await temporaryFolder();
  const file = socketPath(folder.path);
  const script = `require("net").createServer().listen(${JSON.stringify(file)}, () => console.log("listens"))`;
  const child = spawn(process.execPath, ["-e", script]);
  try {
    await once(child.stdout, "data");
    child.kill("SIGSTOP");
    await expect(findControlPlaneSession(folder.path, 100)).rejects.toMatchObject({
      code: "ControlPlanePartFailed",
      remedy: { command: `kill -KILL $(lsof -t ${file})` },
    });
  } finally {
    child.kill("SIGKILL");
  }
});

test("a folder with a very long name works too", async () => {
  await using folder = await temporaryFolder();
  const deep = path.join(folder.path, "x".repeat(120));
  await mkdir(deep);
  expect(Buffer.byteLength(socketPath(deep))).toBeLessThanOrEqual(103);
  const session = await open(deep);
  expect(await findControlPlaneSession(deep)).toEqual(info);
  session.close();
});
