/** The Host as the agent makes it, against a real API server. */
import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test, vi } from "vitest";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { createSteppedClock } from "../../test/controller/stepped-clock.ts";
import { testAddress } from "../fixtures/agent.ts";
import type { ObservedHost } from "./host-status.ts";
import { createRegistration } from "./registration.ts";

const patiently = { timeout: 60_000, interval: 20 };

const seen: ObservedHost = {
  info: {},
  address: { at: "none", code: "AddressUnknown", why: "the network is not up" },
  memory: { pressure: "Unknown" },
  gpuBudgetBytes: undefined,
  claimedBytes: 0,
  disk: undefined,
  diskReserveBytes: 0,
  runtimes: { found: [], problems: [] },
  models: [],
  isWorking: true,
};

test("a Host is created only once its address is known", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = `mac-${randomBytes(4).toString("hex")}`;
  const end = new AbortController();
  const connection = await connect({ kubeconfigPath: kubeconfig });
  onTestFinished(async () => {
    end.abort();
    connection.close();
    await kubectl(["delete", "host", hostName, "--ignore-not-found"]);
  });
  const clock = createSteppedClock();
  let addresses: readonly string[] = [];
  const registration = createRegistration({
    connection,
    clock,
    log: quietLog,
    signal: end.signal,
    hostName,
    instanceId: "first",
    client: createClient(connection),
    create: () => addresses,
    observe: async () => seen,
    onHost: () => {},
    machine: () => "mac-1",
    record: () => {},
  });
  registration.start({ onNameOurs: () => {}, onNameTaken: () => {}, onAnswered: () => {} });
  const made = () => kubectl(["get", "host", hostName, "--ignore-not-found", "-o", "jsonpath={.spec}"]);
  const codes = () => registration.problems().map(({ code }) => code);
  await vi.waitFor(async () => expect([codes(), await made()]).toEqual([["AddressUnknown"], ""]), patiently);
  clock.advance(5_000);
  await vi.waitFor(() => expect(codes()).toEqual(["AddressUnknown"]), patiently);
  expect(await made()).toBe("");
  addresses = [testAddress()];
  clock.advance(5_000);
  await vi.waitFor(async () => expect(await made()).toContain(`"addresses":["${testAddress()}"]`), patiently);
  await vi.waitFor(() => expect(codes()).toEqual([]), patiently);
});

test("a Host that is not observed for half a minute is Unknown, with the reading that fails, until the next observation", async () => {
  const { kubeconfig, kubectl } = sharedCluster();
  const hostName = `mac-${randomBytes(4).toString("hex")}`;
  const end = new AbortController();
  const connection = await connect({ kubeconfigPath: kubeconfig });
  onTestFinished(async () => {
    end.abort();
    connection.close();
    await kubectl(["delete", "host", hostName, "--ignore-not-found"]);
  });
  const clock = createSteppedClock();
  let trouble: Error | undefined;
  const address = testAddress();
  const runtimes = { found: [{ name: "llamacpp", version: "b1" }], problems: [] };
  const registration = createRegistration({
    connection,
    clock,
    log: quietLog,
    signal: end.signal,
    hostName,
    instanceId: "first",
    client: createClient(connection),
    create: () => [address],
    observe: async () => {
      if (trouble !== undefined) throw trouble;
      return { ...seen, address: { at: "up", address }, runtimes };
    },
    onHost: () => {},
    machine: () => "mac-1",
    record: () => {},
  });
  registration.start({ onNameOurs: () => {}, onNameTaken: () => {}, onAnswered: () => {} });
  const path =
    '{.status.conditions[?(@.type=="Ready")].status} {.status.conditions[?(@.type=="Ready")].message}';
  const ready = () => kubectl(["get", "host", hostName, "--ignore-not-found", "-o", `jsonpath=${path}`]);
  await vi.waitFor(async () => expect(await ready()).toMatch(/^True /), patiently);
  trouble = new Error("cannot read the disk of the model store: no answer within 30 s");
  clock.advance(30_000);
  await vi.waitFor(
    async () => expect(await ready()).toMatch(/^Unknown .*disk of the model store/),
    patiently,
  );
  expect(registration.problems()).toMatchObject([{ code: "ObservationFailed" }]);
  const runtime = ["get", "host", hostName, "-o", "jsonpath={.status.runtimes[*].name}"];
  expect(await kubectl(runtime)).toBe("llamacpp");
  trouble = undefined;
  clock.advance(5_000);
  await vi.waitFor(async () => expect(await ready()).toMatch(/^True /), patiently);
  expect(registration.problems()).toEqual([]);
});
