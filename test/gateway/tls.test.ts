/** HTTPS from the real gateway to llama-server behind the gate of its host. */
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import OpenAI from "openai";
import { afterAll, beforeAll, expect, it } from "vitest";
import { describeUnless } from "../bed/describe-unless.ts";
import { model, service } from "../bed/manifests.ts";
import { whyNoNodeNetwork } from "../bed/node-network.ts";
import { NAMESPACE } from "../bed/services.ts";
import { type System, startSystem } from "../bed/system.ts";
import { createTestAuthority, type TestAuthority, whyNoAuthority } from "../fixtures/test-authority.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { startGateway, whyNoGateway } from "./started-gateway.ts";

describeUnless(whyNoNodeNetwork() ?? whyNoGateway ?? whyNoAuthority(), "HTTPS to hosts", () => {
  let on: System;
  let authority: TestAuthority | undefined;

  beforeAll(async () => {
    on = await startSystem({ agents: [{ hostName: "mac-1", config: { disk: { reserve: 0 } } }] });
    authority = createTestAuthority();
    await writeTinyGguf(path.join(on.farm.modelsDir, "tiny.gguf"));
  });

  afterAll(async () => {
    authority?.remove();
    await on?.[Symbol.asyncDispose]();
  });

  /** Serves the tiny model with a certificate of the authority. */
  const serve = async (name: string, secret: Record<string, string>, tls: object = {}) => {
    const dnsName = `${name}.${NAMESPACE}.svc`;
    const issued = authority?.issue(name, { organization: "test", dnsName });
    const stringData = { "tls.crt": issued?.certificate ?? "", "tls.key": issued?.key ?? "", ...secret };
    const endpoint = { tls: { secretRef: { name }, ...tls } };
    await on.apply(
      { apiVersion: "v1", kind: "Secret", metadata: { name, namespace: NAMESPACE }, stringData },
      model(name, path.join(on.farm.modelsDir, "tiny.gguf")),
      service(name, "mac-1", { contextSize: 1024, endpoint }),
    );
    await on.services.untilReady(name);
  };
  const start = (...args: string[]) => startGateway(on.cluster.kubeconfig, args);
  const ask = ({ url }: { readonly url: string }, name: string) =>
    new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 }).chat.completions.create({
      model: name,
      messages: [{ role: "user", content: "Hi" }],
      max_tokens: 4,
    });

  it("is verified by the CA of the gateway, and refused with the missing setting without one", async () => {
    await serve("chat", {});
    await using verifying = await start("--upstream-ca", authority?.certificateFile ?? "");
    await using without = await start();
    expect((await ask(verifying, "chat")).object).toBe("chat.completion");
    await expect(ask(without, "chat")).rejects.toThrow("--upstream-ca");
  });

  it("with a CA of clients serves the gateway by its certificate, and no client without one", async () => {
    const caFile = authority?.certificateFile ?? "";
    await serve(
      "mutual",
      { "ca.crt": readFileSync(caFile, "utf8") },
      { clientCASecretRef: { name: "mutual" } },
    );
    const inFolder = (file: string) => path.join(on.farm.modelsDir, file);
    const client = authority?.issue("gateway", { organization: "test" });
    const files = { cert: inFolder("gateway.crt"), key: inFolder("gateway.key") };
    writeFileSync(files.cert, client?.certificate ?? "");
    writeFileSync(files.key, client?.key ?? "");
    await using known = await start(
      ...["--upstream-ca", caFile, "--upstream-cert", files.cert, "--upstream-key", files.key],
    );
    await using unknown = await start("--upstream-ca", caFile);
    expect((await ask(known, "mutual")).object).toBe("chat.completion");
    await expect(ask(unknown, "mutual")).rejects.toThrow("--upstream-cert");
    const to = `mutual.${NAMESPACE}.svc:8080`;
    const curl = async (...args: string[]) => {
      const resolve = `${to}:${await on.services.clusterIp("mutual")}`;
      const flags = ["-m", "20", "-s", "-S", "--cacert", caFile, "--resolve", resolve, "-w", "%{http_code}"];
      return on.network.curlInside([...flags, ...args, `https://${to}/v1/models`, "-o", "/dev/null"]);
    };
    expect(await curl("--cert", files.cert, "--key", files.key)).toMatchObject({ code: 0, stdout: "200" });
    expect((await curl()).stderr).toContain("alert certificate required");
    expect(await on.services.replicaOf("mutual")).toMatchObject({
      status: { phase: "Ready", restarts: 0 },
    });
  });
});
