import { expect, test } from "vitest";
import type { Attention, HostRow, ModelRow, ServiceRow } from "../../../../src/console/rows.ts";
import { attentionItems, groupAttention } from "./attention.ts";

const cause = (level: Attention["level"], reason: string, since?: string): Attention => ({
  level,
  reason,
  message: reason,
  ...(since !== undefined && { since }),
});
const host = (name: string, attention?: Attention, kind: HostRow["kind"] = "Host") =>
  ({ kind, name, attention, isCordoned: false }) as HostRow;
const service = (name: string, attention?: Attention) =>
  ({ namespace: "team", name, attention }) as ServiceRow;
const model = (name: string, attention?: Attention) => ({ namespace: "team", name, attention }) as ModelRow;

test("what needs a person is bad before warn, and the newest first; objects without a fault are left out", () => {
  const items = attentionItems({
    hosts: [
      host("old", cause("bad", "HostUnreachable", "2026-11-27T08:00:00Z")),
      host("fine"),
      host("gpu/1", cause("warn", "NodeNotReady", "2026-11-27T10:00:00Z"), "Node"),
    ],
    services: [service("chat", cause("bad", "NoHostWithMemory", "2026-11-27T09:00:00Z"))],
    models: [model("qwen", cause("warn", "SourceChanged"))],
  });
  expect(items.map(({ name, href }) => [name, href])).toEqual([
    ["team/chat", "/services/team/chat"],
    ["old", "/hosts/old"],
    ["gpu/1", "/nodes/gpu%2F1"],
    ["team/qwen", "/models/team/qwen"],
  ]);
});

test("three equal causes become one group once there are many items, and few items stay single", () => {
  const lost = (count: number) =>
    attentionItems({
      hosts: Array.from({ length: count }, (_, index) => host(`mac-${index}`, cause("bad", "HostLost"))),
      services: [service("chat", cause("bad", "PodCrashing")), service("docs", cause("warn", "PodCrashing"))],
      models: [],
    });
  expect(groupAttention(lost(3)).map(({ items }) => items.length)).toEqual([1, 1, 1, 1, 1]);
  const groups = groupAttention(lost(40));
  expect(groups.map(({ first, items }) => [first.attention.reason, items.length])).toEqual([
    ["HostLost", 40],
    ["PodCrashing", 1],
    ["PodCrashing", 1],
  ]);
});
