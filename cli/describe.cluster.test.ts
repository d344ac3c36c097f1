/** `metalbridge describe` and the remote half of `logs` against the real API server. */
import { writeFileSync } from "node:fs";
import { hostname } from "node:os";
import path from "node:path";
import { expect, test } from "vitest";
import { hostNameFrom } from "../agent/config/load.ts";
import { NAMESPACE_HOSTS } from "../src/api/group.ts";
import { HOSTS, INFERENCE_REPLICAS, INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { EVENTS, LEASES } from "../src/kube/kinds.ts";
import { must } from "../test/bed/must.ts";
import { type Desk, openDesk } from "../test/cli/objects.ts";
import { runVerb } from "../test/cli/program.ts";
import { manifest, withFields } from "../test/fixtures/manifests.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";

async function tellEvent(
  desk: Desk,
  name: string,
  regarding: { kind: string; name: string; uid?: string | undefined },
  note: string,
  namespace = desk.namespace,
) {
  must(
    await desk.client.create(EVENTS, {
      metadata: { name, namespace },
      eventTime: "2026-03-01T12:00:00.000000Z",
      type: "Warning",
      reason: "EngineCrashed",
      action: "Backoff",
      note,
      regarding: {
        apiVersion: "metalbridge.dev/v1alpha1",
        namespace: regarding.kind === "Host" ? undefined : namespace,
        kind: regarding.kind,
        name: regarding.name,
        uid: regarding.uid,
      },
      reportingController: "metalbridge-agent",
      reportingInstance: "test",
    }),
  );
}

async function replicaOf(desk: Desk, service: string, name: string, host: string) {
  const { uid } = must(
    await desk.client.get(INFERENCE_SERVICES, { name: service, namespace: desk.namespace }),
  ).metadata;
  const object = withFields(manifest("InferenceReplica", name, desk.namespace), {
    "spec.template.hostName": host,
    "spec.template.serviceName": service,
    "spec.template.serviceUid": uid,
    "metadata.labels": { "metalbridge.dev/service": service },
    "spec.memory": { claimBytes: 3 * 1024 ** 3, weightsBytes: 2 * 1024 ** 3, kvBytes: 1024 ** 3 },
  });
  return must(await desk.client.create(INFERENCE_REPLICAS, object as never));
}

test("a replica is described with its memory, its last exit and its own events only", async () => {
  await using desk = await openDesk();
  const host = await desk.host();
  await desk.service("chat");
  const made = await replicaOf(desk, "chat", "chat-0-abcdefgh12", host);
  await desk.status(HOSTS, host, { addresses: ["192.168.1.21"] });
  await desk.status(INFERENCE_REPLICAS, "chat-0-abcdefgh12", {
    phase: "Backoff",
    reason: "EngineCrashed",
    message: "next start in 4 s",
    restarts: 3,
    port: 21000,
    lastExit: { signal: "SIGSEGV", reason: "EngineCrashed", logTail: "loading\nsegmentation fault\n" },
  });
  await tellEvent(desk, "e1", { kind: "InferenceReplica", ...made.metadata }, "the engine crashed");
  await tellEvent(
    desk,
    "e2",
    { kind: "InferenceReplica", name: made.metadata.name, uid: "another" },
    "of an older one",
  );
  const { code, stdout, stderr } = await runVerb(
    ["describe", "chat-0-abcdefgh12", "-n", desk.namespace],
    desk,
  );
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  for (const part of [
    /^Phase: +Backoff, EngineCrashed$/m,
    /^Service: +chat, revision 0123456789$/m,
    /^Listens on: +192\.168\.1\.21:21000$/m,
    / weights +2 GiB\n +KV cache +1 GiB\n +claim +3 GiB\n/,
    /SIGSEGV, EngineCrashed\n +\| loading\n +\| segmentation fault\n/,
    /Warning +EngineCrashed +once +the engine crashed/,
  ])
    expect(stdout).toMatch(part);
  expect(stdout).not.toContain("of an older one");
  const json = JSON.parse(
    (await runVerb(["describe", "irep/chat-0-abcdefgh12", "-n", desk.namespace, "-o", "json"], desk)).stdout,
  );
  expect(json).toMatchObject({
    replica: { status: { restarts: 3 } },
    service: { spec: { modelRef: "tiny" } },
    events: [{ note: "the engine crashed" }],
  });
});

test("a service is described with its replicas and placement, and without its Model if there is none", async () => {
  await using desk = await openDesk();
  await desk.service("chat", { "spec.replicas": 2 });
  await replicaOf(desk, "chat", "chat-0-abcdefgh12", "mini-1");
  await desk.status(INFERENCE_SERVICES, "chat", {
    phase: "WaitingForCapacity",
    reason: "NoHostWithMemory",
    message: "one replica has no place",
    desiredReplicas: 2,
    replicas: 1,
    readyReplicas: 0,
    queuePosition: 1,
    waitingFor: "memory: 3 GiB",
    placement: { misses: [{ host: "mini-2", reason: "HostMemoryShort", message: "1 GiB is free" }] },
  });
  const { stdout } = await runVerb(["describe", "isvc/chat", "-n", desk.namespace], desk);
  for (const part of [
    /^Model: +tiny \(not found, or not readable\)$/m,
    /^Queue: +number 1, waiting for memory: 3 GiB$/m,
    /chat-0-abcdefgh12 +Pending +mini-1 +0123456789 +3 GiB/,
    /mini-2 +HostMemoryShort +1 GiB is free/,
  ])
    expect(stdout).toMatch(part);
});

test("a name that is two things is not guessed at, and one that is nothing is looked for elsewhere", async () => {
  await using desk = await openDesk();
  await using other = await openDesk();
  await desk.service("chat");
  await desk.replica("chat", "mini-1");
  const both = await runVerb(["describe", "chat", "-n", desk.namespace], desk);
  expect(both).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^NameAmbiguous: chat is a replica and a service/),
  });
  for (const kind of ["irep", "isvc"])
    expect(await runVerb(["describe", `${kind}/chat`, "-n", desk.namespace], desk)).toMatchObject({
      code: 0,
    });
  await other.service("only-there-1");
  const elsewhere = await runVerb(["describe", "only-there-1", "-n", desk.namespace], desk);
  expect(elsewhere).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(new RegExp(`^ServiceNotFound: [\\s\\S]*-n ${other.namespace}`)),
  });
  const nothing = await runVerb(["describe", "chat-0-abcdefgh12", "-n", desk.namespace], desk);
  expect(nothing).toMatchObject({ code: 1, stderr: expect.stringMatching(/^ReplicaNotFound: /) });
});

test("the log of a replica on another host: where it is, and the command to run there", async () => {
  await using desk = await openDesk();
  const host = await desk.host();
  await desk.status(HOSTS, host, { addresses: ["192.168.1.21"] });
  await desk.service("chat");
  const { metadata } = await replicaOf(desk, "chat", "chat-0-abcdefgh12", host);
  const logs = (...args: string[]) =>
    runVerb(["logs", ...args, "-n", desk.namespace, "--state-dir", "/nonexistent"], desk);
  const there = await logs("chat-0-abcdefgh12", "-f", "--tail", "20");
  expect(there.code).toBe(1);
  expect(there.stderr).toBe(
    `LogOnAnotherHost: the log of ${desk.namespace}/chat-0-abcdefgh12 is on host ${host} (192.168.1.21): engines/${metadata.uid}/log in the state folder of the agent there\n` +
      `  run this on ${host}, as the user of the agent, with the --config or --state-dir of the agent if it has one; to read it from this machine, an administrator must enable remoteAccess.logs on that host (docs/logs.md)\n` +
      `    metalbridge logs chat-0-abcdefgh12 -n ${desk.namespace}\n`,
  );
  expect((await logs("chat")).stderr).toContain("metalbridge logs chat-0-abcdefgh12");
  await replicaOf(desk, "chat", "chat-1-abcdefgh12", hostNameFrom(hostname()));
  expect((await logs("chat")).stderr).toMatch(
    /^NameAmbiguous: .*chat-0-abcdefgh12 \(on .*, chat-1-abcdefgh12 \(on /,
  );
  expect((await logs("chat-1-abcdefgh12")).stderr).toMatch(
    /^LogNotFound: .*is placed on this machine, but \/nonexistent has no log of it/,
  );
  expect((await logs("absent")).stderr).toMatch(/^ReplicaNotFound: /);
});

test("a replica is here if the agent's configuration names its host, whatever the machine's name is", async () => {
  await using desk = await openDesk();
  await using folder = await temporaryFolder();
  const host = await desk.host();
  await desk.service("chat");
  await replicaOf(desk, "chat", "chat-0-abcdefgh12", host);
  await replicaOf(desk, "chat", "chat-1-abcdefgh12", hostNameFrom(hostname()));
  const config = path.join(folder.path, "agent.yaml");
  writeFileSync(config, `hostName: ${host}\nstateDir: /nonexistent\n`);
  const logs = (name: string) => runVerb(["logs", name, "-n", desk.namespace, "--config", config], desk);
  expect((await logs("chat-0-abcdefgh12")).stderr).toMatch(
    /^LogNotFound: .*is placed on this machine, but \/nonexistent has no log of it/,
  );
  expect((await logs("chat-1-abcdefgh12")).stderr).toMatch(/^LogOnAnotherHost: /);
});

test("a host is described with its Lease, the replicas of every namespace on it, and its Events, which are in default", async () => {
  await using desk = await openDesk();
  await using other = await openDesk();
  const host = await desk.host({ "spec.addresses": ["192.168.1.0/24"] });
  const { uid } = must(await desk.client.get(HOSTS, { name: host })).metadata;
  await desk.status(HOSTS, host, {
    addresses: ["192.168.1.21"],
    info: { chip: "Apple M4", os: "darwin" },
    runtimes: [{ name: "llamacpp", version: "b9670", path: "/opt/homebrew/bin/llama-server" }],
    memory: { totalBytes: 64 * 1024 ** 3, gpuBudgetBytes: 48 * 1024 ** 3, claimedBytes: 1024 ** 3 },
  });
  await desk.replica("chat-0", host, { phase: "Ready" });
  await other.replica("chat-0", host, { phase: "Starting" });
  const renewTime = new Date().toISOString().replace("Z", "000Z");
  const lease = { metadata: { name: host, namespace: NAMESPACE_HOSTS } };
  must(
    await desk.client.create(LEASES, {
      ...lease,
      spec: { holderIdentity: host, leaseDurationSeconds: 40, renewTime },
    }),
  );
  const regarding = { kind: "Host", name: host, uid };
  await tellEvent(desk, `${host}-e1`, regarding, "the Lease has expired", "default");
  const run = (...args: string[]) => runVerb(["describe", ...args, "-n", desk.namespace], desk);
  const { code, stdout, stderr } = await run("host", host);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  for (const part of [
    /^Lease: +renewed \d+s ago$/m,
    /^Serves on: +192\.168\.1\.21$/m,
    / budget for engines: +48 GiB/,
    / llamacpp +b9670 +\/opt\/homebrew\/bin\/llama-server$/m,
    new RegExp(` ${desk.namespace}/chat-0 +Ready `),
    new RegExp(` ${other.namespace}/chat-0 +Starting `),
    /Warning +EngineCrashed +once +the Lease has expired/,
  ])
    expect(stdout).toMatch(part);
  const json = JSON.parse((await run(`host/${host}`, "-o", "json")).stdout);
  expect(json).toMatchObject({
    host: { metadata: { name: host } },
    events: [{ note: "the Lease has expired" }],
  });
  expect(await run("host", "no-such-host")).toMatchObject({
    code: 1,
    stderr: "HostNotFound: there is no Host no-such-host\n  fix the name\n    metalbridge host list\n",
  });
  expect(await run("machine", host)).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(/^error: unknown kind machine/),
  });
  must(await desk.client.remove(LEASES, lease.metadata));
});
