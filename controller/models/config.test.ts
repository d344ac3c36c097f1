import { expect, test } from "vitest";
import { failureOf, inspectNow } from "../../src/hub/fixtures/inspect.ts";
import { createInspectSource } from "../../src/hub/inspect/inspect.ts";
import { parseSource } from "../../src/models/source/parse.ts";
import { headerBytes, ranged, serveModel } from "../../test/fixtures/model-server.ts";
import { inspectSettings, modelConfigSchema } from "./config.ts";

function inspect(text: string, config: object = {}) {
  const source = parseSource(text);
  if (source.kind !== "http") throw new Error("not an address");
  const { signal } = new AbortController();
  const settings = inspectSettings(modelConfigSchema.parse({ stallMs: 300, ...config }));
  return createInspectSource(settings)({ source, selector: {}, signal });
}

test("the controller refuses every address inside the network by default, with one message", async () => {
  const server = await serveModel(ranged(headerBytes(10)));
  const { port } = new URL(server.url);
  const hosts = ["127.0.0.1", "localhost", "10.0.0.1", "192.168.1.1", "[fd00::1]", "169.254.169.254"];
  const messages = new Set<string>();
  for (const host of hosts) {
    const failure = await failureOf(inspect(`http://${host}:${port}/m.gguf`));
    expect(failure).toMatchObject({ code: "SourceNotAllowed", isTransient: false });
    messages.add(failure.message.replace(host, "HOST"));
  }
  expect([...messages]).toEqual(["HOST is a loopback, private or reserved address that sources may not use"]);
  expect(server.requests).toEqual([]);
});

test("a private network is opened by its CIDR, and a bad one is refused at the start", async () => {
  const failure = await failureOf(
    inspect("http://10.255.255.1/m.gguf", { allowNetworks: "10.0.0.0/8,fd00::/8" }),
  );
  expect(failure.code).not.toBe("SourceNotAllowed");
  expect(() => modelConfigSchema.parse({ allowNetworks: "10.0.0.0" })).toThrow(/CIDR/);
});

test("the response of a refused address is not quoted", async () => {
  const server = await serveModel(ranged(new TextEncoder().encode("secret of an inner service")));
  const { message } = await failureOf(inspectNow(`${server.url}/m.gguf`));
  expect(message).not.toMatch(/secr/);
});
