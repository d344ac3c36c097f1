/** `metalbridge demo`, which is what `npm start` runs, as a user runs it: the runs of one test, in a folder of their own. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "vitest";
import { packageRoot } from "../../local/package-root.ts";
import { processesNaming } from "../bed/leftovers.ts";
import { type Network, openNetwork } from "../bed/network.ts";
import { until } from "../bed/until.ts";

const program = path.join(packageRoot(), "cli", "metalbridge.mjs");

export interface Run {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly stdout: () => string;
  readonly ended: Promise<readonly [number | null, NodeJS.Signals | null]>;
}

export interface Demos extends AsyncDisposable {
  /** The demo's, unless it is given another. */
  readonly dir: string;
  readonly network: Network;
  readonly demo: (args: readonly string[], env?: NodeJS.ProcessEnv) => Run;
  readonly untilPrinted: (run: Run, text: string) => Promise<void>;
  readonly untilNothingIsLeft: () => Promise<void>;
  /** Ends those that still run. */
  readonly endAll: () => Promise<void>;
}

export async function openDemos(): Promise<Demos> {
  const network = await openNetwork(["station"]);
  const dir = await mkdtemp(path.join(tmpdir(), "metalbridge-demo-"));
  const runs: Run[] = [];
  const demo: Demos["demo"] = (args, env = {}) => {
    const run = startDemo(["--dir", dir, "--address", network.gateway, ...args], env);
    runs.push(run);
    return run;
  };
  const endAll = async () => {
    for (const { child, ended } of runs.splice(0)) {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGINT");
      await ended;
    }
  };
  return {
    dir,
    network,
    demo,
    endAll,
    untilPrinted: (run, text) =>
      until(() => {
        if (run.child.exitCode !== null) throw new Error(`ended early:\n${run.output()}`);
        expect(run.output()).toContain(text);
      }),
    untilNothingIsLeft: async () => {
      await until(() => expect(processesNaming(dir)).toEqual([]), { everyMs: 200 });
    },
    [Symbol.asyncDispose]: async () => {
      await endAll();
      await rm(dir, { recursive: true, force: true });
      await network[Symbol.asyncDispose]();
    },
  };
}

function startDemo(args: readonly string[], env: NodeJS.ProcessEnv): Run {
  const child = spawn(process.execPath, [program, "demo", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
    env: { ...process.env, ...env },
  });
  let output = "";
  let stdout = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output += String(chunk);
      if (stream === child.stdout) stdout += String(chunk);
    });
  }
  const ended = new Promise<readonly [number | null, NodeJS.Signals | null]>((resolve) => {
    child.once("close", (code, signal) => resolve([code, signal]));
  });
  return { child, output: () => output, stdout: () => stdout, ended };
}
