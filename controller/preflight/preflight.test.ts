/** The webhook over HTTP: what is no review, and a judge that fails. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { keepLines, type LogLine } from "../../test/fixtures/log-lines.ts";
import { createHandler } from "./preflight.ts";

const review = JSON.stringify({
  ...{ apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview" },
  request: {
    ...{ uid: "u-1", kind: { kind: "InferenceService" }, operation: "CREATE", namespace: "team" },
    object: { metadata: { name: "chat" }, spec: { modelRef: "qwen" } },
  },
});

test("where the judge fails, the service is let through, the failure is logged and the next one is judged", async () => {
  const lines: LogLine[] = [];
  let judged = 0;
  const handler = createHandler({ mode: "Deny", log: keepLines(lines) }, () => {
    judged += 1;
    if (judged === 1) throw new RangeError("unforeseen");
    return { at: "nowhere", message: "needs 2 GiB" };
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
