import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { LiveClient } from "./client.ts";
import type { Batch, ToWorker } from "./messages.ts";

/** The parts of a browser that the client uses; frames come only when the test draws one. */
function openBrowser() {
  const frames: (() => void)[] = [];
  const document = { visibilityState: "visible" };
  vi.stubGlobal("document", document);
  vi.stubGlobal("navigator", { locks: { request: () => new Promise(() => {}) } });
  vi.stubGlobal("requestAnimationFrame", (act: () => void) => frames.push(act));
  const sent: ToWorker[] = [];
  const port: ConstructorParameters<typeof LiveClient>[0] = {
    postMessage: (message) => void sent.push(message),
    onmessage: null,
  };
  const client = new LiveClient(port);
  return {
    client,
    document,
    sent,
    receive: (batch: Batch) => port.onmessage?.({ data: batch } as MessageEvent<Batch>),
    drawFrame: () => {
      for (const act of frames.splice(0)) act();
    },
  };
}

const hostsBatch = (name: string): Batch => ({
  topics: [{ topic: "hosts", isAll: false, set: [[name, name]], gone: [] }],
});

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("a batch is applied with the next frame, and only then asks for the next", () => {
  const { client, sent, receive, drawFrame } = openBrowser();
  client.subscribe("hosts", () => {});
  receive(hostsBatch("mac-1"));
  expect(client.topic("hosts").rows.size).toBe(0);
  expect(sent).not.toContainEqual({ do: "next" });
  drawFrame();
  expect([...client.topic("hosts").rows.keys()]).toEqual(["mac-1"]);
  expect(sent).toContainEqual({ do: "next" });
});

test("a hidden tab, which gets no frames, applies a batch every 2 s", () => {
  const { client, document, sent, receive } = openBrowser();
  client.subscribe("hosts", () => {});
  document.visibilityState = "hidden";
  receive(hostsBatch("mac-1"));
  vi.advanceTimersByTime(1_999);
  expect(sent).not.toContainEqual({ do: "next" });
  vi.advanceTimersByTime(1);
  expect([...client.topic("hosts").rows.keys()]).toEqual(["mac-1"]);
  expect(sent).toContainEqual({ do: "next" });
});

test("rows that stay are the same objects, and rows of a topic that no page shows are dropped", async () => {
  const { client, receive, drawFrame } = openBrowser();
  const leave = client.subscribe("hosts", () => {});
  const row = { name: "mac-1" };
  receive({ topics: [{ topic: "hosts", isAll: true, set: [["mac-1", row]], gone: [] }] });
  drawFrame();
  receive(hostsBatch("mac-2"));
  drawFrame();
  expect(client.topic("hosts").rows.get("mac-1")).toBe(row);
  leave();
  await Promise.resolve();
  expect(client.topic("hosts").isSynced).toBe(false);
});
