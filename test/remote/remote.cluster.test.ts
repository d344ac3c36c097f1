/** Remote logs and doctor with the real API server, the real program as agent and as user, and a real engine's log. */
import { once } from "node:events";
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { request } from "node:http";
import { connect as connectTcp } from "node:net";
import { Duplex } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import { createTokenAuthorizer } from "../../agent/remote/authorize.ts";
import { startTunnel } from "../../controller/options/tunnel/tunnel.ts";
import { manualClock } from "../../gateway/testing/manual-clock.ts";
import { DOCTOR_ACCOUNT, LOGS_ACCOUNT, remoteAudience } from "../../src/api/access/remote.ts";
import { LABEL_SERVICE, NAMESPACE_HOSTS, NAMESPACE_SYSTEM } from "../../src/api/group.ts";
import { CONSOLE_HEADER } from "../../src/console/protocol.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { systemClock } from "../../src/kube/system-clock.ts";
import { addHost } from "../bed/identity.ts";
import { until } from "../bed/until.ts";
import { startProgram } from "../cli/program.ts";
import { quietLog } from "../cluster/quiet-log.ts";
import { proxyCluster } from "../fixtures/fault-proxy.ts";
import { signToken } from "../security/signed-token.ts";
import {
  addEndpoint,
  BOB,
  bench,
  bind,
  cluster,
  createAccount,
  fileOf,
  hostName,
  logFile,
  logs,
  objects,
  remotePort,
  run,
  statusOf,
  tokenOf,
  uid,
} from "./bed.ts";

test("a log is read through the API server by name and by kind and name, with its last lines alone, and with control characters escaped", async () => {
  appendFileSync(logFile(), "a line\nthe last line\n");
  const tail = await logs("alice", "one", "-n", "team-a", "--tail", "1");
  expect(tail).toEqual({ code: 0, stdout: "the last line\n", stderr: "" });
  const whole = await logs("alice", "irep/one", "-n", "team-a");
  expect(whole).toMatchObject({ code: 0, stderr: "" });
  expect(whole.stdout).toContain("first \\u001b]0;line\\u0007\na line\nthe last line\n");
});

test("a log is followed across rotations without losing or repeating a line", async () => {
  await using follower = startProgram(
    ["logs", "one", "-n", "team-a", "-f", "--tail", "0", "--state-dir", "/nonexistent"],
    { kubeconfig: fileOf("alice") },
  );
  const line = (index: number) => `${String(index).padStart(6, "0")} ${"x".repeat(90)}\n`;
  // Until it has the end of the log, lines may come before it.
  await until(() => {
    appendFileSync(logFile(), "begin\n");
    expect(follower.stdout(), follower.stderr()).toContain("begin\n");
  });
  let next = 0;
  for (let rotations = 0; rotations < 2; rotations += 1) {
    const before = existsSync(`${logFile()}.1`) ? readFileSync(`${logFile()}.1`, "utf8") : "";
    for (const end = next + 700; next < end; next += 1) appendFileSync(logFile(), line(next));
    await until(() => expect(readFileSync(`${logFile()}.1`, "utf8") === before).toBe(false));
  }
  appendFileSync(logFile(), line(next));
  await until(() => expect(follower.stdout().includes(line(next))).toBe(true));
  const expected = Array.from({ length: next + 1 }, (_, index) => line(index)).join("");
  expect(follower.stdout().replaceAll("begin\n", "") === expected).toBe(true);
  expect(follower.stderr()).toBe("");
  follower.child.kill("SIGINT");
  expect((await follower.ended).code).toBe(130);
});

test("the console shows the same log with the reader's rights, and the refusal of a reader without them", async () => {
  appendFileSync(logFile(), "a line for the console\n");
  await objects().patch("team-a", "irep/one", { metadata: { labels: { [LABEL_SERVICE]: "chat" } } });
  const answerFor = async (user: "alice" | "olga") => {
    await using program = startProgram(["console", "--no-open"], { kubeconfig: fileOf(user) });
    await program.until(/#code=/);
    const { origin, hash } = new URL(program.stdout().trim());
    const headers = { [CONSOLE_HEADER]: "1" };
    const body = JSON.stringify({ code: hash.replace("#code=", "") });
    const session = await fetch(`${origin}/console/session`, { method: "POST", headers, body });
    const [cookie = ""] = session.headers.getSetCookie().map((one) => one.split(";")[0]);
    const query = `namespace=team-a&service=chat&tail=1&filter=line`;
    const answer = await fetch(`${origin}/console/logs?${query}`, { headers: { ...headers, cookie } });
    return await answer.text();
  };
  expect(JSON.parse(await answerFor("alice"))).toEqual({ line: "a line for the console", replica: "one" });
  expect(JSON.parse(await answerFor("olga"))).toMatchObject({ code: "RemoteAccessForbidden" });
});

test("only a token of the right account, of the replica's namespace and for this host is admitted, until it expires", async () => {
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
    await until(async () => expect([what, await statusOf(...ask)]).toEqual([what, status]));
  await objects().remove("team-a", `serviceaccount/${LOGS_ACCOUNT}`);
  onTestFinished(() => createAccount(LOGS_ACCOUNT, "team-a"));
  await until(async () => expect(await statusOf(right)).toBe(401));
});

test("the API server issues the token only to users whom a role allows", async () => {
  const denied = await logs("olga", "one", "-n", "team-a");
  expect(denied).toMatchObject({ code: 1, stdout: "" });
  expect(denied.stderr).toMatch(/^RemoteAccessForbidden: serviceaccounts "metalbridge-logs" is forbidden/);
  expect(denied.stderr).toContain("the role metalbridge-host-logs in namespace team-a");
  const command = "kubectl auth can-i create serviceaccounts/metalbridge-logs --subresource=token -n team-a";
  expect(denied.stderr).toContain(command);
  const [, ...args] = command.split(" ");
  const { kubectl } = cluster();
  const olga = "--as=system:serviceaccount:operators:olga";
  await expect(kubectl([...args, olga])).rejects.toThrow(/ended with 1/);
  expect(await kubectl([...args, "--as=system:serviceaccount:team-a:alice"])).toBe("yes\n");

  await bind("metalbridge-host-logs", BOB, { name: "bob", namespace: "team-a" });
  onTestFinished(() => objects().remove("team-a", "rolebinding/bob"));
  await until(async () => {
    const { stderr } = await logs("bob", "one", "-n", "team-a");
    expect(stderr).toMatch(/^RemoteAccessForbidden: cannot use the tunnel to hosts/);
    expect(stderr).toContain(
      "kubectl auth can-i get services/metalbridge-tunnel --subresource=proxy -n metalbridge-system",
    );
  });
  expect(await logs("bob", "one", "-n", "team-a", "--direct", "--tail", "0")).toEqual({
    code: 0,
    stdout: "",
    stderr: "",
  });
});

test("doctor runs on hosts by their agents: one in full, several for scripts, and each failure with its reason", async () => {
  const one = await run("olga", "doctor", "--host", hostName());
  expect(one.stdout, one.stderr).toMatch(
    /checked by its agent[\s\S]* passed, [\s\S]*not run remotely: --fix, .*\n {2}sudo metalbridge doctor\n$/,
  );
  await addHost(cluster(), "silent", ["192.0.2.1"]);
  const json = await run("olga", "doctor", "--all-hosts", "-o", "json");
  expect(json.code).toBe(1);
  const [here, silent] = JSON.parse(json.stdout);
  expect(here).toMatchObject({ host: hostName(), platform: "linux", summary: { ok: expect.any(Number) } });
  expect(here.results).toContainEqual(expect.objectContaining({ code: "AgentNotRunning", status: "ok" }));
  expect(silent).toMatchObject({ host: "silent", error: { code: "HostNeverSeen" } });
  const denied = await run("alice", "doctor", "--host", hostName());
  expect(denied).toMatchObject({ code: 1, stdout: expect.stringMatching(/RemoteAccessForbidden/) });
  expect(denied.stdout).toContain("metalbridge-host-doctor");
});

test("a server that answers at a host's address without the host's key gets no token", async () => {
  const { address } = bench.place;
  await addHost(cluster(), "imposter", [address]);
  const remote = { fingerprint: "0".repeat(64), port: remotePort, logs: true, doctor: true };
  const imposter = "host/imposter";
  await objects().patch("", imposter, { status: { addresses: [address], remote } }, "status");
  const { stdout } = await run("olga", "doctor", "--host", "imposter", "--direct");
  expect(stdout).toMatch(/RemoteHostUnreachable: .*its certificate differs from the status of the Host/);
  // Nor does the tunnel lead to a port of the host's choice, at an address of its choice in a network of its spec.
  await objects().patch("", imposter, { spec: { addresses: [`${address}/24`] } });
  const chosen = { ...remote, port: remotePort + 1 };
  await objects().patch("", imposter, { status: { remote: chosen } }, "status");
  const led = await run("olga", "doctor", "--host", "imposter");
  expect(led.stdout).toMatch(
    /RemoteHostUnreachable: .*on port \d+, and the tunnel connects to port \d+ only: use --direct/,
  );
  await objects().patch("", imposter, { spec: { addresses: ["192.0.2.7"] } });
  const elsewhere = await run("olga", "doctor", "--host", "imposter");
  expect(elsewhere.stdout).toMatch(/RemoteAccessOff: .*has no address that its spec allows/);
});

test("the tunnel connects only to hosts with remote access and speaks no other protocol; the API server proxies to no address without a pod", async () => {
  const proxied = (service: string, target: string) =>
    objects().raw(`/api/v1/namespaces/${NAMESPACE_SYSTEM}/services/${service}/proxy/${target}`);
  await expect(proxied("metalbridge-tunnel", `hosts/${hostName()}`)).rejects.toThrow(
    /only metalbridge-tunnel is supported|426|Upgrade/,
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
  const spec = { ports: [{ port: remotePort }] };
  await objects().apply({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "plain", namespace: NAMESPACE_SYSTEM },
    spec,
  });
  await addEndpoint("plain", remotePort);
  await expect(proxied("plain", "v1/doctor")).rejects.toThrow(/no endpoints available/);
});

/** A tunnel of its own, and what opens one to the host: a connection, or the status of the refusal. */
async function ownTunnel(kubeconfigPath: string, perHost: number, hostPort?: number) {
  const clock = manualClock();
  const connection = await connect({ kubeconfigPath });
  const stop = new AbortController();
  onTestFinished(() => {
    stop.abort();
    connection.close();
  });
  const limits = { total: 2, perHost, connectMs: 30_000, longestMs: 60_000 };
  const port = await new Promise<number>((onListening) => {
    const { signal } = stop;
    const shared = { client: createClient(connection), clock, log: quietLog, signal, limits };
    startTunnel({ ...shared, address: "127.0.0.1", port: 0, hostPort, onListening });
  });
  const open = () => {
    const upgrade = { connection: "Upgrade", upgrade: "metalbridge-tunnel" };
    const asked = request({ host: "127.0.0.1", port, path: `/hosts/${hostName()}`, headers: upgrade }).end();
    return new Promise<Duplex | number | undefined>((resolve) => {
      asked.once("upgrade", (_, socket) => resolve(socket));
      asked.once("response", ({ statusCode }) => resolve(statusCode));
    });
  };
  return { port, open, endLongest: () => clock.advance(limits.longestMs) };
}

const upgradeOf = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: metalbridge-tunnel\r\n\r\n`;

test("a tunnel keeps its place while its lookup is in progress, also where its user has left", async () => {
  await using proxy = await proxyCluster(cluster().kubeconfig, bench.place.root);
  const { port, open } = await ownTunnel(proxy.kubeconfig, 1, remotePort);
  proxy.stall(true);
  const left = connectTcp({ host: "127.0.0.1", port });
  left.write(upgradeOf(`/hosts/${hostName()}`));
  await until(() => expect(proxy.open()).toBe(1));
  left.resetAndDestroy();
  for (let times = 0; times < 3; times += 1) expect(await open()).toBe(429);
  proxy.stall(false);
  proxy.cut();
  await until(async () => {
    const next = await open();
    expect(next).toBeInstanceOf(Duplex);
    if (next instanceof Duplex) next.destroy();
  });
});

test("tunnels to a host are limited in number and in duration, and a client that was refused takes up no place", async () => {
  const { port, open, endLongest } = await ownTunnel(cluster().kubeconfig, 1, remotePort);
  // This host's agent does not use the port that is the default of both.
  expect(await (await ownTunnel(cluster().kubeconfig, 1)).open()).toBe(502);
  const first = await open();
  expect(await open()).toBe(429);
  expect(first).toBeInstanceOf(Duplex);
  endLongest();
  if (first instanceof Duplex) await once(first.resume(), "close");
  const next = await open();
  expect(next).toBeInstanceOf(Duplex);
  if (next instanceof Duplex) next.destroy();

  // Who is refused and does not close its end of the connection does not keep its place.
  const refused = connectTcp({ host: "127.0.0.1", port, allowHalfOpen: true });
  onTestFinished(() => void refused.destroy());
  refused.write(upgradeOf("/nothing"));
  await once(refused.resume(), "end");
  const reset = once(refused, "error");
  await until(() => {
    refused.write("more");
    expect(refused.destroyed).toBe(true);
  });
  expect((await reset)[0]).toMatchObject({ syscall: "write" });
});

test("the API server is asked about few tokens at once, and no token is admitted while it cannot be asked", async () => {
  const connection = await connect({ kubeconfigPath: fileOf("host") });
  onTestFinished(() => connection.close());
  const client = createClient(connection);
  const limits = { atOnce: 2, burst: 3, perSecond: 0 };
  const authorize = createTokenAuthorizer({
    hostName: hostName(),
    clock: systemClock,
    client,
    limits,
  });
  const guesses = await Promise.all(["a", "b", "c"].map(authorize));
  expect(guesses.map(({ at }) => at)).toEqual(["stranger", "stranger", "unknown"]);
  expect((await authorize("d")).at).toBe("stranger");
  expect((await authorize("e")).at).toBe("unknown");

  const binding = "clusterrolebinding/metalbridge-remote-hosts";
  const { apiVersion, kind, metadata, roleRef, subjects } = await objects().get("", binding);
  const kept = { apiVersion, kind, metadata: { name: metadata.name }, roleRef, subjects };
  await objects().remove("", binding);
  onTestFinished(() => objects().apply(kept));
  await until(async () => {
    const { stderr } = await logs("alice", "one", "-n", "team-a");
    expect(stderr).toMatch(/^RemoteRequestRefused: .*the cluster does not let hosts review tokens/);
  });
});
