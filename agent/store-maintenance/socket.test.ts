import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import path from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ggufBytes, sha256, startOrigin } from "../../test/fixtures/origin.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { silentLog, startStore } from "../store/fixtures/store.ts";
import { MAX_COMMAND_BYTES, MAX_REPLY_BYTES, type ModelCommand, modelCommandSchema } from "./protocol.ts";
import { type ModelSocketOptions, sendModelCommand, serveModelCommands } from "./socket.ts";

const content = ggufBytes(300_000);

async function startHost(more: Partial<ModelSocketOptions> = {}) {
  const folder = await temporaryFolder();
  const at = await startStore();
  const end = new AbortController();
  const place = { stateDir: folder.path, tempDir: folder.path };
  mkdirSync(path.join(folder.path, "models"));
  await serveModelCommands({
    ...place,
    log: silentLog,
    signal: end.signal,
    store: at.store,
    replicas: () => [{ uid: "u1", namespace: "team", name: "chat-0" }],
    hostName: "mac-1",
    mayRemove: () => true,
    onDamaged: () => undefined,
    ...more,
  });
  return {
    store: at.store,
    place,
    ask: (command: ModelCommand, signal = new AbortController().signal) =>
      sendModelCommand(place, command, { signal }),
    [Symbol.asyncDispose]: async () => {
      end.abort();
      await at[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    },
  };
}

test("a model that is pinned or in use is refused with the reason, and is removed once it is neither", async () => {
  await using origin = await startOrigin();
  await using host = await startHost();
  origin.serve("/tiny.gguf", content);
  const source = `${origin.url}/tiny.gguf`;
  expect(await host.ask({ do: "pull", source: `${source}?signature=secret` })).toEqual({
    at: "changed",
    isChanged: true,
    sizeBytes: content.length,
  });
  expect(await host.ask({ do: "pin", source })).toEqual({ at: "changed", isChanged: true });
  expect(await host.ask({ do: "pin", source })).toEqual({ at: "changed", isChanged: false });
  await expect(host.ask({ do: "rm", source })).rejects.toMatchObject({ code: "ModelPinned" });
  expect(await host.ask({ do: "gc" })).toEqual({ at: "models", models: [] });
  expect(await host.ask({ do: "unpin", source })).toEqual({ at: "changed", isChanged: true });
  host.store.declare({ pinned: [source], prefetched: [] });
  await expect(host.ask({ do: "unpin", source })).rejects.toMatchObject({ code: "ModelPinned" });
  host.store.declare({ pinned: [], prefetched: [] });
  host.store.hold("u1", [sha256(content)]);
  await expect(host.ask({ do: "rm", source })).rejects.toMatchObject({
    code: "ModelInUse",
    message: `${source} is used by team/chat-0`,
  });
  expect(await host.ask({ do: "gc" })).toEqual({ at: "models", models: [] });
  host.store.release("u1");
  expect(await host.ask({ do: "rm", source })).toMatchObject({ sizeBytes: content.length });
  for (const command of ["rm", "pin", "unpin"] as const)
    await expect(host.ask({ do: command, source })).rejects.toMatchObject({ code: "ModelNotStored" });
  await expect(host.ask({ do: "verify", sources: [source] })).rejects.toMatchObject({
    code: "ModelNotStored",
  });
});

test("a client that disconnects stops its download", async () => {
  await using origin = await startOrigin();
  await using host = await startHost();
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  const { promise: begun, resolve: begin } = Promise.withResolvers<void>();
  origin.on("/slow.gguf", (_, response) => {
    response.on("close", leave);
    response.writeHead(200, { "content-length": 10_000_000 });
    response.write(content, () => begin());
  });
  const client = new AbortController();
  const pull = host.ask({ do: "pull", source: `${origin.url}/slow.gguf` }, client.signal);
  const refused = expect(pull).rejects.toThrow("enough");
  await begun;
  client.abort(new Error("enough"));
  await refused;
  await left;
});

test("an agent that has not read its replicas yet removes no model, and refuses an unknown command", async () => {
  await using host = await startHost({ mayRemove: () => false });
  await expect(host.ask({ do: "gc" })).rejects.toMatchObject({
    code: "ModelInUse",
    message: expect.stringContaining("has not read its replicas"),
  });
  await expect(host.ask({ do: "frobnicate" } as unknown as ModelCommand)).rejects.toMatchObject({
    code: "ModelCommandFailed",
  });
});

test("sendModelCommand resolves to undefined if no agent listens", async () => {
  await using folder = await temporaryFolder();
  const place = { stateDir: folder.path, tempDir: folder.path };
  const { signal } = new AbortController();
  expect(await sendModelCommand(place, { do: "list" }, { signal })).toBeUndefined();
});

test("every list and text of a command is limited, and the longest command fits on a line", () => {
  const sources = fc.array(fc.string({ minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 4 });
  const counts = fc.nat(2_000);
  fc.assert(
    fc.property(counts, counts, fc.nat(4_000), sources, (files, named, length, texts) => {
      const text = (texts.join("") + "s".repeat(length)).slice(0, Math.max(1, length));
      const pull = { do: "pull", source: text, files: Array.from({ length: files }, () => "f") };
      const verify = { do: "verify", sources: Array.from({ length: named }, () => "s") };
      expect(modelCommandSchema.safeParse(pull).success).toBe(text.length <= 2_048 && files <= 512);
      expect(modelCommandSchema.safeParse(verify).success).toBe(named <= 1_000);
    }),
  );
  const longest = { do: "verify", sources: Array.from({ length: 1_000 }, () => "s".repeat(2_048)) };
  expect(modelCommandSchema.safeParse(longest).success).toBe(true);
  expect(JSON.stringify(longest).length).toBeLessThan(MAX_COMMAND_BYTES);
});

/** To the agent's socket, without asking anything. */
async function connectTo({ place }: Awaited<ReturnType<typeof startHost>>): Promise<Socket> {
  const socket = connect(path.join(place.stateDir, "models.sock"));
  await once(socket, "connect");
  return socket;
}

test("an endless command is refused after 4 MiB", async () => {
  await using host = await startHost();
  const socket = await connectTo(host);
  socket.on("error", () => undefined);
  socket.write("x".repeat(MAX_COMMAND_BYTES + 65_536));
  const [reply] = (await once(socket, "data")) as [Buffer];
  expect(JSON.parse(reply.toString())).toMatchObject({ at: "failed", code: "ModelCommandFailed" });
  socket.destroy();
});

test("idle clients are disconnected, and connections beyond 32 are closed", async () => {
  await using host = await startHost({ commandMs: 500 });
  const clients = await Promise.all(Array.from({ length: 40 }, () => connectTo(host)));
  await Promise.all(
    clients.map((socket) => {
      socket.resume();
      return once(socket, "close");
    }),
  );
  expect(await host.ask({ do: "list" })).toEqual({ at: "models", models: [] });
});

test("an endless reply is refused after 16 MiB", async () => {
  await using folder = await temporaryFolder();
  const place = { stateDir: folder.path, tempDir: folder.path };
  const server = createServer((socket) => {
    const more = () => {
      while (!socket.destroyed && socket.write("x".repeat(1_048_576)));
    };
    socket.on("drain", more).on("error", () => undefined);
    more();
  });
  await once(server.listen(path.join(folder.path, "models.sock")), "listening");
  const { signal } = new AbortController();
  await expect(sendModelCommand(place, { do: "list" }, { signal })).rejects.toMatchObject({
    code: "ModelCommandFailed",
    message: `a line is longer than ${MAX_REPLY_BYTES} bytes`,
  });
  server.close();
});
