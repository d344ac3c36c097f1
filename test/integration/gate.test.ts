/** llama-server behind the gate, from `kubectl apply` through kube-proxy: TLS, keys, their rotation under load, and a drain with idle connections. */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { INFERENCE_REPLICAS } from "../../src/api/kinds.ts";
import { ENDPOINT_SLICES, SERVICES } from "../../src/kube/kinds.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { monotonicEpochMs } from "../bed/load/ask.ts";
import { lostOf, startClients } from "../bed/load/clients.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { NAMESPACE, question } from "../bed/services.ts";
import { isAlive } from "../bed/signal.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { createTestAuthority, whyNoAuthority } from "../fixtures/test-authority.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";

const why = whyNoNodeNetwork() ?? whyNoAuthority();
const MINUTE = 60_000;
/** The agents' own: from the withdrawal until every node has applied it. */
const PROPAGATION_MS = 2_000;
/** For the engine to exit, on a machine that runs other tests; a wait for the idle connections would take the engine's 5 s more. */
const BUSY_MS = 4_500;
/** The agents read their Secrets once a minute: clients that never pause would keep both cores busy until then. */
const BETWEEN_ASKS_MS = 200;
const PORT = 8443;
const HOST = `secure.${NAMESPACE}.svc`;

describeUnless(why, "llama-server behind the gate", () => {
  let on: System;
  const authority = why === undefined ? createTestAuthority() : undefined;

  beforeAll(async () => {
    on = await startSystem({ agents: [{ hostName: "mac-1" }, { hostName: "mac-2" }] });
    await writeTinyGguf(path.join(on.farm.modelsDir, "tiny.gguf"));
  });

  afterAll(async () => {
    authority?.remove();
    await on?.[Symbol.asyncDispose]();
  });

  const secret = (name: string, stringData: Record<string, string>) =>
    on.apply({ apiVersion: "v1", kind: "Secret", metadata: { name, namespace: NAMESPACE }, stringData });

  const certificate = (name: string) => {
    const issued = authority?.issue(name, { organization: "test", dnsName: HOST });
    return {
      "ca.crt": readFileSync(authority?.certificateFile ?? "", "utf8"),
      "tls.crt": issued?.certificate ?? "",
      "tls.key": issued?.key ?? "",
    };
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
      const kept = await on.farm.kubectl([
        "get",
        "secret/cert",
        "-n",
        NAMESPACE,
        "-o",
        "jsonpath={.data.ca\\.crt}",
      ]);
      writeFileSync(ca, Buffer.from(kept, "base64"));
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
      await until(async () => expect(await ask("second")).toBe("200 second"), { everyMs: 500 });
      // Clients move on in their own time.
      expect(await ask("first")).toBe("200 second");
      key = "second";
      const before = answers.length;
      await until(() => expect(answers.length).toBeGreaterThan(before + 6));
      isOver = true;
      await Promise.all(clients);
      expect(answers.filter((answer) => !answer.startsWith("200"))).toEqual([]);
      expect((await on.services.replicaOf("secure")).status).toMatchObject({ pid: status.pid, restarts: 0 });
      await on.farm.kubectl(["delete", "isvc/secure", "-n", NAMESPACE, "--timeout=60s"], {
        timeoutMs: 70_000,
      });
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
      await on.farm.kubectl(["scale", "isvc/chat", "-n", NAMESPACE, "--replicas=1"]);
      let readyAt = 0;
      const withdrawn = await until(
        async () => {
          const checkedAt = monotonicEpochMs();
          const slices: readonly Slice[] = await on.farm.objects.list(
            ENDPOINT_SLICES,
            "kubernetes.io/service-name=chat",
          );
          const found = slices.find(({ endpoints }) => endpoints?.[0]?.conditions.ready === false);
          if (found === undefined) readyAt = checkedAt;
          expect(found).toBeDefined();
          return found?.ports[0]?.port;
        },
        { everyMs: 5 },
      );
      const withdrawnAt = monotonicEpochMs();
      const going = before.find(({ status }) => status.port === withdrawn)?.status;
      let aliveAt = withdrawnAt;
      await until(
        () => {
          const checkedAt = monotonicEpochMs();
          const lives = isAlive(going?.pid ?? 0);
          if (lives) aliveAt = checkedAt;
          expect(lives).toBe(false);
        },
        { everyMs: 5 },
      );
      const goneAt = monotonicEpochMs();
      await clients.untilEachAsked(2);
      expect(lostOf(await clients.stop())).toEqual([]);
      // Each from the side on which this process, which may be held off, cannot be wrong.
      expect(goneAt - readyAt).toBeGreaterThanOrEqual(PROPAGATION_MS);
      expect(aliveAt - withdrawnAt).toBeLessThan(PROPAGATION_MS + 300 + BUSY_MS);
    },
    4 * MINUTE,
  );
});

interface Replica {
  readonly status: { readonly pid: number; readonly port: number };
}

interface Slice {
  readonly endpoints?: readonly { readonly conditions: { readonly ready?: boolean } }[];
  readonly ports: readonly { readonly port: number }[];
}
