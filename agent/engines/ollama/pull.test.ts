/** Which sources Ollama pulls itself: it knows none of the rules for addresses that the store's downloads keep to. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { requestFor } from "../../replicas/prepare/fetch.ts";
import { fetchOptions, startStore } from "../../store/fixtures/store.ts";
import { createPuller } from "./pull.ts";

const pullerFor = (registry?: string) =>
  createPuller({
    models: undefined,
    registry,
    stallMs: 1_000,
    reserveBytes: 0,
    during: () => Promise.reject(new Error("nothing is pulled")),
  });

describe("Ollama pulls", () => {
  test.each([
    ["ollama://tiny", undefined, true],
    ["ollama://user/tiny:7b", undefined, true],
    ["ollama://registry.ollama.ai/library/tiny:7b", undefined, true],
    ["ollama://tiny", "http://10.0.0.5:5000", true],
    ["ollama://127.0.0.1:5000/a/b", "http://127.0.0.1:5000", true],
    ["ollama://127.0.0.1:5000/a/b", undefined, false],
    ["ollama://127.0.0.1:9090/a/b", "http://127.0.0.1:5000", false],
    ["ollama://localhost/a/b", undefined, false],
    ["ollama://10.0.0.5/a/b", undefined, false],
    ["ollama://registry.ollama.ai:8080/a/b", undefined, false],
    ["ollama://registry.ollama.ai.evil.example/a/b", undefined, false],
    ["ollama://hf.co/org/repo:Q4_K_M", undefined, false],
    ["hf://org/repo", undefined, false],
    ["/models/m.gguf", undefined, false],
  ])("%s with the registry %s: %s", (source, registry, isPulled) => {
    expect(pullerFor(registry).takes(source)).toBe(isPulled);
  });
});

test("no request is sent to a source on the host's loopback, and the message quotes no answer", async () => {
  let asked = 0;
  const service = createServer((_, response) => {
    asked += 1;
    response.writeHead(500).end('{"error":"password=s3cret"}');
  });
  await new Promise<void>((resolve) => service.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void service.close());
  const { port } = service.address() as AddressInfo;
  await using closed = await startStore({ allowLoopback: false });
  const model = {
    source: `ollama://127.0.0.1:${port}/a/b`,
    format: "ollama",
    files: [],
    refreshPolicy: "IfNotPresent",
  } as const;
  const request = requestFor({ ...model, files: [] }, "default");
  const refused = await closed.store.fetch(request, fetchOptions()).catch((error: unknown) => error);
  expect(refused).toMatchObject({ code: "SourceNotAllowed" });
  expect(asked).toBe(0);
  // Where the operator allows loopback, what the service says stays there.
  await using open = await startStore({ limits: { attempts: 1 } });
  const failed = await open.store.fetch(request, fetchOptions()).catch((error: unknown) => error);
  expect(failed).toMatchObject({ code: "SourceUnavailable" });
  expect(String(failed)).not.toContain("s3cret");
});
