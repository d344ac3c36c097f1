import { expect, test } from "vitest";
import type { Attention, HostRow, ModelRow, ServiceRow, StateWord } from "../../../../src/console/rows.ts";
import { attentionItems, groupAttention, quietState } from "./attention.ts";

const cause = (level: Attention["level"], reason: string, since?: string): Attention => ({
  level,
  reason,
  message: reason,
  ...(since !== undefined && { since }),
});
const host = (name: string, attention?: Attention, kind: HostRow["kind"] = "Host") =>
  ({ kind, name, attention }) as HostRow;
const service = (name: string, attention?: Attention, model = "", hosts: readonly string[] = []) =>
  ({ namespace: "team", name, attention, model, hosts }) as ServiceRow;
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

test("services are named beside the Model or machine that is the cause, if the reader sees it", () => {
  const items = attentionItems({
    hosts: [host("mac-1", cause("bad", "HostUnreachable")), host("mac-2", cause("warn", "DiskPressure"))],
    services: [
      service("away", cause("bad", "HostUnreachable"), "tiny", ["mac-2", "mac-1"]),
      service("chat", cause("bad", "ModelFailed"), "qwen"),
      service("docs", cause("bad", "ModelNotReady"), "qwen"),
      service("busy", cause("bad", "NoHostWithMemory"), "qwen"),
      service("other", cause("bad", "ModelFailed"), "hidden"),
    ],
    models: [model("qwen", cause("bad", "SourceNotFound"))],
  });
  const groups = groupAttention(items);
  expect(
    groups.map(({ first, items: all }) => [first.attention.reason, ...all.map(({ name }) => name)]),
  ).toEqual([
    ["HostUnreachable", "mac-1", "team/away"],
    ["SourceNotFound", "team/qwen", "team/chat", "team/docs"],
    ["NoHostWithMemory", "team/busy"],
    ["ModelFailed", "team/other"],
    ["DiskPressure", "mac-2"],
  ]);
});

const NOW = Date.parse("2026-11-27T12:00:00Z");
const OLD = "2026-11-27T11:00:00Z";
const reported = (
  level: StateWord["level"],
  phase: ServiceRow["phase"] = "Ready",
  message = "all replicas",
) => ({ state: { word: phase, level }, phase, message, createdAt: OLD }) as ServiceRow;
const unreported = (createdAt: string) =>
  ({ state: { word: "Pending", level: "busy" }, phase: "Pending", message: "", createdAt }) as ServiceRow;
const machine = (level: StateWord["level"]) => ({ state: { word: "", level } });

test.each<[string, readonly ServiceRow[], readonly ReturnType<typeof machine>[] | undefined, string, RegExp]>(
  [
    ["nothing is asked for", [], [], "idle", /^No service asks/],
    ["all serve", [reported("ok")], [machine("ok")], "ok", /^The only service is serving/],
    ["the others rest", [reported("ok"), reported("idle", "Idle")], [machine("ok")], "ok", /^1 of 2/],
    ["one starts", [reported("ok"), reported("busy", "Progressing")], [machine("ok")], "busy", /^1 of 2/],
    ["a new service", [unreported("2026-11-27T11:59:50Z")], [machine("ok")], "busy", /^0 of 1/],
    ["no controller", [unreported(OLD), reported("ok")], [machine("ok")], "warn", /^The controller has not/],
    ["no machine", [reported("busy", "Progressing")], [], "warn", /no machine is ready/],
    ["no ready machine", [reported("busy", "Progressing")], [machine("idle")], "warn", /no machine is ready/],
    ["machines that the reader may not see", [reported("busy", "Progressing")], undefined, "busy", /^0 of 1/],
  ],
)("without a fault, where %s, the overview says no more than is known", (_, services, hosts, level, word) => {
  const state = quietState(services, hosts, NOW);
  expect(state.level).toBe(level);
  expect(state.word).toMatch(word);
  expect(state.word).not.toContain("No problems");
});
