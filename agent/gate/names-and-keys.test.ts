/** Whose model a client gets, and with which key. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { CHAT_PATH as CHAT, post, startPair } from "./fixtures/route.ts";

test("the list of models is narrowed to the service's one", async () => {
  const models = { object: "list", data: [{ id: "hf.co/org/model:Q4" }, { id: "private" }] };
  await using pair = await startPair({}, (_, response) => void response.end(JSON.stringify(models)));
  const answer = await fetch(`${pair.url}/v1/models`);
  expect(await answer.json()).toEqual({ object: "list", data: [{ id: "chat" }] });
  expect((await fetch(`${pair.url}/v1/models`, { method: "HEAD" })).status).toBe(200);
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

test("a key is asked for, old and new ones are accepted, and the daemon gets its own", async () => {
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

test("keys that cannot be read from the start close the route", async () => {
  await using pair = await startPair({ keyFiles: ["/nowhere/keys"] });
  expect((await post(pair.url + CHAT, {})).status).toBe(503);
  expect(pair.daemon.received).toEqual([]);
});
