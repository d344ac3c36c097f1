/** `metalbridge demo`, which is what `npm start` runs, as a user runs it: from an empty folder, again, and ended in every way. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { machineAddress } from "../../local/demo/address.ts";
import { packageRoot } from "../../local/package-root.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { pidsNaming, processesNaming } from "../bed/leftovers.ts";
import { type Network, openNetwork } from "../bed/network.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { until } from "../bed/until.ts";
import { ollama } from "../fixtures/ollama.ts";

const program = path.join(packageRoot(), "cli", "metalbridge.mjs");

interface Run {
  readonly child: ChildProcess;
  readonly output: () => string;
  readonly stdout: () => string;
  readonly ended: Promise<readonly [number | null, NodeJS.Signals | null]>;
}

describeUnless(whyNoNodeNetwork(), "the demo", () => {
  let network: Network;
  let dir: string;
  const runs: Run[] = [];

  beforeAll(async () => {
    network = await openNetwork(["station"]);
    dir = await mkdtemp(path.join(tmpdir(), "metalbridge-demo-"));
  });

  afterEach(async () => {
    for (const { child, ended } of runs.splice(0)) {
      if (child.exitCode === null && child.signalCode === null) child.kill("SIGINT");
      await ended;
    }
  });

  afterAll(async () => {
    await rm(dir, { recursive: true, force: true });
    await network[Symbol.asyncDispose]();
  });

  it("ends with one line of JSON, and leaves nothing running", async () => {
    const run = demo(["--once", "--output", "json"]);
    const [code] = await run.ended;
    expect(code, run.output()).toBe(0);
    const line = run.output().trimEnd().split("\n").at(-1) ?? "";
    const result = JSON.parse(line);
    expect(result).toMatchObject({ ready: true, endpoint: expect.stringContaining(network.gateway) });
    expect(result.reply).not.toBe("");
    for (const name of ["controlPlaneMs", "readyMs", "answerMs", "totalMs"])
      expect(result.timings[name]).toBeGreaterThan(0);
    await untilNothingIsLeft();
  });

  it("restores its service from the folder, prints what to try next, refuses a second demo there, and stops when its terminal closes, even when signaled repeatedly", async () => {
    const run = demo([]);
    await untilPrinted(run, "Try next");
    expect(run.output()).toContain(`export KUBECONFIG=${dir}`);
    const kubeconfig = path.join(dir, "control-plane", "kubeconfig");
    const verb = (...args: readonly string[]) =>
      spawnSync(process.execPath, [program, ...args], {
        encoding: "utf8",
        env: { ...process.env, KUBECONFIG: kubeconfig },
      });
    expect(verb("logs", "quickstart")).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("server"),
    });
    // The agent answers: the generated model is used where it lies, so none is in its store.
    expect(verb("models", "list", "--output", "json")).toMatchObject({
      status: 0,
      stdout: "[]\n",
      stderr: "",
    });
    const second = demo(["--once"]);
    expect((await second.ended)[0]).toBe(1);
    expect(second.output()).toContain("ControlPlaneRunning");
    for (const signal of ["SIGHUP", "SIGINT", "SIGINT", "SIGTERM"] as const) run.child.kill(signal);
    await run.ended;
    await untilNothingIsLeft();
  });

  it("stops on Ctrl-C while it is still starting", async () => {
    const run = demo([]);
    await untilPrinted(run, "control plane");
    run.child.kill("SIGINT");
    expect(await run.ended).toEqual([130, null]);
    await untilNothingIsLeft();
  });

  it("leaves nothing running when it is killed itself", async () => {
    const run = demo([]);
    await untilPrinted(run, "Try next");
    run.child.kill("SIGKILL");
    await run.ended;
    await untilNothingIsLeft();
  });

  it("leaves no engine running when its agent is killed, and says what ended", async () => {
    const run = demo([]);
    await untilPrinted(run, "Try next");
    // A child of it that has only been forked looks like it for a moment.
    const agent = await until(() => {
      const [one, ...more] = pidsNaming(dir, " agent --kubeconfig ");
      if (one === undefined || more.length > 0) throw new Error("there has to be one agent");
      return one;
    });
    process.kill(agent, "SIGKILL");
    expect((await run.ended)[0]).toBe(1);
    expect(run.output()).toContain("DemoPartEnded: agent ended with SIGKILL");
    await untilNothingIsLeft();
  });

  it("refuses a file that is no model before anything starts", async () => {
    const file = path.join(dir, "no-model.gguf");
    await writeFile(file, "no model");
    const run = demo(["--once", "--model", file]);
    expect((await run.ended)[0]).toBe(1);
    expect(run.output()).toMatch(/^GgufBadMagic: .*no-model\.gguf/);
    expect(run.output()).not.toContain("control plane");
  });

  it("exits as soon as the model has failed, says nothing of that in the next run, and keeps what the user changed", async () => {
    const other = `${dir}-bad`;
    const bad = demo(["--once", "--dir", other, "--model", "https://127.0.0.1/a.gguf", "--output", "json"]);
    expect((await bad.ended)[0]).toBe(1);
    expect(bad.output()).toMatch(/Model\/quickstart +Failed .*127\.0\.0\.1/);
    expect(JSON.parse(bad.stdout())).toEqual({
      ready: false,
      error: expect.objectContaining({
        code: "DemoNotReady",
        message: expect.stringMatching(/^it cannot become ready; Model.* is Failed: 127\.0\.0\.1/),
      }),
    });
    await untilNothingIsLeft();

    const good = demo(["--dir", other]);
    await untilPrinted(good, "Try next");
    expect(good.output()).not.toMatch(/127\.0\.0\.1(?!:\d+\/v1)|SourceNotAllowed/);
    const scale = ["scale", "quickstart", "0"];
    execFileSync(process.execPath, [
      ...[program, ...scale, "--kubeconfig", path.join(other, "control-plane", "kubeconfig")],
    ]);
    good.child.kill("SIGINT");
    await good.ended;

    const kept = demo(["--dir", other]);
    await untilPrinted(kept, "kept as you changed it: InferenceService spec.replicas");
    await untilPrinted(kept, "the service is scaled to 0, as you left it");
    kept.child.kill("SIGINT");
    expect(await kept.ended).toEqual([130, null]);
    expect(kept.output()).not.toContain("earlier run");
    await untilNothingIsLeft();
    await rm(other, { recursive: true, force: true });
  });

  it.skipIf(ollama === undefined)(
    "serves with Ollama where that is asked for, in a folder of its own",
    async () => {
      const other = `${dir}-ollama`;
      const run = demo(["--dir", other, "--engine", "ollama"]);
      await untilPrinted(run, "Try next");
      expect(run.output()).toMatch(/InferenceService\/quickstart +Ready/);
      expect(existsSync(path.join(other, "agent", "ollama", "models", "manifests"))).toBe(true);
      run.child.kill("SIGINT");
      expect(await run.ended).toEqual([130, null]);
      await untilNothingIsLeft();
      await rm(other, { recursive: true, force: true });
    },
  );

  it("refuses an engine that it does not know, and one that is not installed, before anything starts", async () => {
    const unknown = demo(["--engine", "vllm"]);
    expect((await unknown.ended)[0]).toBe(2);
    expect(unknown.output()).toContain("Allowed choices are llamacpp, ollama");
    const absent = demo(["--engine", "ollama"], { PATH: "/nowhere", METALBRIDGE_CACHE: "/nowhere" });
    expect((await absent.ended)[0]).toBe(1);
    expect(absent.output()).toMatch(/RuntimeNotInstalled: ollama was not found[\s\S]*brew install ollama/);
    expect(absent.output()).not.toContain("control plane");
  });

  function demo(args: readonly string[], env: NodeJS.ProcessEnv = {}): Run {
    const all = ["demo", "--dir", dir, "--address", network.gateway, ...args];
    const child = spawn(process.execPath, [program, ...all], {
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
    const run = { child, output: () => output, stdout: () => stdout, ended };
    runs.push(run);
    return run;
  }

  async function untilPrinted(run: Run, text: string): Promise<void> {
    await until(() => {
      if (run.child.exitCode !== null) throw new Error(`ended early:\n${run.output()}`);
      expect(run.output()).toContain(text);
    });
  }

  async function untilNothingIsLeft(): Promise<void> {
    await until(() => expect(processesNaming(dir)).toEqual([]));
  }
});

describe("the demo's address", () => {
  it("is never one that an EndpointSlice refuses", () => {
    const entry = (address: string, family: "IPv4" | "IPv6", internal = false) =>
      ({ address, family, internal, netmask: "", mac: "", cidr: null, scopeid: 0 }) as never;
    expect(
      machineAddress({
        lo: [entry("127.0.0.1", "IPv4", true)],
        en0: [entry("fe80::1", "IPv6"), entry("fd00::7", "IPv6")],
      }),
    ).toBe("fd00::7");
    expect(machineAddress({ en0: [entry("169.254.3.4", "IPv4")], en1: [entry("192.0.2.9", "IPv4")] })).toBe(
      "192.0.2.9",
    );
    expect(() => machineAddress({ lo: [entry("127.0.0.1", "IPv4", true)] })).toThrow(/only loopback/);
  });
});
