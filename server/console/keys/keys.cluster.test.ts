/** Keys of the gateway through the console, on a real API server. */
import { expect, test } from "vitest";
import type { KeyList } from "../../../src/gateway/key.ts";
import { hashKey, readKeySecret } from "../../../src/gateway/key-secret.ts";
import { SECRETS } from "../../../src/kube/kinds.ts";
import { systemClock } from "../../../src/kube/system-clock.ts";
import { must } from "../../../test/bed/must.ts";
import { openConsoleRig, signIn } from "../testing/console-rig.ts";
import { mountKeys } from "./keys.ts";

const URL = "/console/gateway-keys";
const ALL = [
  { apiGroups: [""], resources: ["secrets"], verbs: ["get", "list", "create", "patch", "delete"] },
];

test("a key is created, shown once, changed, disabled, enabled, revoked and deleted, with the reader's own rights", async () => {
  await using rig = await openConsoleRig();
  const { namespace } = rig;
  const routes = [mountKeys({ namespace, isReadOnly: false, clock: systemClock })];
  const app = rig.start({ routes });
  const admin = await signIn(app, { token: await rig.tokenOf("admin", ALL) });
  const list = async (): Promise<KeyList> => (await admin.get(URL)).json();
  const fields = { scope: { namespaces: ["team-a"] }, limits: { requestsPerMinute: 60 } };

  const created = await admin.send("POST", URL, { name: "ada", owner: "Ada", ...fields });
  expect(created.statusCode).toBe(201);
  const { key } = created.json();
  expect(key).toMatch(/^mbk_/);
  expect((await admin.send("POST", URL, { name: "ada", ...fields })).json().code).toBe("GatewayKeyExists");
  const answer = await admin.get(URL);
  expect(answer.body).not.toContain(hashKey(key));
  expect(await list()).toMatchObject({
    namespace,
    keys: [{ name: "ada", owner: "Ada", state: "active", weight: 1, ...fields }],
  });

  await admin.send("PATCH", `${URL}/ada`, { limits: { tokensPerDay: 9 }, weight: 4, validForSeconds: 3600 });
  expect((await list()).keys[0]).toMatchObject({ weight: 4, limits: { tokensPerDay: 9 }, owner: "Ada" });
  for (const [isDisabled, state] of [
    [true, "disabled"],
    [true, "disabled"],
    [false, "active"],
  ] as const) {
    expect((await admin.send("PATCH", `${URL}/ada`, { isDisabled })).statusCode).toBe(204);
    expect((await list()).keys[0]).toMatchObject({ state, owner: "Ada" });
  }
  expect((await admin.send("PATCH", `${URL}/ada`, { isRevoked: true })).statusCode).toBe(204);
  expect((await admin.send("PATCH", `${URL}/ada`, { isDisabled: false })).json()).toMatchObject({
    code: "GatewayKeyInvalid",
    message: expect.stringMatching(/^key ada was revoked at .*, which is final$/),
  });
  expect((await list()).keys[0]).toMatchObject({ state: "revoked" });
  const read = readKeySecret(must(await rig.client.get(SECRETS, { namespace, name: "ada" })));
  expect(read.at === "valid" && read.key.hashes[0]?.sha256).toBe(hashKey(key));
  expect((await admin.send("DELETE", `${URL}/ada`)).statusCode).toBe(204);
  expect((await list()).keys).toEqual([]);
  expect((await admin.send("DELETE", `${URL}/ada`)).json().code).toBe("GatewayKeyNotFound");
});

test("what is not a key, not valid or not allowed is refused", async () => {
  await using rig = await openConsoleRig();
  const { namespace } = rig;
  const routes = [mountKeys({ namespace, isReadOnly: false, clock: systemClock })];
  const app = rig.start({ routes });
  const admin = await signIn(app, { token: await rig.tokenOf("admin", ALL) });
  const stranger = await signIn(app, { token: await rig.tokenOf("stranger") });
  const codeOf = async (answer: ReturnType<typeof admin.send>) => (await answer).json().code;
  expect(await codeOf(admin.send("PATCH", `${URL}/admin`, { isRevoked: true }))).toBe("GatewayKeyNotFound");
  expect(await codeOf(admin.send("PATCH", `${URL}/none`, { weight: 2 }))).toBe("GatewayKeyNotFound");
  expect(await codeOf(admin.send("POST", URL, { name: "a" }))).toBe("ConsoleRequestInvalid");
  expect(await codeOf(admin.send("POST", URL, { name: "a", scope: {} }))).toBe("ConsoleRequestInvalid");
  expect(await codeOf(admin.send("POST", URL, { name: "A/b", scope: "all" }))).toBe("ConsoleRequestInvalid");
  expect((await stranger.get(URL)).json().code).toBe("ApiForbidden");
  expect(await codeOf(stranger.send("POST", URL, { name: "a", scope: "all" }))).toBe("ApiForbidden");
  const readOnly = rig.start({ routes: [mountKeys({ namespace, isReadOnly: true, clock: systemClock })] });
  const reader = await signIn(readOnly, { token: await rig.tokenOf("reader", ALL) });
  expect(await codeOf(reader.send("POST", URL, { name: "a", scope: "all" }))).toBe("ConsoleReadOnly");
});
