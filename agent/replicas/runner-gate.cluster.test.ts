/** A llama-server behind the gate: keys and certificate follow their Secrets while it serves, and its route counts for its health. */
import { readFileSync, writeFileSync } from "node:fs";
import { request } from "node:https";
import { join } from "node:path";
import type { TLSSocket } from "node:tls";
import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { createTestAuthority, whyNoAuthority } from "../../test/fixtures/test-authority.ts";
import { type Bench, createBench } from "../../test/replicas/bench.ts";

const it = findLlamaServer() === undefined || whyNoAuthority() !== undefined ? test.skip : test;
const quick = { fetchRetryFirstMs: 200, fetchRetryMaxMs: 200, secretsMs: 100, liveProbeMs: 100 };
const WAIT = { timeout: 60_000, interval: 20 };

interface Setup {
  readonly bench: Bench;
  readonly authority: ReturnType<typeof createTestAuthority>;
  readonly secret: (name: string, data: Record<string, string>) => Promise<void>;
  readonly certificate: (name: string, validSeconds?: number) => Record<string, string>;
}

function withBench(run: (setup: Setup) => Promise<void>): () => Promise<void> {
  return async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    await using bench = await createBench(cluster.kubeconfig, namespace.name);
    const authority = createTestAuthority();
    const secret: Setup["secret"] = async (name, data) => {
      const metadata = { name, namespace: namespace.name };
      await bench.objects.apply({ apiVersion: "v1", kind: "Secret", metadata, stringData: data });
    };
    const certificate: Setup["certificate"] = (name, validSeconds = 3_600) => {
      const issued = authority.issue(name, { organization: "test", validSeconds, dnsName: "chat" });
      return { "tls.crt": issued.certificate, "tls.key": issued.key };
    };
    await run({ bench, authority, secret, certificate });
    authority.remove();
  };
}

function gated({ template }: InferenceReplica["spec"]): void {
  Object.assign(template, { auth: { secretName: "keys", key: "apiKey" }, tls: { secretName: "cert" } });
}

/** One request on a connection of its own: the status, and who the certificate names. */
function ask(bench: Bench, replica: InferenceReplica, ca: Buffer, key: string, more: object = {}) {
  return new Promise<{ status: number | undefined; servedBy: string }>((resolve, reject) => {
    const call = request(
      {
        host: bench.address,
        port: replica.status?.port,
        path: "/completion",
        method: "POST",
        ca,
        headers: { authorization: `Bearer ${key}` },
        agent: false,
        servername: "chat",
      },
      (response) => {
        const socket = response.socket as TLSSocket;
        const servedBy = String(socket.getPeerCertificate().subject.CN);
        response.resume().once("end", () => resolve({ status: response.statusCode, servedBy }));
      },
    );
    call.once("error", reject);
    call.end(JSON.stringify({ prompt: "Hi", n_predict: 1, ...more }));
  });
}

it(
  "new keys and certificates are taken over under load without a restart, and the old key is accepted for a while",
  withBench(async ({ bench, authority, secret, certificate }) => {
    const ca = readFileSync(authority.certificateFile);
    await secret("keys", { apiKey: "old" });
    await secret("cert", certificate("first"));
    await bench.startAgent({ timings: { ...quick, keyOverlapMs: 10_000 } });
    await bench.createReplica("chat-0-g", gated);
    const ready = await bench.untilPhase("chat-0-g", "Ready");
    expect(await ask(bench, ready, ca, "wrong")).toMatchObject({ status: 401 });

    let key = "old";
    let isOver = false;
    let answers = 0;
    const failed: unknown[] = [];
    const client = async () => {
      while (!isOver) {
        const answer = await ask(bench, ready, ca, key).catch((error: unknown) => ({
          status: String(error),
        }));
        answers += 1;
        if (answer.status !== 200) failed.push(answer);
      }
    };
    const clients = [client(), client()];
    await secret("cert", certificate("second"));
    // Before: the agent may read the key while kubectl is still on its way out.
    const changedAt = performance.now();
    await secret("keys", { apiKey: "new" });
    await vi.waitFor(async () => {
      expect(await ask(bench, ready, ca, "new")).toEqual({ status: 200, servedBy: "second" });
    }, WAIT);
    key = "new";
    // Both are accepted; then the old one alone ends.
    const accepted = await ask(bench, ready, ca, "old");
    if (performance.now() - changedAt < 9_500) expect(accepted.status).toBe(200);
    const before = answers;
    await vi.waitFor(() => expect(answers).toBeGreaterThan(before + 2), WAIT);
    isOver = true;
    await Promise.all(clients);
    await vi.waitFor(async () => expect(await ask(bench, ready, ca, "old")).toMatchObject({ status: 401 }), {
      ...WAIT,
      interval: 250,
    });
    expect(performance.now() - changedAt).toBeGreaterThan(9_900);
    expect(failed).toEqual([]);
    const after = await bench.replica("chat-0-g");
    expect(after?.status).toMatchObject({ phase: "Ready", pid: ready.status?.pid, restarts: 0 });
  }),
);

it(
  "a certificate that cannot be served is named with what to do, and the one in use stays",
  withBench(async ({ bench, authority, secret, certificate }) => {
    const ca = readFileSync(authority.certificateFile);
    await secret("keys", { apiKey: "key" });
    await bench.startAgent({ timings: quick });
    await bench.createReplica("chat-0-c", gated);
    const missing = await bench.untilReason("chat-0-c", "SecretMissing");
    expect(missing.status?.message).toContain("kubectl create secret tls cert -n ");
    await secret("cert", { ...certificate("other"), "tls.key": certificate("another")["tls.key"] ?? "" });
    const mismatched = await bench.untilReason("chat-0-c", "CertificateInvalid");
    expect(mismatched.status?.message).toContain("tls.key is not the key of tls.crt; put a valid");
    await secret("cert", certificate("first"));
    const ready = await bench.untilPhase("chat-0-c", "Ready");
    for (const [data, says] of [
      [certificate("expired", -10), "has expired"],
      [{ ...certificate("x"), "tls.crt": "garbage" }, "tls.crt or tls.key cannot be read"],
    ] as const) {
      await secret("cert", data);
      await bench.untilReplica("chat-0-c", (found) =>
        expect(found?.status).toMatchObject({ phase: "Ready", message: expect.stringContaining(says) }),
      );
      expect(await ask(bench, ready, ca, "key")).toEqual({ status: 200, servedBy: "first" });
    }
    await secret("cert", certificate("second"));
    await vi.waitFor(async () => {
      expect(await ask(bench, ready, ca, "key")).toEqual({ status: 200, servedBy: "second" });
      expect((await bench.replica("chat-0-c"))?.status?.message).not.toContain("cert");
    }, WAIT);
  }),
);

it(
  "clients are verified by the CA of its Secret, also after the agent has restarted and the CA has changed",
  withBench(async ({ bench, authority, secret, certificate }) => {
    const ca = readFileSync(authority.certificateFile);
    const others = createTestAuthority();
    const [own, foreign] = [authority, others].map((one) => {
      const { certificate: cert, key } = one.issue("client", { organization: "clients" });
      return { cert, key };
    });
    const reach = (replica: InferenceReplica, client: object = {}) =>
      new Promise<number | string | undefined>((resolve) => {
        const { address: host } = bench;
        const to = {
          host,
          port: replica.status?.port,
          path: "/v1/models",
          ca,
          agent: false,
          servername: "chat",
        };
        request({ ...to, ...client }, (response) => resolve(response.resume().statusCode))
          .once("error", ({ message }) => resolve(message))
          .end();
      });
    await secret("cert", certificate("first"));
    const agent = await bench.startAgent({ timings: quick });
    await bench.createReplica("chat-0-m", ({ template }) =>
      Object.assign(template, { tls: { secretName: "cert", clientCASecretName: "ca" } }),
    );
    const missing = await bench.untilReason("chat-0-m", "SecretMissing");
    expect(missing.status?.message).toContain("kubectl create secret generic ca -n ");
    await secret("ca", { "ca.crt": "garbage" });
    const unusable = await bench.untilReason("chat-0-m", "CertificateInvalid");
    expect(unusable.status?.message).toContain("ca.crt has no certificate");
    await secret("ca", { "ca.crt": ca.toString() });
    const ready = await bench.untilPhase("chat-0-m", "Ready");
    expect(await reach(ready, own)).toBe(200);
    expect(await reach(ready)).toContain("certificate required");
    expect(typeof (await reach(ready, foreign))).toBe("string");

    await agent.end();
    expect(await reach(ready)).toContain("certificate required");
    await bench.startAgent({ timings: quick });
    await secret("ca", { "ca.crt": readFileSync(others.certificateFile, "utf8") });
    await vi.waitFor(async () => expect(await reach(ready, foreign)).toBe(200), WAIT);
    expect(typeof (await reach(ready, own))).toBe("string");
    const after = await bench.replica("chat-0-m");
    expect(after?.status).toMatchObject({ phase: "Ready", pid: ready.status?.pid, restarts: 0 });
    others.remove();
  }),
);

it(
  "a replica whose gate cannot be started again leaves its Service, and returns with the gate",
  withBench(async ({ bench }) => {
    const at = (name: string) => join(bench.place.root, name);
    const main = fileURLToPath(new URL("../gate/main.ts", import.meta.url));
    const runs = `require("node:fs").writeFileSync("${at("pid")}", String(process.pid)); import("${main}");`;
    writeFileSync(at("gate.cjs"), runs);
    await bench.startAgent({ timings: { ...quick, routeMs: 300 }, gateProgram: at("gate.cjs") });
    await bench.createReplica("chat-0-r", ({ template }) => Object.assign(template, { gate: "Always" }));
    const ready = await bench.untilPhase("chat-0-r", "Ready");
    writeFileSync(at("gate.cjs"), "process.exit(3);");
    process.kill(Number(readFileSync(at("pid"), "utf8")), "SIGKILL");
    const waiting = await bench.untilReason("chat-0-r", "GateUnavailable");
    expect(waiting.status).toMatchObject({ phase: "Waiting", pid: ready.status?.pid });
    await bench.untilAnnounced("chat-0-r", false);
    writeFileSync(at("gate.cjs"), runs);
    const back = await bench.untilPhase("chat-0-r", "Ready");
    expect(back.status).toMatchObject({ pid: ready.status?.pid, restarts: 0 });
    expect((await bench.slice("chat-0-r"))?.endpoints?.[0]?.conditions?.ready).toBe(true);
    expect((await fetch(`http://${bench.address}:${back.status?.port}/v1/models`)).status).toBe(200);
  }),
);

it(
  "live performance is in the status while there are requests, and absent after a window without any",
  withBench(async ({ bench, authority, secret, certificate }) => {
    const ca = readFileSync(authority.certificateFile);
    await secret("keys", { apiKey: "key" });
    await secret("cert", certificate("first"));
    const live = { gaugesMs: 100, performanceWindowMs: 2_000, performanceMs: 200 };
    const agent = await bench.startAgent({ timings: { ...quick, ...live } });
    await bench.createReplica("chat-0-l", gated);
    const ready = await bench.untilPhase("chat-0-l", "Ready");
    expect(ready.status?.performance).toBeUndefined();
    let isOver = false;
    const client = async () => {
      while (!isOver) await ask(bench, ready, ca, "key", { n_predict: 64, stream: true });
    };
    const clients = [client(), client()];
    await bench.untilReplica("chat-0-l", (found) => {
      const { tokensPerSecond = 0, timeToFirstTokenSeconds = 0, ...rest } = found?.status?.performance ?? {};
      expect(tokensPerSecond).toBeGreaterThan(1);
      expect(timeToFirstTokenSeconds).toBeGreaterThan(0);
      expect(rest.requestsInFlight).toBeGreaterThan(0.5);
    });
    expect(agent.runner.snapshot()[0]?.performance?.tokensPerSecond).toBeGreaterThan(1);
    isOver = true;
    await Promise.all(clients);
    await bench.untilReplica("chat-0-l", (found) => expect(found?.status?.performance).toBeUndefined());
    expect(agent.runner.snapshot()[0]?.performance?.tokensPerSecond).toBe(0);
  }),
);
