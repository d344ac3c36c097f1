/**
 * Traffic through kube-proxy while replicas, agents and hosts change, and llama-server behind the gate.
 *
 * CPU: a whole system with three hosts, clients of every kind through five moves, and every agent started twice.
 */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { Host } from "../../src/api/host.ts";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { ENDPOINT_SLICES, SERVICES } from "../../src/kube/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { livingEngines } from "../bed/engines.ts";
import { monotonicEpochMs } from "../bed/load/ask.ts";
import { allKinds, lostOf, startClients } from "../bed/load/clients.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { pacedTokens } from "../bed/pace.ts";
import { freshBundle, installRelease } from "../bed/release.ts";
import { NAMESPACE, question } from "../bed/services.ts";
import { isAlive } from "../bed/signal.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { createTestAuthority, type TestAuthority, whyNoAuthority } from "../fixtures/test-authority.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const MINUTE = 60_000;
/** The agents' own: from the withdrawal until every node has applied it. */
const PROPAGATION_MS = 2_000;
/** Each request is a process; the agents read their Secrets once a minute. */
const BETWEEN_ASKS_MS = 1_000;
const PORT = 8443;
const HOST = `secure.${NAMESPACE}.svc`;

describeUnless(whyNoNodeNetwork(), "three hosts behind kube-proxy", () => {
  let on: System;

  beforeAll(async () => {
    on = await startSystem({
      pace: true,
      agents: ["mac-1", "mac-2", "mac-3"].map((hostName) => ({ hostName })),
    });
    await writeTinyGguf(path.join(on.farm.modelsDir, "tiny.gguf"));
    await on.services.untilHostsReady();
  });

  afterAll(() => on?.[Symbol.asyncDispose]());

  describe("moves under load", () => {
    beforeAll(async () => {
      const placement = { spread: "Required" };
      const rollout = { drainSeconds: 30 };
      const spec = { replicas: 3, parallelSlots: 2, placement, rollout };
      await on.services.applyService("moving", "tiny.gguf", spec);
      await on.services.untilReady("moving");
    });

    afterAll(async () => {
      await on.farm.objects.patch("", "mbhost/mac-2", { spec: { drain: false, unschedulable: false } });
      await on.farm.objects.remove(NAMESPACE, "isvc", "mdl");
    });

    /** Clients of every kind ask all the time; what they lost. */
    async function underLoad(move: () => Promise<void>): Promise<{ asked: number; lost: readonly string[] }> {
      const url = `http://${await on.services.clusterIp("moving")}:8080`;
      await using clients = startClients(on.network.namespace, { url, clients: allKinds(pacedTokens) });
      await clients.untilEachAsked(1);
      await move();
      await clients.untilEachAsked(1);
      const asked = await clients.stop();
      return { asked: asked.length, lost: lostOf(asked) };
    }

    const replicas = async () => {
      return (await on.farm.objects.list(INFERENCE_REPLICAS)) as readonly Replica[];
    };

    it(
      "a rolling update of three replicas, one on each host, fails no request",
      async () => {
        const { asked, lost } = await underLoad(async () => {
          // On hosts of their own a successor has to take its predecessor's host.
          await on.farm.objects.patch(NAMESPACE, "isvc/moving", { spec: { contextSize: 512 } });
          await on.farm.objects.until(NAMESPACE, "irep", (all: readonly Replica[]) =>
            expect(all.map(({ spec }) => spec.template.engine.contextSize)).toEqual([512, 512, 512]),
          );
          await on.services.untilReady("moving");
        });
        expect(lost).toEqual([]);
        expect(asked).toBeGreaterThan(20);
        expect(new Set((await replicas()).map(({ spec }) => spec.template.hostName)).size).toBe(3);
      },
      4 * MINUTE,
    );

    it("an upgrade of the agents of all hosts fails no request and keeps every engine", async () => {
      const next = "0.1.0-next";
      const bundle = await freshBundle(path.join(on.farm.dir, "bundle"));
      const { program } = installRelease(path.join(on.farm.dir, "release"), next, bundle);
      const engines = () => on.farm.agents.flatMap(({ stateDir }) => [...livingEngines(stateDir).values()]);
      const before = engines();
      expect(before).toHaveLength(3);
      const { asked, lost } = await underLoad(async () => {
        for (const agent of on.farm.agents.toReversed()) {
          await agent.part().kill("SIGTERM");
          agent.restart({ program });
        }
        await on.farm.objects.until("", "mbhost", (hosts) =>
          expect(hosts.map(({ status }: Host) => status?.info?.agentVersion)).toEqual(Array(3).fill(next)),
        );
        await on.services.untilReady("moving");
      });
      expect(lost).toEqual([]);
      expect(asked).toBeGreaterThan(10);
      expect(engines()).toEqual(before);
    });

    it(
      "the drain of a host moves its replica and fails no request",
      async () => {
        const { objects } = on.farm;
        await objects.patch(NAMESPACE, "isvc/moving", { spec: { placement: { spread: "Preferred" } } });
        const before = await replicas();
        const { asked, lost } = await underLoad(async () => {
          await objects.patch("", "mbhost/mac-2", { spec: { drain: true } });
          await objects.until("", "mbhost/mac-2", ({ status }) =>
            expect(status.conditions).toContainEqual(
              expect.objectContaining({ type: "Drained", status: "True" }),
            ),
          );
        });
        expect(lost).toEqual([]);
        expect(asked).toBeGreaterThan(5);
        const after = await replicas();
        expect(after.map(({ spec }) => spec.template.hostName)).not.toContain("mac-2");
        expect(after).toHaveLength(3);
        // Only what was on the drained host has moved.
        const stayed = before.filter(({ spec }) => spec.template.hostName !== "mac-2");
        const uids = after.map(({ metadata }) => metadata.uid);
        for (const { metadata } of stayed) expect(uids).toContain(metadata.uid);
      },
      4 * MINUTE,
    );
  });

  describeUnless(whyNoAuthority(), "llama-server behind the gate", () => {
    let authority: TestAuthority;

    beforeAll(() => {
      authority = createTestAuthority();
    });
    afterEach(() => on.farm.objects.remove(NAMESPACE, "isvc", "mdl"));
    afterAll(() => authority?.remove());

    const secret = (name: string, stringData: Record<string, string>) =>
      on.apply({ apiVersion: "v1", kind: "Secret", metadata: { name, namespace: NAMESPACE }, stringData });

    const certificate = (name: string) => {
      const issued = authority.issue(name, { organization: "test", dnsName: HOST });
      const ca = readFileSync(authority.certificateFile, "utf8");
      return { "ca.crt": ca, "tls.crt": issued.certificate, "tls.key": issued.key };
    };

    it(
      "serves HTTPS and asks for its key; both are replaced under load without a failed request or a restart",
      async () => {
        await secret("keys", { apiKey: "first" });
        await secret("cert", certificate("first"));
        await on.services.applyService("secure", "tiny.gguf", {
          parallelSlots: 4,
          contextSize: 1_024,
          auth: { secretRef: { name: "keys" } },
          endpoint: { port: PORT, tls: { secretRef: { name: "cert" } } },
        });
        await on.services.untilReady("secure");
        const { status } = await on.services.replicaOf("secure");
        expect((await on.services.serviceStatus("secure")).endpoint).toMatch(/^https:\/\/secure\./);
        expect((await on.services.serviceStatus("secure")).conditions).toContainEqual(
          expect.objectContaining({ type: "KeyRequired", status: "True", reason: "GateChecksKeys" }),
        );
        const service = await on.farm.objects.read(SERVICES, "secure");
        expect(service.spec.ports[0]).toMatchObject({ port: PORT, appProtocol: "https" });

        const ca = path.join(on.farm.modelsDir, "ca.crt");
        const { data } = await on.farm.objects.get(NAMESPACE, "secret/cert");
        writeFileSync(ca, Buffer.from(data["ca.crt"], "base64"));
        const to = `${HOST}:${PORT}`;
        const address = await on.services.clusterIp("secure");
        /** The HTTP status, and the name in the certificate. */
        const ask = async (key: string) => {
          const { code, stdout, stderr } = await on.network.curlInside([
            ...["-m", "20", "-v", "--cacert", ca, "--resolve", `${to}:${address}`, "-o", "/dev/null"],
            ...["-w", "%{http_code}", "-H", `Authorization: Bearer ${key}`],
            ...[`https://${to}/v1/chat/completions`, "-d", question({ max_tokens: 4 })],
          ]);
          if (code !== 0) return `curl ended with ${code}: ${stderr}`;
          return `${stdout} ${/subject:.*CN=(\S+)/.exec(stderr)?.[1]}`;
        };
        expect(await ask("wrong")).toBe("401 first");
        expect(await ask("first")).toBe("200 first");
        const plain = await on.network.curlInside(["-m", "5", `http://${address}:${PORT}/health`]);
        expect(plain.code).not.toBe(0);

        let key = "first";
        let isOver = false;
        const answers: string[] = [];
        const client = async () => {
          for (; !isOver; await pause(BETWEEN_ASKS_MS)) answers.push(await ask(key));
        };
        const clients = [client(), client(), client()];
        await secret("keys", { apiKey: "second" });
        await secret("cert", certificate("second"));
        await until(async () => expect(await ask("second")).toBe("200 second"), { everyMs: BETWEEN_ASKS_MS });
        // Clients move on in their own time.
        expect(await ask("first")).toBe("200 second");
        key = "second";
        const before = answers.length;
        await until(() => expect(answers.length).toBeGreaterThan(before + 6));
        isOver = true;
        await Promise.all(clients);
        expect(answers.filter((answer) => !answer.startsWith("200"))).toEqual([]);
        expect((await on.services.replicaOf("secure")).status).toMatchObject({
          pid: status.pid,
          restarts: 0,
        });
        await on.farm.objects.remove(NAMESPACE, "isvc/secure");
        await until(() => expect(isAlive(status.pid)).toBe(false));
      },
      6 * MINUTE,
    );

    it(
      "is drained as soon as every node knows, with idle kept-alive clients that lose nothing and ask nothing twice",
      async () => {
        await on.services.applyService("chat", "tiny.gguf", {
          replicas: 2,
          parallelSlots: 4,
          contextSize: 2_048,
          rollout: { drainSeconds: 60 },
          placement: { spread: "Required" },
          endpoint: { gate: "Always" },
        });
        await on.services.untilReady("chat");
        const kept = {
          isKept: true,
          isStreamed: false,
          maxTokens: 4,
          pauseMs: [300, 700],
          retries: false,
        } as const;
        await using clients = startClients(on.network.namespace, {
          url: `http://${await on.services.clusterIp("chat")}:8080`,
          clients: Array.from({ length: 8 }, (_, index) => ({ ...kept, name: `kept-${index}` })),
        });
        await clients.untilEachAsked(2);
        const replicas = (): Promise<readonly Replica[]> => on.farm.objects.list(INFERENCE_REPLICAS);
        const before = await replicas();
        await on.farm.objects.scale(NAMESPACE, "isvc/chat", 1);
        let readyAt = 0;
        const withdrawn = await until(async () => {
          const checkedAt = monotonicEpochMs();
          const slices: readonly Slice[] = await on.farm.objects.list(
            ENDPOINT_SLICES,
            "kubernetes.io/service-name=chat",
          );
          const found = slices.find(({ endpoints }) => endpoints?.[0]?.conditions.ready === false);
          if (found === undefined) readyAt = checkedAt;
          expect(found).toBeDefined();
          return found?.ports[0]?.port;
        });
        const going = before.find(({ status }) => status.port === withdrawn)?.status;
        await until(() => expect(isAlive(going?.pid ?? 0)).toBe(false));
        const goneAt = monotonicEpochMs();
        await clients.untilEachAsked(2);
        expect(lostOf(await clients.stop())).toEqual([]);
        // From the side on which this process, which may be held off, cannot be wrong.
        expect(goneAt - readyAt).toBeGreaterThanOrEqual(PROPAGATION_MS);
      },
      4 * MINUTE,
    );
  });
});

interface Replica {
  readonly metadata: { readonly uid: string };
  readonly spec: {
    readonly template: { readonly hostName: string; readonly engine: { readonly contextSize: number } };
  };
  readonly status: { readonly pid: number; readonly port: number };
}

interface Slice {
  readonly endpoints?: readonly { readonly conditions: { readonly ready?: boolean } }[];
  readonly ports: readonly { readonly port: number }[];
}
