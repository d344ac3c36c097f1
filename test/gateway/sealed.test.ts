/** Sealed services as their users and their neighbors see them: through kube-proxy and the relay, the gateway, and on the wire. */
import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createCertificate } from "../../src/crypto/certificate.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { envoyPath } from "../bed/envoy.ts";
import { model, service } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { type Part, startPart } from "../bed/part.ts";
import { freePort } from "../bed/ports.ts";
import { type System, startSystem } from "../bed/system.ts";
import { until } from "../bed/until.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { startGateway, whyNoGateway } from "./started-gateway.ts";

describeUnless(whyNoNodeNetwork() ?? whyNoGateway, "sealed services", () => {
  let on: System;
  let relay: Part;
  let dir: string;

  beforeAll(async () => {
    const controllerArgs = ["--relay-service", "metalbridge-relay"];
    on = await startSystem({
      agents: [{ hostName: "mac-1", config: { disk: { reserve: 0 } } }],
      controllerArgs,
    });
    dir = await mkdtemp(path.join(tmpdir(), "mb-relay-"));
    await writeTinyGguf(path.join(on.farm.modelsDir, "tiny.gguf"));
    const health = await freePort();
    relay = startPart(
      [
        ...["relay", "--kubeconfig", on.cluster.kubeconfig, "--dir", path.join(dir, "run")],
        ...[
          "--envoy",
          envoyPath ?? "envoy",
          "--address",
          on.network.hostAddress,
          "--health-port",
          String(health),
        ],
      ],
      path.join(dir, "relay.log"),
    );
    await on.apply(
      {
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: {
          name: "metalbridge-relay-1",
          namespace: "metalbridge-system",
          labels: { "kubernetes.io/service-name": "metalbridge-relay" },
        },
        addressType: "IPv4",
        endpoints: [{ addresses: [on.network.hostAddress], conditions: { ready: true } }],
        ports: [{ name: "health", port: health }],
      },
      model("chat", path.join(on.farm.modelsDir, "tiny.gguf")),
      service("chat", "mac-1", { contextSize: 1024, endpoint: { transport: "Sealed" } }),
    );
    await on.services.untilReady("chat");
    await until(async () =>
      expect((await fetch(`http://127.0.0.1:${health}/readyz`)).status, relay.log()).toBe(200),
    );
  });

  afterAll(async () => {
    await relay?.kill("SIGTERM");
    await on?.[Symbol.asyncDispose]();
    if (dir !== undefined) await rm(dir, { recursive: true, force: true });
  });

  it("are reached by the name of their Service, without a change for clients", async () => {
    const answer = await on.services.chat("chat", { max_tokens: 4 });
    expect(answer.object, relay.log()).toBe("chat.completion");
    await on.services.sliceUntil("chat", true);
  });

  it("are reached through the gateway", async () => {
    await using gateway = await startGateway(on.cluster.kubeconfig);
    const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: "none", maxRetries: 0 });
    const messages = [{ role: "user" as const, content: "Hi" }];
    const whole = await client.chat.completions.create({ model: "chat", messages, max_tokens: 4 });
    expect(whole.object).toBe("chat.completion");
    const stream = await client.chat.completions.create({
      model: "chat",
      messages,
      max_tokens: 4,
      stream: true,
    });
    let events = 0;
    for await (const _ of stream) events += 1;
    expect(events).toBeGreaterThan(1);
  });

  it("send no byte to a neighbor, whatever it presents", async () => {
    const { status } = await on.services.replicaOf("chat");
    const at = `${on.network.hostAddress}:${status?.port}`;
    const stranger = createCertificate({ name: "metalbridge-transport" });
    const pem = path.join(dir, "stranger.pem");
    writeFileSync(pem, `${stranger.cert}${stranger.key}`, { mode: 0o644 });
    const attempts = [
      [`http://${at}/v1/models`],
      ["-k", `https://${at}/v1/models`],
      ["-k", "--cert", pem, `https://${at}/v1/models`],
      ["-k", "--tls-max", "1.2", `https://${at}/health`],
    ];
    for (const args of attempts) {
      const { code, stdout } = await on.network.curlInside(["-m", "10", "-s", "-i", ...args]);
      expect([args, code === 0, stdout]).toEqual([args, false, ""]);
    }
    expect(await on.services.replicaOf("chat")).toMatchObject({ status: { phase: "Ready", restarts: 0 } });
  });
});
