/** The bundle that users run has its metrics. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { agentMetrics } from "../../agent/metrics/families.ts";
import { controllerMetrics } from "../../controller/frame/metrics/families.ts";
import { startPart } from "../bed/part.ts";
import { freshBundle, installRelease } from "../bed/release.ts";
import { until } from "../bed/until.ts";
import { parseExposition } from "./exposition.ts";

let folder = "";
let program = "";

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "mb-bundle-"));
  const bundle = await freshBundle(path.join(folder, "bundle"));
  program = installRelease(path.join(folder, "release"), "0.1.0-test", bundle).program;
});
afterAll(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));

/** The answer of /metrics of a part whose log names the port of its server under `key`. */
async function metricsOf(args: readonly string[], key: string): Promise<string> {
  await using part = startPart(args, path.join(folder, `${args[0]}.log`), program);
  const port = await until(() => {
    const found = new RegExp(`"${key}":(\\d+)`).exec(part.log())?.[1];
    if (found === undefined) throw new Error(`no port in the log: ${part.log().slice(-1_000)}`);
    return found;
  });
  const response = await fetch(`http://127.0.0.1:${port}/metrics`);
  return response.text();
}

test("the agent's", async () => {
  const text = await metricsOf(
    [
      "agent",
      "--host-name",
      "mac-1",
      "--state-dir",
      path.join(folder, "state"),
      "--kubeconfig",
      "/nonexistent",
    ],
    "port",
  );
  expect([...parseExposition(text).keys()]).toEqual(agentMetrics.map(({ name }) => name));
});

test("the controller's", async () => {
  const kubeconfig = path.join(folder, "kubeconfig");
  const clusters = [{ name: "c", cluster: { server: "https://127.0.0.1:1" } }];
  const contexts = [{ name: "c", context: { cluster: "c", user: "u" } }];
  const config = {
    apiVersion: "v1",
    kind: "Config",
    clusters,
    contexts,
    "current-context": "c",
    users: [{ name: "u", user: {} }],
  };
  await writeFile(kubeconfig, JSON.stringify(config));
  const text = await metricsOf(
    ["controller", "--kubeconfig", kubeconfig, "--health-port", "0"],
    "healthPort",
  );
  expect([...parseExposition(text).keys()]).toEqual(controllerMetrics.map(({ name }) => name));
});
