/** Whose model a client gets, and with which key. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync, gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { until } from "../../test/bed/until.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { CHAT_PATH as CHAT, post, startPair } from "./fixtures/route.ts";

test("the list of models is narrowed to the service's one", async () => {
  const models = { object: "list", data: [{ id: "hf.co/org/model:Q4" }, { id: "private" }] };
  await using pair = await startPair({}, (_, response) => void response.end(JSON.stringify(models)));
  const answer = await fetch(`${pair.url}/v1/models`);
  expect(await answer.json()).toEqual({ object: "list", data: [{ id: "chat" }] });
  expect((await fetch(`${pair.url}/v1/models`, { method: "HEAD" })).status).toBe(200);
});

test("a list is narrowed from a daemon that compresses where it may, and refused from one that always does", async () => {
  const text = gzipSync(
    JSON.stringify({ object: "list", data: [{ id: "hf.co/org/model:Q4" }, { id: "private" }] }),
  );
  let isAlways = false;
  await using pair = await startPair({}, ({ headers }, response) => {
    const isZipped = isAlways || /gzip/.test(String(headers["accept-encoding"]));
    if (isZipped) response.setHeader("content-encoding", "gzip");
    response.end(isZipped ? text : gunzipSync(text));
  });
  const asked = { headers: { "accept-encoding": "gzip, br" } };
  const answer = await fetch(`${pair.url}/v1/models`, asked);
  expect(await answer.json()).toEqual({ object: "list", data: [{ id: "chat" }] });
  isAlways = true;
  expect((await fetch(`${pair.url}/v1/models`, asked)).status).toBe(502);
});

test("a gateway that has chosen the service may send any model name, and others only those of the service", async () => {
  await using pair = await startPair();
  const statusOf = async (model: string, headers = {}) =>
    (await post(pair.url + CHAT, { model }, headers)).status;
  const chosen = { "x-metalbridge-cluster": "apps/chat" };
  expect([await statusOf("chat"), await statusOf("apps/chat")]).toEqual([200, 200]);
  expect([await statusOf("gpt-4o"), await statusOf("other/chat")]).toEqual([404, 404]);
  expect([await statusOf("gpt-4o", chosen), await statusOf("chat", chosen)]).toEqual([200, 200]);
  expect(pair.daemon.received.map(({ body }) => JSON.parse(body).model)).toEqual(
    Array.from({ length: 4 }, () => "hf.co/org/model:Q4"),
  );
});

test("a request that a gateway sends to the former address of another service gets 503 to be retried elsewhere", async () => {
  for (const protocol of ["openai", "any"] as const) {
    await using pair = await startPair({ protocol });
    const answer = await post(pair.url + CHAT, {}, { "x-metalbridge-cluster": "other/chat" });
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "2"]);
    expect(pair.daemon.received).toEqual([]);
  }
});

test("Ollama's own routes name the model too, and a client's keep_alive cannot unload it", async () => {
  await using pair = await startPair({ protocol: "ollama" });
  await post(`${pair.url}/api/generate`, { model: "chat:latest", keep_alive: 0 });
  await post(`${pair.url}/api/show`, { name: "chat" });
  expect((await post(`${pair.url}/api/show`, { model: "chat", name: "other" })).status).toBe(404);
  expect(pair.daemon.received.map(({ body }) => JSON.parse(body))).toEqual([
    { model: "hf.co/org/model:Q4", keep_alive: -1 },
    { model: "hf.co/org/model:Q4", name: "hf.co/org/model:Q4" },
  ]);
});

test("a key is required, the old and the new one are accepted, and the daemon gets its own key", async () => {
  await using folder = await temporaryFolder();
  const [keys, key] = [join(folder.path, "keys"), join(folder.path, "key")];
  writeFileSync(keys, "old\n");
  writeFileSync(key, "of-the-daemon\n");
  await using pair = await startPair({ keyFiles: [keys] });
  const target = { ...pair.route.target, keyFile: key };
  const statusWith = async (headers: Record<string, string>) =>
    (await post(pair.url + CHAT, {}, headers)).status;
  pair.server.update({ ...pair.route, target });
  expect(await statusWith({})).toBe(401);
  expect(await statusWith({ authorization: "Bearer new" })).toBe(401);
  expect(await statusWith({ authorization: "Bearer old" })).toBe(200);
  expect((await fetch(`${pair.url}/health`)).status).toBe(200);
  expect((await fetch(`${pair.url}/api/delete`)).status).toBe(401);
  writeFileSync(keys, "old\nnew\n");
  pair.server.update({ ...pair.route, target });
  expect(await statusWith({ authorization: "Bearer old" })).toBe(200);
  expect(await statusWith({ "x-api-key": "new" })).toBe(200);
  writeFileSync(keys, "new\n");
  pair.server.update({ ...pair.route, target });
  expect(await statusWith({ authorization: "Bearer old" })).toBe(401);
  // An empty file must not open the door, nor close it for those who have a key.
  writeFileSync(keys, "\n");
  pair.server.update({ ...pair.route, target });
  expect(pair.server.status().problems).toEqual([expect.stringContaining("holds no key")]);
  expect(await statusWith({ authorization: "Bearer new" })).toBe(200);
  expect(pair.daemon.received.map(({ headers }) => headers.authorization)).toEqual(
    Array.from({ length: 4 }, () => "Bearer of-the-daemon"),
  );
});

test("a route whose keys cannot be read rejects requests with that reason, until the keys can be read", async () => {
  await using folder = await temporaryFolder();
  const keys = join(folder.path, "keys");
  await using pair = await startPair({ keyFiles: [keys] });
  expect((await post(pair.url + CHAT, {})).status).toBe(503);
  expect(pair.daemon.received).toEqual([]);
  expect(pair.server.status()).toMatchObject({
    isServing: false,
    problems: [expect.stringMatching(/^keys: ENOENT/)],
  });
  writeFileSync(keys, "key\n");
  await until(() => expect(pair.server.status()).toMatchObject({ isServing: true, problems: [] }));
  expect((await post(pair.url + CHAT, {}, { authorization: "Bearer key" })).status).toBe(200);
});

test("a daemon's new key is read once the daemon rejects the old one", async () => {
  await using folder = await temporaryFolder();
  const keyFile = join(folder.path, "key");
  writeFileSync(keyFile, "old\n");
  let accepted = "old";
  await using pair = await startPair({}, ({ headers }, response) => {
    response.statusCode = headers.authorization === `Bearer ${accepted}` ? 200 : 401;
    response.end("{}");
  });
  pair.server.update({ ...pair.route, target: { ...pair.route.target, keyFile } });
  const status = async () => (await post(pair.url + CHAT, {})).status;
  expect(await status()).toBe(200);
  accepted = "new";
  expect(await status()).toBe(502);
  writeFileSync(keyFile, "new\n");
  expect([await status(), await status()]).toEqual([502, 200]);
});
