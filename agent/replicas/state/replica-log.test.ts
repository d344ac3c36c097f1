import { expect, test } from "vitest";
import { keepLines, type LogLine } from "../../fixtures/agent.ts";
import { createReplicaLog } from "./replica-log.ts";

test("every line names the replica, as soon as its name is known", () => {
  const lines: LogLine[] = [];
  const known: { ref?: { namespace: string; name: string } } = {};
  const log = createReplicaLog(keepLines(lines), "u", () => known.ref);
  log.warn({ err: "x" }, "unreadable");
  known.ref = { namespace: "team", name: "chat-0-a" };
  log.info({ port: 1 }, "started");
  delete known.ref;
  log.info({}, "let go");
  log.child({ job: "fetch" }).warn({}, "failed");
  expect(lines.map(({ data }) => data)).toEqual([
    { uid: "u", err: "x" },
    { uid: "u", namespace: "team", name: "chat-0-a", port: 1 },
    { uid: "u", namespace: "team", name: "chat-0-a" },
    { uid: "u", namespace: "team", name: "chat-0-a", job: "fetch" },
  ]);
});
