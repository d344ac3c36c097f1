/** `metalbridge demo` when it, its agent or its model fails, and with Ollama. */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { pidsNaming } from "../bed/leftovers.ts";
import { openNetwork } from "../bed/network.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { objectsOf, type Untyped } from "../bed/objects.ts";
import { until } from "../bed/until.ts";
import { runVerb } from "../cli/program.ts";
import { ollama } from "../fixtures/ollama.ts";
import { type Demos, openDemos, type Run } from "./demos.ts";

describeUnless(whyNoNodeNetwork(), "the demo", () => {
  let on: Demos;

  beforeAll(async () => {
    on = await openDemos();
  });

  afterEach(() => on.endAll());
  afterAll(() => on?.[Symbol.asyncDispose]());

  it("leaves nothing running when it is killed itself", async () => {
    const run = on.demo([]);
    await on.untilPrinted(run, "Try next");
    run.child.kill("SIGKILL");
    await run.ended;
    await on.untilNothingIsLeft();
  });

  it("leaves no engine running when its agent is killed, and says what ended", async () => {
    const run = on.demo([]);
    await on.untilPrinted(run, "Try next");
    // A child of it that has only been forked looks like it for a moment.
    const agent = await until(() => {
      const [one, ...more] = pidsNaming(on.dir, " agent --kubeconfig ");
      if (one === undefined || more.length > 0) throw new Error("there has to be one agent");
      return one;
    });
    process.kill(agent, "SIGKILL");
    expect((await run.ended)[0]).toBe(1);
    expect(run.output()).toContain("DemoPartEnded: agent ended with SIGKILL");
    await on.untilNothingIsLeft();
  });

  it("exits as soon as the model has failed, says nothing of that in the next run, and keeps what the user changed", async () => {
    const other = `${on.dir}-bad`;
    const bad = on.demo([
      "--once",
      "--dir",
      other,
      "--model",
      "https://127.0.0.1/a.gguf",
      "--output",
      "json",
    ]);
    expect((await bad.ended)[0]).toBe(1);
    expect(bad.output()).toMatch(/Model\/quickstart +Failed .*127\.0\.0\.1/);
    expect(JSON.parse(bad.stdout())).toEqual({
      ready: false,
      error: expect.objectContaining({
        code: "DemoNotReady",
        message: expect.stringMatching(/^it cannot become ready; Model.* is Failed: 127\.0\.0\.1/),
      }),
    });
    await on.untilNothingIsLeft();

    const good = on.demo(["--dir", other]);
    await on.untilPrinted(good, "Try next");
    expect(good.output()).not.toMatch(/127\.0\.0\.1(?!:\d+\/v1)|SourceNotAllowed/);
    const scale = ["scale", "quickstart", "0"];
    const kubeconfig = path.join(other, "control-plane", "kubeconfig");
    expect(await runVerb(scale, { kubeconfig })).toMatchObject({ code: 0 });
    good.child.kill("SIGINT");
    await good.ended;

    const kept = on.demo(["--dir", other]);
    await on.untilPrinted(kept, "kept as you changed it: InferenceService spec.replicas");
    await on.untilPrinted(kept, "the service is scaled to 0, as you left it");
    kept.child.kill("SIGINT");
    expect(await kept.ended).toEqual([130, null]);
    expect(kept.output()).not.toContain("earlier run");
    await on.untilNothingIsLeft();
    await rm(other, { recursive: true, force: true });
  });

  it("restores a farm that was moved to another network, requires a key, whose service is idle, and whose model has failed", async () => {
    await using network = await openNetwork(["moved"]);
    const other = `${on.dir}-restored`;
    const kubeconfig = path.join(other, "control-plane", "kubeconfig");
    const change = async (...change: readonly [name: string, spec: object]) => {
      using objects = objectsOf(kubeconfig);
      await objects.patch("default", change[0], { spec: change[1] });
    };
    const start = async (...more: readonly string[]) => {
      const run = on.demo(["--dir", other, ...more]);
      await on.untilPrinted(run, "Try next");
      return run;
    };
    const stop = async (run: Run) => {
      run.child.kill("SIGINT");
      expect(await run.ended).toEqual([130, null]);
    };

    const first = await start();
    expect(await runVerb(["key", "create", "team", "--yes", "--all"], { kubeconfig })).toMatchObject({
      code: 0,
    });
    await stop(first);

    const keyed = await start("--address", network.gateway);
    expect(keyed.output()).toContain(`another address than in the last run: ${network.gateway}`);
    expect(keyed.output()).toContain(`http://${network.gateway}:`);
    expect(keyed.output()).toContain("request to the address in the EndpointSlice");
    expect(keyed.output()).toContain('-H "authorization: Bearer $KEY"');
    await change("isvc/quickstart", { idle: { afterMinutes: 1, minimumResidencySeconds: 0 } });
    {
      using objects = objectsOf(kubeconfig);
      // A minute after the agent has reported that the last answer is 45 s old.
      const isIdle = ({ status }: Untyped) => expect(status?.phase).toBe("Idle");
      await objects.until("default", "isvc/quickstart", isIdle, { timeoutMs: 300_000 });
    }
    await stop(keyed);

    const idle = await start();
    expect(idle.output()).toContain("idle; the next request loads the model");
    expect(idle.output()).toContain("not asked: a key is required");
    await change("isvc/quickstart", { idle: null });
    await change("model/quickstart", { source: "https://127.0.0.1/a.gguf" });
    await stop(idle);

    const failed = await start();
    expect(failed.output()).toMatch(/it cannot become ready; Model.* is Failed: 127\.0\.0\.1/);
    await stop(failed);
    await on.untilNothingIsLeft();
    await rm(other, { recursive: true, force: true });
  }, 600_000);

  it.skipIf(ollama === undefined)(
    "serves with Ollama where that is asked for, in a folder of its own",
    async () => {
      const other = `${on.dir}-ollama`;
      const run = on.demo(["--dir", other, "--engine", "ollama"]);
      await on.untilPrinted(run, "Try next");
      expect(run.output()).toMatch(/InferenceService\/quickstart +Ready/);
      expect(existsSync(path.join(other, "agent", "ollama", "models", "manifests"))).toBe(true);
      run.child.kill("SIGINT");
      expect(await run.ended).toEqual([130, null]);
      await on.untilNothingIsLeft();
      await rm(other, { recursive: true, force: true });
    },
  );
});
