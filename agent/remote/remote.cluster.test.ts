/** Remote logs and doctor with the real API server, the real program as agent and as user, and a real engine's log. */
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import path from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { startTunnel } from "../../controller/tunnel/tunnel.ts";
import { packageRoot } from "../../local/package-root.ts";
import { DOCTOR_ACCOUNT, LOGS_ACCOUNT, remoteAudience } from "../../src/api/access/remote.ts";
import { NAMESPACE_HOSTS, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import type { HostRemote } from "../../src/api/host.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { requestToken } from "../../src/kube/token.ts";
import { startAgent, type TestAgent } from "../../test/bed/agent.ts";
import {
  addHost,
  giveControllerIdentity,
  giveIdentity,
  writeAccountKubeconfig,
} from "../../test/bed/identity.ts";
import { freePort } from "../../test/bed/ports.ts";
import { runProgram, startProgram } from "../../test/cli/program.ts";
import { oneCluster } from "../../test/cluster/cluster.ts";
import { quietLog } from "../../test/cluster/quiet-log.ts";
import { type Bench, createBench } from "../../test/replicas/bench.ts";
import { signToken } from "../../test/security/signed-token.ts";
import { createAuthorize } from "./authorize.ts";

const PATIENTLY = { timeout: 60_000, interval: 50 };
const TINY = path.join(packageRoot(), "agent/engines/testing/tiny-program.ts");
const EXAMPLE = path.join(packageRoot(), "examples/rbac/remote-access.yaml");
/** What the example binds to groups of people is bound to accounts here: they are users whom every cluster has. */
const USERS = {
  alice: "team-a",
  bob: "team-b",
  olga: "operators",
} as const;
type User = keyof typeof USERS;

const cluster = oneCluster();
let bench: Bench;
let agent: TestAgent;
let uid = "";
let remotePort = 0;
const tunnel = new AbortController();

const fileOf = (name: string) => path.join(bench.place.root, `${name}.kubeconfig`);
const hostName = () => bench.place.hostName;
const logFile = () => path.join(agent.stateDir, "engines", uid, "log");
const kubectl = (...args: string[]) => cluster().kubectl(args);
const apply = (object: object) =>
  cluster().kubectl(["apply", "--server-side", "-f", "-"], { input: JSON.stringify(object) });

function run(user: User, ...args: string[]) {
  return runProgram(args, { kubeconfig: fileOf(user) });
}

function logs(user: User, ...args: string[]) {
  return run(user, "logs", "--state-dir", "/nonexistent", ...args);
}

beforeAll(async () => {
  bench = await createBench(cluster().kubeconfig, "team-a");
  for (const namespace of Object.values(USERS)) await kubectl("create", "namespace", namespace);
  const example = readFileSync(EXAMPLE, "utf8")
    .replaceAll("kind: Group, name: team-a", "kind: Group, name: 'system:serviceaccounts:team-a'")
    .replaceAll("kind: Group, name: farm-operators", "kind: Group, name: 'system:serviceaccounts:operators'");
  await cluster().kubectl(["apply", "--server-side", "-f", "-"], { input: example });
  for (const [name, namespace] of Object.entries(USERS)) {
    await kubectl("create", "serviceaccount", name, "-n", namespace);
    const view = ["--clusterrole=metalbridge-aggregate-to-view", `--serviceaccount=${namespace}:${name}`];
    await kubectl("create", "rolebinding", `view-${name}`, "-n", "team-a", ...view);
    await writeAccountKubeconfig(cluster(), { name, namespace, file: fileOf(name) });
  }
  // Bob finds hosts and replicas, and has what reads logs in his own namespace.
  await kubectl(
    "create",
    "clusterrolebinding",
    "bob",
    "--clusterrole=metalbridge-find-hosts",
    "--serviceaccount=team-b:bob",
  );
  await kubectl("create", "serviceaccount", LOGS_ACCOUNT, "-n", "team-b");
  await kubectl(
    "create",
    "rolebinding",
    "bob",
    "-n",
    "team-b",
    "--clusterrole=metalbridge-host-logs",
    "--serviceaccount=team-b:bob",
  );
  await startRemoteAgent();
  await openTunnel();
  uid = await startEngine();
}, 120_000);

afterAll(async () => {
  tunnel.abort();
  await bench.deleteReplica("one");
  await vi.waitFor(async () => expect(await bench.replica("one")).toBeUndefined(), PATIENTLY);
  await agent[Symbol.asyncDispose]();
  await bench[Symbol.asyncDispose]();
}, 120_000);

async function startRemoteAgent(): Promise<void> {
  const { root, address } = bench.place;
  remotePort = await freePort(address);
  await giveIdentity(cluster(), hostName(), fileOf("host"));
  await addHost(cluster(), hostName(), [address]);
  agent = startAgent({
    ...{ kubeconfig: fileOf("host"), hostName: hostName(), address, modelsDir: root },
    stateDir: bench.stateDir,
    portRange: bench.place.ports.join("-"),
    config: {
      metricsPort: 0,
      generic: { roots: [root] },
      engineLogs: { maxSize: "64Ki", keep: 3 },
      remoteAccess: { logs: true, doctor: true, port: remotePort },
    },
  });
  await vi.waitFor(async () => {
    expect(await remoteOf(hostName()), agent.part().log()).toMatchObject({
      port: remotePort,
      logs: true,
      doctor: true,
    });
  }, PATIENTLY);
}

async function remoteOf(host: string): Promise<HostRemote | undefined> {
  return JSON.parse(await kubectl("get", "host", host, "-o", "json")).status?.remote;
}

/** The controller's tunnel behind the Service of the example, as a pod of the API server's. */
async function openTunnel(): Promise<void> {
  const { address } = bench.place;
  await giveControllerIdentity(cluster(), fileOf("controller"));
  const connection = await connect({ kubeconfigPath: fileOf("controller") });
  tunnel.signal.addEventListener("abort", () => connection.close());
  const port = await new Promise<number>((onListening) => {
    startTunnel({
      ...{ client: createClient(connection), clock: systemClock, log: quietLog, signal: tunnel.signal },
      ...{ address, port: 0, onListening },
    });
  });
  const metadata = { name: "metalbridge-controller-0", namespace: NAMESPACE_SYSTEM };
  const containers = [{ name: "controller", image: "none" }];
  const spec = { serviceAccountName: DOCTOR_ACCOUNT, automountServiceAccountToken: false, containers };
  await apply({ apiVersion: "v1", kind: "Pod", metadata, spec });
  const podIPs = JSON.stringify({ status: { phase: "Running", podIP: address, podIPs: [{ ip: address }] } });
  await kubectl(
    "patch",
    "pod",
    metadata.name,
    "-n",
    NAMESPACE_SYSTEM,
    "--subresource=status",
    "--type=merge",
    "-p",
    podIPs,
  );
  await addEndpoint("metalbridge-tunnel", port, { kind: "Pod", ...metadata });
}

/** What the endpoints controller would write. */
async function addEndpoint(service: string, port: number, targetRef?: object): Promise<void> {
  const { address } = bench.place;
  const metadata = { name: service, namespace: NAMESPACE_SYSTEM };
  const ports = [{ name: "tunnel", port, protocol: "TCP" }];
  await apply({
    apiVersion: "v1",
    kind: "Endpoints",
    metadata,
    subsets: [{ addresses: [{ ip: address, targetRef }], ports }],
  });
  await apply({
    ...{ apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice", addressType: "IPv4", ports },
    metadata: { ...metadata, labels: { "kubernetes.io/service-name": service } },
    endpoints: [{ addresses: [address], conditions: { ready: true }, targetRef }],
  });
}

async function startEngine(): Promise<string> {
  const program = path.join(bench.place.root, "serve");
  writeFileSync(
    program,
    `#!/bin/sh\necho 'first \\033[31mline'\nexec '${process.execPath}' '${TINY}' "$@"\n`,
    { mode: 0o755 },
  );
  const command = [program, "{{port}}", "{{address}}", "{{model}}", "{{contextSize}}", "{{slots}}"];
  const { metadata } = await bench.createReplica("one", (spec) => {
    const engine = { mode: "chat", contextSize: 512, parallelSlots: 1, program: { command } };
    Object.assign(spec.template, { runtime: "generic", engine });
  });
  await bench.untilPhase("one", "Ready");
  return metadata.uid ?? "";
}

async function tokenOf(namespace: string, name: string, audience?: string): Promise<string> {
  const connection = await connect({ kubeconfigPath: cluster().kubeconfig });
  const audiences = audience === undefined ? undefined : [audience];
  const account = { namespace, name };
  const answer = await requestToken(connection, { account, seconds: 600, ...(audiences && { audiences }) });
  connection.close();
  if (!answer.ok) throw new Error(answer.error.message);
  return answer.value;
}

/** Status of what the host answers, straight at its address. */
function statusOf(
  token: string | undefined,
  target = `/v1/logs/${uid}`,
  method = "GET",
): Promise<number | undefined> {
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  return new Promise((resolve, reject) => {
    const asked = request(
      {
        ...{ host: bench.place.address, port: remotePort, path: target, method, headers },
        rejectUnauthorized: false,
        agent: false,
      },
      (response) => {
        response.resume();
        response.once("close", () => resolve(response.statusCode));
      },
    );
    asked.once("error", reject);
    asked.end();
  });
}

test("a log is read through the API server: its last lines, without what a terminal would obey, and by the service's name", async () => {
  appendFileSync(logFile(), "a line\nthe last line\n");
  const tail = await logs("alice", "one", "-n", "team-a", "--tail", "1");
  expect(tail).toEqual({ code: 0, stdout: "the last line\n", stderr: "" });
  const whole = await logs("alice", "irep/one", "-n", "team-a");
  expect(whole).toMatchObject({
    code: 0,
    stderr: "",
    stdout: expect.stringMatching(/^first \\u001b\[31mline|first line/),
  });
  expect(whole.stdout).toContain("a line\nthe last line\n");
});

test.each([[], ["--direct"]])(
  "a log is followed across rotations without losing or repeating a line %s",
  async (...how) => {
    const name = how[0] ?? "cluster";
    await using follower = startProgram(
      ["logs", "one", "-n", "team-a", "-f", "--tail", "0", "--state-dir", "/nonexistent", ...how],
      { kubeconfig: fileOf("alice") },
    );
    const line = (index: number) => `${name} ${String(index).padStart(6, "0")} ${"x".repeat(90)}\n`;
    // Until it has the end of the log, lines may come before it.
    await vi.waitFor(() => {
      appendFileSync(logFile(), "begin\n");
      expect(follower.stdout(), follower.stderr()).toContain("begin\n");
    }, PATIENTLY);
    let next = 0;
    for (let rotations = 0; rotations < 2; rotations += 1) {
      const before = existsSync(`${logFile()}.1`) ? readFileSync(`${logFile()}.1`, "utf8") : "";
      for (const end = next + 700; next < end; next += 1) appendFileSync(logFile(), line(next));
      await vi.waitFor(
        () => expect(readFileSync(`${logFile()}.1`, "utf8") === before).toBe(false),
        PATIENTLY,
      );
    }
    appendFileSync(logFile(), line(next));
    await vi.waitFor(() => expect(follower.stdout().includes(line(next))).toBe(true), PATIENTLY);
    const expected = Array.from({ length: next + 1 }, (_, index) => line(index)).join("");
    expect(follower.stdout().replaceAll("begin\n", "") === expected).toBe(true);
    expect(follower.stderr()).toBe("");
    follower.child.kill("SIGINT");
    expect((await follower.ended).code).toBe(130);
  },
);

test("a token lets nobody in but the right account's, of the replica's namespace, for this host, and for as long as it lives", async () => {
  const ours = remoteAudience(hostName());
  const right = await tokenOf("team-a", LOGS_ACCOUNT, ours);
  const doctor = await tokenOf(NAMESPACE_SYSTEM, DOCTOR_ACCOUNT, ours);
  const host = await tokenOf(NAMESPACE_HOSTS, hostName(), ours);
  const signed = (expires: number) =>
    signToken(cluster(), LOGS_ACCOUNT, { issued: 4_000, expires, namespace: "team-a", audience: ours });
  const rows: readonly (readonly [what: string, status: number, ...Parameters<typeof statusOf>])[] = [
    ["the right one", 200, right],
    ["none", 401, undefined],
    ["a guess", 401, "abc.def.ghi"],
    ["one for the API server", 401, await tokenOf("team-a", LOGS_ACCOUNT)],
    ["one for another host", 401, await tokenOf("team-a", LOGS_ACCOUNT, remoteAudience("other"))],
    ["one for the host's name with more behind it", 401, await tokenOf("team-a", LOGS_ACCOUNT, `${ours}0`)],
    ["one that is about to expire", 200, await signed(60)],
    ["one that has expired", 401, await signed(-60)],
    ["of the same account in another namespace", 404, await tokenOf("team-b", LOGS_ACCOUNT, ours)],
    ["of another account of the namespace", 404, await tokenOf("team-a", "alice", ours)],
    ["of doctor's account", 404, doctor],
    ["of the host's own account", 404, host],
    ["the right one, for doctor", 403, right, "/v1/doctor"],
    ["the host's own, for doctor", 403, host, "/v1/doctor"],
    [
      "the right one, for a replica that is not here",
      404,
      right,
      "/v1/logs/00000000-0000-0000-0000-000000000000",
    ],
    ["the right one, for a path out of the folder", 404, right, "/v1/logs/..%2f..%2fkubeconfig"],
    ["the right one, for the folder above", 404, right, "/v1/logs/.."],
    ["the right one, and a tail that is no number", 400, right, `/v1/logs/${uid}?tail=all`],
    ["the right one, and a write", 405, right, `/v1/logs/${uid}`, "POST"],
  ];
  // As many reviews as there are rows are more than the host asks for at once.
  for (const [what, status, ...ask] of rows)
    await vi.waitFor(async () => expect([what, await statusOf(...ask)]).toEqual([what, status]), PATIENTLY);
  await kubectl("delete", "serviceaccount", LOGS_ACCOUNT, "-n", "team-a");
  onTestFinished(async () => {
    await kubectl("create", "serviceaccount", LOGS_ACCOUNT, "-n", "team-a");
  });
  await vi.waitFor(async () => expect(await statusOf(right)).toBe(401), PATIENTLY);
});

test("the API server lets nobody have the token but whom a role says", async () => {
  const denied = await logs("olga", "one", "-n", "team-a");
  expect(denied).toMatchObject({ code: 1, stdout: "" });
  expect(denied.stderr).toMatch(/^RemoteAccessForbidden: serviceaccounts "metalbridge-logs" is forbidden/);
  expect(denied.stderr).toContain("the role metalbridge-host-logs in namespace team-a");
  const command = "kubectl auth can-i create serviceaccounts/metalbridge-logs --subresource=token -n team-a";
  expect(denied.stderr).toContain(command);
  const [, ...args] = command.split(" ");
  await expect(kubectl(...args, "--as=system:serviceaccount:operators:olga")).rejects.toThrow(/no/);
  expect(await kubectl(...args, "--as=system:serviceaccount:team-a:alice")).toBe("yes\n");

  await kubectl(
    "create",
    "rolebinding",
    "bob",
    "-n",
    "team-a",
    "--clusterrole=metalbridge-host-logs",
    "--serviceaccount=team-b:bob",
  );
  onTestFinished(async () => {
    await kubectl("delete", "rolebinding", "bob", "-n", "team-a");
  });
  await vi.waitFor(async () => {
    const { stderr } = await logs("bob", "one", "-n", "team-a");
    expect(stderr).toMatch(/^RemoteAccessForbidden: cannot use the tunnel to hosts/);
    expect(stderr).toContain(
      "kubectl auth can-i get services/metalbridge-tunnel --subresource=proxy -n metalbridge-system",
    );
  }, PATIENTLY);
  expect(await logs("bob", "one", "-n", "team-a", "--direct", "--tail", "0")).toEqual({
    code: 0,
    stdout: "",
    stderr: "",
  });
});

test("doctor runs on hosts by their agents: one in full, several as a table, and each failure with its reason", async () => {
  const one = await run("olga", "doctor", "--host", hostName());
  expect(one.stdout, one.stderr).toMatch(
    /checked there by its agent[\s\S]* passed, [\s\S]*not run remotely: --fix, .*\n {2}sudo metalbridge doctor\n$/,
  );
  await addHost(cluster(), "silent", ["192.0.2.1"]);
  const json = await run("olga", "doctor", "--all-hosts", "-o", "json");
  expect(json.code).toBe(1);
  const [here, silent] = JSON.parse(json.stdout);
  expect(here).toMatchObject({ host: hostName(), platform: "linux", summary: { ok: expect.any(Number) } });
  expect(here.results).toContainEqual(expect.objectContaining({ code: "AgentNotRunning", status: "ok" }));
  expect(silent).toMatchObject({ host: "silent", error: { code: "RemoteAccessOff" } });
  const table = await run("olga", "doctor", "--host", `${hostName()},silent`);
  expect(table).toMatchObject({ code: 1, stdout: expect.stringMatching(/^HOST +STATUS +CODE +FINDING\n/) });
  expect(table.stdout).toMatch(/^silent +error +RemoteAccessOff +host silent .*remoteAccess/m);

  const denied = await run("alice", "doctor", "--host", hostName());
  expect(denied).toMatchObject({ code: 1, stdout: expect.stringMatching(/RemoteAccessForbidden/) });
  expect(denied.stdout).toContain("metalbridge-host-doctor");
});

test("whoever answers in a host's place without its key gets no token", async () => {
  const { address } = bench.place;
  await addHost(cluster(), "imposter", [address]);
  const remote = { fingerprint: "0".repeat(64), port: remotePort, logs: true, doctor: true };
  const status = JSON.stringify({ status: { addresses: [address], remote } });
  await kubectl("patch", "host", "imposter", "--subresource=status", "--type=merge", "-p", status);
  const { stdout } = await run("olga", "doctor", "--host", "imposter", "--direct");
  expect(stdout).toMatch(/RemoteHostUnreachable .*another certificate than its Host's status/);
  await kubectl("patch", "host", "imposter", "--type=merge", "-p", '{"spec":{"addresses":["192.0.2.7"]}}');
  const elsewhere = await run("olga", "doctor", "--host", "imposter");
  expect(elsewhere.stdout).toMatch(/RemoteAccessOff .*at no address that its spec allows/);
});

test("the tunnel leads to hosts with remote access and speaks nothing else; the API server proxies to no address without a pod", async () => {
  const proxied = (service: string, target: string) =>
    kubectl("get", "--raw", `/api/v1/namespaces/${NAMESPACE_SYSTEM}/services/${service}/proxy/${target}`);
  await expect(proxied("metalbridge-tunnel", `hosts/${hostName()}`)).rejects.toThrow(
    /only metalbridge-tunnel is spoken here|426|Upgrade/,
  );
  const connection = await connect({ kubeconfigPath: cluster().kubeconfig });
  onTestFinished(() => connection.close());
  const signal = AbortSignal.timeout(30_000);
  for (const target of ["hosts/absent", "hosts/silent", "nothing"]) {
    const at = `/api/v1/namespaces/${NAMESPACE_SYSTEM}/services/metalbridge-tunnel/proxy/${target}`;
    const answer = await connection.upgrade({
      method: "GET",
      path: at,
      upgrade: "metalbridge-tunnel",
      timeoutMs: 10_000,
      signal,
    });
    expect(answer).toMatchObject({ ok: false, error: { status: target === "nothing" ? 404 : 502 } });
  }
  // Why a tunnel is needed: a Service of a host's address alone is not proxied to.
  const spec = { ports: [{ name: "tunnel", port: remotePort }] };
  await apply({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "plain", namespace: NAMESPACE_SYSTEM },
    spec,
  });
  await addEndpoint("plain", remotePort);
  await expect(proxied("plain", "v1/doctor")).rejects.toThrow(/no endpoints available/);
});

test("the API server is asked about few tokens at once, and nobody is let in while it cannot be asked", async () => {
  const connection = await connect({ kubeconfigPath: fileOf("host") });
  onTestFinished(() => connection.close());
  const client = createClient(connection);
  const limits = { atOnce: 2, burst: 3, perSecond: 0 };
  const authorize = createAuthorize({
    hostName: hostName(),
    clock: systemClock,
    client: () => client,
    limits,
  });
  const guesses = await Promise.all(["a", "b", "c"].map(authorize));
  expect(guesses.map(({ at }) => at)).toEqual(["stranger", "stranger", "unknown"]);
  expect((await authorize("d")).at).toBe("stranger");
  expect((await authorize("e")).at).toBe("unknown");
  const unconnected = createAuthorize({ hostName: hostName(), clock: systemClock, client: () => undefined });
  expect(await unconnected("a")).toMatchObject({ at: "unknown" });

  await kubectl("delete", "clusterrolebinding", "metalbridge-remote-hosts");
  await vi.waitFor(async () => {
    const { stderr } = await logs("alice", "one", "-n", "team-a");
    expect(stderr).toMatch(/^RemoteRequestRefused: .*the cluster does not let hosts review tokens/);
  }, PATIENTLY);
});
