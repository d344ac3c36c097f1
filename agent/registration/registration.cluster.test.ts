/** The Host as the agent makes it, against a real API server. */
import { randomBytes } from "node:crypto";
import { expect, onTestFinished, test, vi } from "vitest";
import type { Host } from "../../src/api/host.ts";
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
  const { kubeconfig, objects } = sharedCluster();
  const hostName = `mac-${randomBytes(4).toString("hex")}`;
  const end = new AbortController();
  const connection = await connect({ kubeconfigPath: kubeconfig });
  onTestFinished(async () => {
    end.abort();
    connection.close();
    await objects.remove("", `hosts/${hostName}`).catch(() => undefined);
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
  const made = async () => {
    const hosts: readonly Host[] = (await objects.get("", "hosts")).items;
    return hosts.find(({ metadata }) => metadata.name === hostName)?.spec.addresses;
  };
  const codes = () => registration.problems().map(({ code }) => code);
  await vi.waitFor(() => expect(codes()).toEqual(["AddressUnknown"]), patiently);
  expect(await made()).toBeUndefined();
  clock.advance(5_000);
  await vi.waitFor(() => expect(codes()).toEqual(["AddressUnknown"]), patiently);
  expect(await made()).toBeUndefined();
  addresses = [testAddress()];
  clock.advance(5_000);
  await objects.until("", `hosts/${hostName}`, (host) =>
    expect(host?.spec.addresses).toEqual([testAddress()]),
  );
  await vi.waitFor(() => expect(codes()).toEqual([]), patiently);
});

test("a Host that is not observed for half a minute is Unknown, with the reading that fails, until the next observation", async () => {
  const { kubeconfig, objects } = sharedCluster();
  const hostName = `mac-${randomBytes(4).toString("hex")}`;
  const end = new AbortController();
  const connection = await connect({ kubeconfigPath: kubeconfig });
  onTestFinished(async () => {
    end.abort();
    connection.close();
    await objects.remove("", `hosts/${hostName}`).catch(() => undefined);
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
  const untilReady = (pattern: RegExp) =>
    objects.until("", `hosts/${hostName}`, (host: Host | undefined) => {
      const ready = host?.status?.conditions?.find(({ type }) => type === "Ready");
      expect(`${ready?.status} ${ready?.message}`).toMatch(pattern);
      return host;
    });
  await untilReady(/^True /);
  trouble = new Error("cannot read the disk of the model store: no answer within 30 s");
  clock.advance(30_000);
  const unknown = await untilReady(/^Unknown .*disk of the model store/);
  expect(registration.problems()).toMatchObject([{ code: "ObservationFailed" }]);
  expect(unknown?.status?.runtimes).toMatchObject([{ name: "llamacpp" }]);
  trouble = undefined;
  clock.advance(5_000);
  await untilReady(/^True /);
  expect(registration.problems()).toEqual([]);
});
