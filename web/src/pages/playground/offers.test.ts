import { expect, test } from "vitest";
import type { ServiceRow } from "../../../../src/console/rows.ts";
import type { GatewayModel } from "../../api/gateway.ts";
import { canAsk, offersOf } from "./offers.ts";

function row(name: string, changes: Partial<ServiceRow> = {}): ServiceRow {
  const base = { namespace: "team", name, phase: "Ready", mode: "chat", ready: 1, message: "" };
  return { ...base, ...changes } as ServiceRow;
}

function models(name: string, state: GatewayModel["state"], mode = "chat"): readonly GatewayModel[] {
  const service = `team/${name}`;
  return [{ id: name, aliases: [service], service, mode, state }];
}

test("services that can be asked come first, each once, with its other names", () => {
  const offers = offersOf(
    [...models("b", "ready"), ...models("a", "starting"), ...models("e", "ready", "embedding")],
    [row("b"), row("a", { phase: "Pending", ready: 0 }), row("hidden"), row("e", { mode: "embedding" })],
    "chat",
  );
  expect(offers.map(({ service, state, names }) => [service, state, names])).toEqual([
    ["team/b", "ready", ["b"]],
    ["team/a", "starting", ["a"]],
    ["team/hidden", "not offered", []],
  ]);
  expect(offers.map(canAsk)).toEqual([true, false, false]);
});

test("a live row is newer than the gateway's list", () => {
  const [woken] = offersOf(models("a", "idle"), [row("a")], "chat");
  expect(woken?.state).toBe("ready");
  const [idle] = offersOf(models("a", "ready"), [row("a", { phase: "Idle", ready: 0 })], "chat");
  expect(idle?.state).toBe("idle");
  const [unseen] = offersOf(models("a", "ready"), [], "chat");
  expect(unseen?.state).toBe("ready");
});
