import { expect, test } from "vitest";
import { aService } from "../fixtures/objects.ts";
import { createLiveRig } from "./testing/live-rig.ts";

test("gateways are read only while a stream watches their queues, and keys are for readers of all namespaces", async () => {
  const keys = [{ key: "team-a-key", waiting: 2, position: 1, longestWaitSeconds: 3 }];
  const queue = (service: string) => ({
    ...{ service, waiting: 2, longestWaitSeconds: 3, slots: { used: 4, total: 4 } },
    keys,
  });
  using rig = createLiveRig([queue("team-a/chat"), queue("team-b/chat")]);
  rig.put("services", aService("chat", { phase: "Ready" }, { namespace: "team-a" }));
  const all = rig.open();
  const some = rig.open({ id: "some", may: ({ namespace }) => namespace === "team-a" });
  await all.show("queues");
  await some.show("queues");
  await rig.flush();
  const rowsOf = ({ browser }: typeof all) => [...new Map(browser.take().flatMap(({ set }) => set))];
  expect(rowsOf(all)).toMatchObject([
    ["team-a/chat", { waiting: 2, slotsUsed: 4, slotsTotal: 4, keys: [{ key: "team-a-key", waiting: 2 }] }],
    ["team-b/chat", {}],
  ]);
  expect(rowsOf(some)).toMatchObject([["team-a/chat", { keys: [] }]]);
  await all.show();
  await some.show();
  const { readings } = rig.counts;
  rig.clock.advance(10_000);
  await rig.flush();
  expect(rig.counts.readings).toBe(readings);
});

test("queues that no gateway reports are refused with the right that the server lacks, and shown once it has it", async () => {
  using rig = createLiveRig([
    { service: "team-a/chat", waiting: 0, longestWaitSeconds: 0, slots: { used: 0, total: 4 }, keys: [] },
  ]);
  rig.gateways.problem =
    'pod gateway-0: pods "gateway-0" is forbidden: User "server" cannot get resource "pods/proxy" in API group "" in the namespace "metalbridge-system"';
  const { browser, show } = rig.open();
  await show("queues");
  await rig.flush();
  const refused = browser.events.filter(({ event }) => event === "refused");
  expect(refused).toMatchObject([
    {
      data: {
        code: "ConsoleQueuesUnreadable",
        message:
          "The queues cannot be read: the server's account may not get pods/proxy in namespace metalbridge-system.",
        remedy: expect.stringContaining("gateway-queues"),
      },
    },
  ]);
  rig.gateways.problem = undefined;
  browser.take();
  rig.clock.advance(2_000);
  await rig.flush();
  expect(browser.take().flatMap(({ set }) => set.map(([key]) => key))).toEqual(["team-a/chat"]);
});
