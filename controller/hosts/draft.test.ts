import { expect, test } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { noteClaims } from "./draft.ts";

const replica = (name: string, uid: string, deletionTimestamp?: string): InferenceReplica =>
  ({
    metadata: { namespace: "default", name, uid, deletionTimestamp },
    spec: {
      memory: { claimBytes: 1 },
      template: { serviceUid: "another", serviceName: "chat", hostName: "mac-1", engine: {} },
    },
  }) as unknown as InferenceReplica;

const service = { metadata: { namespace: "default", name: "chat", uid: "s1" } } as InferenceService;

test("a pass that has waited since it observed its replicas claims nothing for those that are gone", () => {
  const noted: string[] = [];
  const shown = new Map([
    ["default/chat-0", replica("chat-0", "new")],
    ["default/chat-1", replica("chat-1", "same", "2026-01-01T00:00:00Z")],
  ]);
  noteClaims(
    {
      scheduler: {
        noteClaim: (name, claim) => noted.push(`${name}${claim?.leaving === undefined ? "" : " leaving"}`),
      },
      idle: { offer: () => undefined },
      watches: { replicas: { get: (key) => shown.get(key) } },
    },
    service,
    [replica("chat-0", "old"), replica("chat-1", "same"), replica("chat-2", "gone")],
    { wallMs: 0, monotonicMs: 0 },
  );
  expect(noted).toEqual(["default/chat-1 leaving"]);
});
