/** The webhook over HTTP: what is no review, and a judge that fails. */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/kube/system-clock.ts";
import { keepLines, type LogLine } from "../../../test/fixtures/log-lines.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { parseControllerConfig } from "../../config.ts";
import { runController } from "../../main.ts";
import { createHandler } from "./preflight.ts";

const review = JSON.stringify({
  apiVersion: "admission.k8s.io/v1",
  kind: "AdmissionReview",
  request: {
    uid: "u-1",
    kind: { kind: "InferenceService" },
    operation: "CREATE",
    namespace: "team",
    object: { metadata: { name: "chat" }, spec: { modelRef: "qwen" } },
  },
});

test("if the judge fails, the service is allowed, the failure is logged and the next service is judged", async () => {
  const lines: LogLine[] = [];
  let judged = 0;
  const handler = createHandler({ mode: "Deny", log: keepLines(lines) }, () => {
    judged += 1;
    if (judged === 1) throw new RangeError("unforeseen");
    return { at: "nowhere", message: "needs 2 GiB", mayGrow: false };
  });
  const server = createServer(handler).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}/preflight`;
  const ask = async (body: string) => {
    const response = await fetch(at, { method: "POST", body, headers: { connection: "close" } });
    return response.ok ? response.json() : response.status;
  };
  expect(await ask(review)).toMatchObject({ response: { uid: "u-1", allowed: true } });
  expect(lines).toContainEqual(expect.objectContaining({ level: "error" }));
  expect(await ask(review)).toMatchObject({ response: { uid: "u-1", allowed: false } });
  expect(await ask("no review")).toBe(400);
});

test("a controller whose webhook has not listed its objects is not Ready for at most 30 seconds", async () => {
  await using folder = await temporaryFolder();
  const kubeconfig = path.join(folder.path, "nowhere.kubeconfig");
  await writeFile(
    kubeconfig,
    `apiVersion: v1
kind: Config
clusters: [{ name: c, cluster: { server: "https://127.0.0.1:1" } }]
contexts: [{ name: c, context: { cluster: c, user: u } }]
users: [{ name: u, user: { token: t } }]
current-context: c
`,
  );
  const flags = {
    kubeconfig,
    healthAddress: "127.0.0.1",
    healthPort: 0,
    preflight: "Deny",
    preflightPort: 0,
  };
  let nowMs = 0;
  let expire = () => {};
  const logged: LogLine[] = [];
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const listening = Promise.withResolvers<number>();
  const running = runController({
    config: parseControllerConfig(flags),
    log: keepLines(logged),
    signal: stop.signal,
    clock: {
      ...systemClock,
      monotonicMs: () => nowMs,
      after: (delayMs, fire) => {
        if (delayMs === 30_000) expire = fire;
        return systemClock.after(delayMs, fire);
      },
    },
    onListening: listening.resolve,
  });
  const port = await Promise.race([listening.promise, running]);
  const ready = async (route = "/readyz/preflight") => {
    const answer = await fetch(`http://127.0.0.1:${port}${route}`);
    return `${answer.status} ${await answer.text()}`;
  };
  const lists = ["Models", "Hosts", "BackendRuntimes", "Nodes", "reports of nodes", "its Secret"];
  const lines = lists.map((what) => `the preflight webhook has not listed ${what} yet`);
  expect((await ready()).replaceAll(/ yet: .*/g, " yet")).toBe(`503 ${lines.join("\n")}\n`);
  nowMs = 29_999;
  expect(await ready()).toMatch(/^503/);
  nowMs = 30_000;
  expect(await ready()).toBe("200 ok\n");
  expect(await ready("/readyz")).toContain(lines[0]);
  expire();
  const missing = lines.map((line) => expect.stringMatching(`^${line}`));
  expect(logged).toContainEqual(expect.objectContaining({ level: "warn", data: { missing } }));
  stop.abort();
  await running;
});
