/** Secrets that a replica names: each way they can be wanting has its own reason, and is cured without a restart of the agent. */
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { expect, test } from "vitest";
import type { InferenceReplica } from "../../src/api/inference-replica.ts";
import { connect } from "../../src/kube/client/connect.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { SECRETS } from "../../src/kube/kinds.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { sharedCluster } from "../../test/cluster/cluster.ts";
import { findLlamaServer } from "../../test/fixtures/llama-server.ts";
import { type Bench, createBench } from "../../test/replicas/bench.ts";

const it = findLlamaServer() === undefined ? test.skip : test;
const quick = { fetchRetryFirstMs: 200, fetchRetryMaxMs: 200 };
type Apply = (data: Record<string, string>) => Promise<void>;

function withBench(run: (bench: Bench, apply: Apply) => Promise<void>): () => Promise<void> {
  return async () => {
    const cluster = sharedCluster();
    await using namespace = await cluster.namespace();
    await using bench = await createBench(cluster.kubeconfig, namespace.name);
    await run(bench, async (data) => {
      const ref = { name: "secret", namespace: namespace.name };
      await bench.client.remove(SECRETS, ref);
      const base64 = Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString("base64")]);
      const made = await bench.client.create(SECRETS, {
        apiVersion: "v1",
        kind: "Secret",
        metadata: ref,
        data: Object.fromEntries(base64),
      });
      if (!made.ok) throw new Error(made.error.message);
    });
  };
}

function withKey(spec: InferenceReplica["spec"]): void {
  Object.assign(spec.template, { auth: { secretName: "secret", key: "api-key" } });
}

it(
  "waits for the Secret of its API key, then for the key in it, and serves with it",
  withBench(async (bench, apply) => {
    await bench.startAgent({ timings: quick });
    await bench.createReplica("chat-0-k", withKey);
    const missing = await bench.untilPhase("chat-0-k", "Waiting");
    expect(missing.status).toMatchObject({ reason: "SecretMissing" });
    const { namespace } = missing.metadata;
    expect(missing.status?.message).toBe(
      `Secret ${namespace}/secret does not exist; create it; the agent retries automatically: kubectl create secret generic secret -n ${namespace} --from-literal=api-key=…`,
    );
    await apply({ other: "x" });
    const incomplete = await bench.untilReason("chat-0-k", "SecretIncomplete");
    expect(incomplete.status?.message).toContain("has no key api-key");
    await apply({ "api-key": "s3cret" });
    const { status } = await bench.untilPhase("chat-0-k", "Ready");
    const chat = (host: string, headers: Record<string, string>) =>
      fetch(`http://${host}:${status?.port}/completion`, {
        method: "POST",
        headers,
        body: JSON.stringify({ prompt: "Hi", n_predict: 1 }),
      }).then((answer) => answer.status);
    const shown = { authorization: "Bearer s3cret" };
    expect(await chat(bench.address, {})).toBe(401);
    expect(await chat(bench.address, shown)).toBe(200);
    expect((await fetch(`http://${bench.address}:${status?.port}/health`)).status).toBe(200);
    // No program of the host goes round the gate.
    expect(await chat("127.0.0.1", shown)).toBe(401);
    expect(JSON.stringify(status)).not.toContain("s3cret");
  }),
);

it(
  "waits while the Secret of its source is missing or holds no token, and sends the token then",
  withBench(async (bench, apply) => {
    const weights = readFileSync(bench.modelPath);
    const server = createServer((request, response) => {
      if (request.headers.authorization !== "Bearer t0ken") response.writeHead(401).end();
      else response.writeHead(200, { "content-length": weights.length }).end(weights);
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" ? address?.port : 0;
    await bench.startAgent({ timings: quick });
    await bench.createReplica("chat-0-l", (spec) =>
      Object.assign(spec.template.model, {
        source: `http://127.0.0.1:${port}/tiny.gguf`,
        secretRef: { name: "secret" },
      }),
    );
    await bench.untilReason("chat-0-l", "SecretMissing");
    await apply({ unrelated: "x" });
    const incomplete = await bench.untilReason("chat-0-l", "SecretIncomplete");
    expect(incomplete.status?.message).toContain("token, HF_TOKEN");
    await apply({ token: "t0ken" });
    await bench.untilPhase("chat-0-l", "Ready");
    server.closeAllConnections();
    server.close();
  }),
);

it(
  "waits while a Secret cannot be read, and an engine that has its key already starts without",
  withBench(async (bench, apply) => {
    const nowhere = `${bench.place.root}/nowhere.kubeconfig`;
    const right = readFileSync(bench.place.kubeconfig, "utf8");
    writeFileSync(nowhere, right.replace(/(server: .*:)\d+/, "$19"));
    const unreachable = createClient(await connect({ kubeconfigPath: nowhere }));
    let isAway = true;
    const client: KubeClient = {
      ...bench.client,
      get: (kind, ref) => (isAway && kind.plural === "secrets" ? unreachable : bench.client).get(kind, ref),
    };
    await apply({ "api-key": "s3cret" });
    await bench.startAgent({ timings: { ...quick, backoffFirstMs: 50 }, cluster: { client } });
    await bench.createReplica("chat-0-m", withKey);
    const waiting = await bench.untilReason("chat-0-m", "SecretUnreadable");
    expect(waiting.status).toMatchObject({ phase: "Waiting" });
    isAway = false;
    const before = await bench.untilPhase("chat-0-m", "Ready");
    isAway = true;
    process.kill(before.status?.pid ?? 0, "SIGKILL");
    await bench.untilExit("chat-0-m", "EngineKilled");
    const after = await bench.untilPhase("chat-0-m", "Ready");
    expect(after.status?.pid).not.toBe(before.status?.pid);
  }),
);
