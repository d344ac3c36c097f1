/**
 * `metalbridge demo`, which is what `npm start` runs, as a user runs it: from an empty folder, and again. How else it ends: demo.system.test.ts.
 *
 * CPU: each demo is a control plane, a controller and an agent from nothing.
 */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { machineAddress } from "../../local/demo/address.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { pidsNaming } from "../bed/leftovers.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { until } from "../bed/until.ts";
import { runVerb } from "../cli/program.ts";
import { type Demos, openDemos } from "./demos.ts";

describeUnless(whyNoNodeNetwork(), "the demo", () => {
  let on: Demos;

  beforeAll(async () => {
    on = await openDemos();
  });

  afterEach(() => on.endAll());
  afterAll(() => on?.[Symbol.asyncDispose]());

  it("ends with one line of JSON, and leaves nothing running", async () => {
    const run = on.demo(["--once", "--output", "json"]);
    const [code] = await run.ended;
    expect(code, run.output()).toBe(0);
    const line = run.output().trimEnd().split("\n").at(-1) ?? "";
    const result = JSON.parse(line);
    expect(result).toMatchObject({ ready: true, endpoint: expect.stringContaining(on.network.gateway) });
    expect(result.reply).not.toBe("");
    for (const name of ["controlPlaneMs", "readyMs", "answerMs", "totalMs"])
      expect(result.timings[name]).toBeGreaterThan(0);
    await on.untilNothingIsLeft();
  });

  it("restores its service from the folder, prints what to try next, restarts its gateway, refuses a second demo there, and stops when its terminal closes, even when signaled repeatedly", async () => {
    const run = on.demo([]);
    await on.untilPrinted(run, "Try next");
    expect(run.output()).toContain(`export KUBECONFIG=${on.dir}`);
    const kubeconfig = path.join(on.dir, "control-plane", "kubeconfig");
    expect(await runVerb(["logs", "quickstart"], { kubeconfig })).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("server"),
    });
    // The agent answers: the generated model is used where it lies, so none is in its store.
    expect(await runVerb(["models", "list", "--output", "json"], { kubeconfig })).toMatchObject({
      code: 0,
      stdout: "[]\n",
      stderr: "",
    });
    const [gateway] = pidsNaming(on.dir, " gateway --kubeconfig ");
    expect(gateway).toBeDefined();
    process.kill(gateway ?? 0, "SIGKILL");
    await on.untilPrinted(run, "gateway ended with SIGKILL, and is started again");
    const baseUrl = /gateway +(http:\S+\/v1)/.exec(run.output())?.[1];
    await until(async () => expect((await fetch(`${baseUrl}/models`)).status).toBe(200));
    const second = on.demo(["--once"]);
    expect((await second.ended)[0]).toBe(1);
    expect(second.output()).toContain("ControlPlaneRunning");
    for (const signal of ["SIGHUP", "SIGINT", "SIGINT", "SIGTERM"] as const) run.child.kill(signal);
    await run.ended;
    await on.untilNothingIsLeft();
  });

  it("stops on Ctrl-C while it is still starting", async () => {
    const run = on.demo([]);
    await on.untilPrinted(run, "control plane");
    run.child.kill("SIGINT");
    expect(await run.ended).toEqual([130, null]);
    await on.untilNothingIsLeft();
  });

  it("refuses a file that is no model before anything starts", async () => {
    const file = path.join(on.dir, "no-model.gguf");
    await writeFile(file, "no model");
    const run = on.demo(["--once", "--model", file]);
    expect((await run.ended)[0]).toBe(1);
    expect(run.output()).toMatch(/^GgufBadMagic: .*no-model\.gguf/);
    expect(run.output()).not.toContain("control plane");
  });

  it("refuses an engine that it does not know, and one that is not installed, before anything starts", async () => {
    const unknown = on.demo(["--engine", "vllm"]);
    expect((await unknown.ended)[0]).toBe(2);
    expect(unknown.output()).toContain("Allowed choices are llamacpp, ollama");
    const absent = on.demo(["--engine", "ollama"], { PATH: "/nowhere", METALBRIDGE_CACHE: "/nowhere" });
    expect((await absent.ended)[0]).toBe(1);
    expect(absent.output()).toMatch(/RuntimeNotInstalled: ollama was not found[\s\S]*brew install ollama/);
    expect(absent.output()).not.toContain("control plane");
  });
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
