/** HTTPS from the real gateway to llama-server behind the gate of its host. */
import path from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, service } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { NAMESPACE } from "../bed/services.ts";
import { type System, startSystem } from "../bed/system.ts";
import { createTestAuthority, whyNoAuthority } from "../fixtures/test-authority.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { startGateway, whyNoGateway } from "./started-gateway.ts";

const MINUTE = 60_000;

describeUnless(whyNoNodeNetwork() ?? whyNoGateway ?? whyNoAuthority(), "HTTPS to hosts", () => {
  let on: System;

  beforeAll(async () => {
    on = await startSystem({ agents: [{ hostName: "mac-1", config: { disk: { reserve: 0 } } }] });
  }, 2 * MINUTE);

  afterAll(async () => {
    await on?.[Symbol.asyncDispose]();
  });

  it(
    "is verified by the CA of the gateway, and refused with the missing setting without one",
    async () => {
      const authority = createTestAuthority();
      try {
        const file = path.join(on.farm.modelsDir, "tiny.gguf");
        await writeTinyGguf(file);
        const dnsName = `chat.${NAMESPACE}.svc`;
        const { certificate, key } = authority.issue("chat", { organization: "test", dnsName });
        const stringData = { "tls.crt": certificate, "tls.key": key };
        await on.apply(
          { apiVersion: "v1", kind: "Secret", metadata: { name: "cert", namespace: NAMESPACE }, stringData },
          model("chat", file),
          service("chat", "mac-1", { contextSize: 1024, endpoint: { tls: { secretRef: { name: "cert" } } } }),
        );
        await on.services.untilReady("chat");

        await using verifying = await startGateway(on.cluster.kubeconfig, [
          "--upstream-ca",
          authority.certificateFile,
        ]);
        await using without = await startGateway(on.cluster.kubeconfig);
        const ask = ({ url }: { readonly url: string }) =>
          new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }).chat.completions.create({
            model: "chat",
            messages: [{ role: "user", content: "Hi" }],
            max_tokens: 4,
          });
        expect((await ask(verifying)).object).toBe("chat.completion");
        await expect(ask(without)).rejects.toThrow("--upstream-ca");
      } finally {
        authority.remove();
      }
    },
    3 * MINUTE,
  );
});
