import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { loadAgentConfig } from "../../agent/config/load.ts";
import { openSession } from "../../local/control-plane/session.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { findLocalAgent } from "./local-agent.ts";

test("the demo whose kubeconfig is in use is meant, and flags win", async () => {
  await using folder = await temporaryFolder();
  const kubeconfig = path.join(folder.path, "control-plane", "kubeconfig");
  const agent = path.join(folder.path, "agent");
  mkdirSync(agent, { recursive: true });
  expect((await findLocalAgent({ kubeconfig })).stateDir).toBe(agent);
  expect((await findLocalAgent({ kubeconfig, stateDir: "/elsewhere" })).stateDir).toBe("/elsewhere");
  const other = path.join(folder.path, "other", "kubeconfig");
  expect((await findLocalAgent({ kubeconfig: other })).stateDir).not.toBe(agent);
});

test("the demo that runs in this folder is meant where no agent is installed", async ({ skip }) => {
  skip(existsSync(loadAgentConfig({}).stateDir), "an agent is installed on this machine");
  await using folder = await temporaryFolder();
  const plane = path.join(folder.path, "control-plane");
  const agent = path.join(folder.path, "agent");
  for (const dir of [plane, agent]) mkdirSync(dir, { recursive: true });
  const find = () => findLocalAgent({ kubeconfig: "/none/kubeconfig" }, folder.path);
  expect((await find()).stateDir).not.toBe(agent);
  const info = () => ({ pid: process.pid, state: "ready" as const, kubeconfig: "" });
  const session = await openSession({ dir: plane, info, onStop: async () => {} });
  try {
    expect((await find()).stateDir).toBe(agent);
  } finally {
    session.close();
  }
});
