import path from "node:path";
import { describe, expect, it } from "vitest";
import { hostSchema } from "../../src/api/host.ts";
import { inferenceReplicaSchema } from "../../src/api/inference-replica.ts";
import { inferenceServiceSchema } from "../../src/api/inference-service/index.ts";
import { testScreens } from "../../test/golden/text.ts";
import { parseDescribeTarget } from "../describe.ts";
import { printable } from "../program/table.ts";
import { type HostDetails, renderHost } from "./host.ts";
import { type ReplicaFacts, renderReplica } from "./replica.ts";
import { renderServiceDetails, type ServiceFacts } from "./service.ts";

const NOW = Date.parse("2026-03-01T12:00:00Z");

type Input = Partial<ReplicaFacts & ServiceFacts>;

/** Parsed as the API server would: with defaults. */
function screenOf(input: Input): string {
  const { host, model, events = [], pods = [] } = input;
  if (input.replica !== undefined) {
    const replica = inferenceReplicaSchema.parse(input.replica);
    return renderReplica({ replica, service: input.service, host, events }, NOW);
  }
  const service = inferenceServiceSchema.parse(input.service);
  const replicas = (input.replicas ?? []).map((one) => inferenceReplicaSchema.parse(one));
  return renderServiceDetails({ service, replicas, pods, model, events }, NOW);
}

describe("screens", () => {
  testScreens(path.join(import.meta.dirname, "golden"), screenOf);
});

describe("screens of hosts", () => {
  testScreens(path.join(import.meta.dirname, "golden/host"), (facts: HostDetails) =>
    renderHost({ ...facts, host: hostSchema.parse(facts.host) }, NOW),
  );
});

describe("what a terminal would obey", () => {
  it("is cut out of messages and log lines", () => {
    expect(printable("\u001b[2Jgone\u0007\tover\r\n\u009b31mnext\u001b")).toBe("gone  over next");
  });
});

describe("names", () => {
  it.each([
    ["chat", "either", "chat"],
    ["irep/chat-0-abc", "replica", "chat-0-abc"],
    ["inferencereplica/chat-0-abc", "replica", "chat-0-abc"],
    ["isvc/chat", "service", "chat"],
    ["host/mini-1", "host", "mini-1"],
    ["mbhosts/mini-1", "host", "mini-1"],
  ])("%s means %s %s", (text, kind, name) => {
    expect(parseDescribeTarget(text)).toEqual({ kind, name });
  });
});
