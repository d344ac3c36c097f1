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
import { startRegistration } from "./registration.ts";

const patiently = { timeout: 60_000, interval: 20 };

const seen: ObservedHost = {
  info: {},
  address: { at: "none", code: "AddressUnknown", why: "the network is not up" },
  memory: { pressure: "Unknown" },
  gpuBudgetBytes: undefined,
  claimedBytes: 0,
  disk: undefined,
  diskReserveBytes: 0,
  runtimes: { found: [], troubles: [] },
  models: [],
  isWorking: true,
};

test("a Host is not made before its address is known, and then with that", async () => {
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
  const registration = startRegistration({
    ...{ connection, clock, log: quietLog, signal: end.signal, hostName, instanceId: "first" },
    client: createClient(connection),
    create: () => addresses,
    observe: async () => seen,
    onNameOurs: () => {},
    onNameTaken: () => {},
    onAnswered: () => {},
    onHost: () => {},
    machine: () => "mac-1",
    record: () => {},
  });
  const made = () => kubectl(["get", "host", hostName, "--ignore-not-found", "-o", "jsonpath={.spec}"]);
  const codes = () => registration.troubles().map(({ code }) => code);
  await vi.waitFor(async () => expect([codes(), await made()]).toEqual([["AddressUnknown"], ""]), patiently);
  clock.advance(5_000);
  await vi.waitFor(() => expect(codes()).toEqual(["AddressUnknown"]), patiently);
  expect(await made()).toBe("");
  addresses = [testAddress()];
  clock.advance(5_000);
  await vi.waitFor(async () => expect(await made()).toContain(`"addresses":["${testAddress()}"]`), patiently);
  await vi.waitFor(() => expect(codes()).toEqual([]), patiently);
});
