/** `metalbridge key` and `metalbridge usage` against the real API server, with a gateway that watches the keys. */
import { expect, test, vi } from "vitest";
import { watchKeys } from "../gateway/cluster.ts";
import { createAuthenticator } from "../gateway/keys/authenticator.ts";
import { createKeyIndex } from "../gateway/keys/key-index.ts";
import { renderUsageRecord } from "../src/gateway/usage-record.ts";
import { connect } from "../src/kube/client/connect.ts";
import { CONFIG_MAPS, SECRETS } from "../src/kube/kinds.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { must } from "../test/bed/must.ts";
import { openDesk } from "../test/cli/objects.ts";
import { runVerb } from "../test/cli/program.ts";
import { quietLog } from "../test/cluster/quiet-log.ts";

const within = { timeout: 30_000, interval: 10 };

async function openGateway() {
  const stack = new AsyncDisposableStack();
  const desk = stack.use(await openDesk());
  const { namespace } = desk;
  const connection = await connect({ kubeconfigPath: desk.kubeconfig });
  stack.defer(() => connection.close());
  const ending = new AbortController();
  stack.defer(() => ending.abort());
  const ports = {
    connection,
    clock: systemClock,
    log: quietLog,
    signal: ending.signal,
    namespace,
    keys: createKeyIndex(),
    onChange: () => {},
  };
  const { keys } = ports;
  const reflector = watchKeys(ports);
  await reflector.whenSynced();
  const isSynced = () => reflector.isSynced();
  const { authenticate } = createAuthenticator({
    ...{ keys, isSynced, nowMs: systemClock.nowMs, isOpenWithoutKeys: () => false, corsOrigins: [] },
  });
  const run = (...args: string[]) => runVerb([...args, "-n", namespace], desk);
  const ask = async (key: string) => {
    const result = await authenticate({ authorization: `Bearer ${key}` });
    return result.at === "refused" ? result.reason : result.caller.id;
  };
  return { desk, keys, run, ask, authenticate, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test("a created key is accepted, a rotated one beside its successor, and a revoked one at once no more", async () => {
  await using gateway = await openGateway();
  const { desk, run, ask } = gateway;
  const created = await run(
    "key",
    "create",
    "ada",
    "--yes",
    "--namespaces",
    "team-a",
    "--tokens-per-day",
    "1000",
  );
  expect(created).toMatchObject({ code: 0, stdout: expect.stringMatching(/^mbk_[\w-]{43}\n$/) });
  const first = created.stdout.trim();
  await vi.waitFor(async () => expect(await ask(first)).toBe("ada"), within);
  const secret = must(await desk.client.get(SECRETS, { name: "ada", namespace: desk.namespace }));
  expect(JSON.stringify(secret)).not.toContain(first);
  expect(Buffer.from(secret.data?.["key.json"] ?? "", "base64").toString()).not.toContain(first);

  const rotated = await run("key", "rotate", "ada", "-o", "json");
  const second: string = JSON.parse(rotated.stdout).key;
  expect(rotated.stderr).toMatch(/the previous key is valid until 20/);
  await vi.waitFor(async () => expect(await ask(second)).toBe("ada"), within);
  expect(await ask(first)).toBe("ada");
  expect(await run("key", "rotate", "ada", "--overlap", "0")).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/the key before the previous one is no longer valid/),
  });
  await vi.waitFor(async () => expect(await ask(first)).toBe("unknown"), within);
  expect(await ask(second)).toBe("expired");

  expect(
    await run("key", "update", "ada", "--models", "qwen", "--tokens-per-day", "0", "--weight", "3"),
  ).toEqual({
    code: 0,
    stdout: "key ada is updated\n",
    stderr: "",
  });
  const [entry] = JSON.parse((await run("key", "list", "-o", "json")).stdout);
  expect(entry).toMatchObject({ name: "ada", scope: { models: ["qwen"] }, limits: {}, weight: 3 });

  expect(await run("key", "revoke", "ada")).toMatchObject({ code: 0, stdout: "key ada is revoked\n" });
  await vi.waitFor(async () => expect(await ask(second)).toBe("revoked"), within);
  expect(await run("key", "rotate", "ada")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^GatewayKeyInvalid: key ada is revoked/),
  });
  expect(await run("key", "enable", "ada")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^GatewayKeyInvalid: key ada was revoked at .*, which is final/),
  });
  expect(await run("key", "revoke", "ada", "--delete", "--yes")).toMatchObject({ code: 0 });
  await vi.waitFor(async () => expect(await ask(second)).toBe("unknown"), within);
});

test("the first key and the last one are confirmed, because they change who is answered; the others are not", async () => {
  await using gateway = await openGateway();
  const { run } = gateway;
  const unconfirmed = { code: 1, stdout: "", stderr: expect.stringMatching(/^NotConfirmed: [\s\S]*--yes/) };
  expect(await run("key", "create", "ada", "--all")).toEqual(unconfirmed);
  expect((await run("key", "list", "-o", "json")).stdout).toBe("[]\n");
  expect(await run("key", "create", "ada", "--all", "--yes")).toMatchObject({ code: 0 });
  expect(await run("key", "create", "bob", "--all")).toMatchObject({ code: 0 });
  expect(await run("key", "revoke", "bob", "--delete")).toMatchObject({ code: 0 });
  expect(await run("key", "revoke", "ada", "--delete")).toEqual(unconfirmed);
  expect(await run("key", "revoke", "ada")).toMatchObject({ code: 0 });
});

test("a key is disabled and enabled again, also if it is rotated meanwhile", async () => {
  await using gateway = await openGateway();
  const { run, ask } = gateway;
  const first = (await run("key", "create", "ada", "--all", "--yes")).stdout.trim();
  const said = async (...args: string[]) => (await run("key", ...args, "ada")).stdout;
  expect(await said("disable")).toBe("key ada is disabled\n");
  expect(await said("disable")).toBe("key ada is disabled already\n");
  await vi.waitFor(async () => expect(await ask(first)).toBe("disabled"), within);
  expect((await run("key", "list")).stdout).toMatch(/^ada +disabled /m);
  const rotated = await run("key", "rotate", "ada");
  expect(rotated.stderr).toContain("both are refused until: metalbridge key enable ada");
  const second = rotated.stdout.trim();
  await vi.waitFor(async () => expect(await ask(second)).toBe("disabled"), within);
  expect(await said("enable")).toBe("key ada is enabled\n");
  for (const key of [first, second]) await vi.waitFor(async () => expect(await ask(key)).toBe("ada"), within);
});

test("keys are listed without their hashes, invalid Secrets with their problem", async () => {
  await using gateway = await openGateway();
  const { desk, keys, run } = gateway;
  expect((await run("key", "list")).stdout).toBe("no keys; to create one: metalbridge key create\n");
  const limits = ["--requests-per-minute", "60", "--concurrent-requests", "4"];
  await run(
    "key",
    "create",
    "web",
    "--yes",
    "--all",
    "--owner",
    "Open WebUI",
    "--priority",
    "high",
    ...limits,
  );
  const labels = { "metalbridge.dev/gateway-key": "true" };
  const broken = { metadata: { name: "broken", namespace: desk.namespace, labels }, data: { key: "eA==" } };
  must(await desk.client.create(SECRETS, broken));
  must(await desk.client.create(SECRETS, { metadata: { name: "other", namespace: desk.namespace } }));
  const { stdout } = await run("key", "list");
  expect(stdout).toMatch(/^broken +invalid: the Secret has no key\.json/m);
  expect(stdout).toMatch(
    /^web +active +mbk_[\w-]{4}… +Open WebUI +all +4 concurrent, 60 requests\/min +high +1/m,
  );
  const json = (await run("key", "list", "-o", "json")).stdout;
  expect(JSON.parse(json)).toHaveLength(2);
  expect(json).not.toMatch(/[0-9a-f]{64}/);
  await vi.waitFor(() => expect(keys.problems().get("broken")).toBe("the Secret has no key.json"), within);
});

test("wrong options and names are reported, and nothing is changed", async () => {
  await using gateway = await openGateway();
  const { desk, run } = gateway;
  must(await desk.client.create(SECRETS, { metadata: { name: "other", namespace: desk.namespace } }));
  for (const [args, code, said] of [
    [["create", "a"], 2, /name what the key may use/],
    [["create", "a", "--all", "--models", "b"], 2, /--all excludes/],
    [["create", "a", "--services", "chat"], 2, /--services: must be namespace\/name/],
    [["create", "a", "--all", "--weight", "0"], 2, /from 1 to 1000/],
    [["create", "other", "--all", "--yes"], 1, /^GatewayKeyExists: /m],
    [["rotate", "absent"], 1, /^GatewayKeyNotFound: namespace \S+ has no key absent/],
    [["revoke", "other", "--delete"], 1, /^GatewayKeyNotFound: /],
  ] as const)
    expect({ args, ...(await run("key", ...args)) }).toEqual({
      args,
      code,
      stdout: "",
      stderr: expect.stringMatching(said),
    });
  expect((await run("key", "list", "-o", "json")).stdout).toBe("[]\n");
});

test("usage of all gateways is summed by any dimension, as a table, CSV or JSON", async () => {
  await using gateway = await openGateway();
  const { desk, run } = gateway;
  expect((await run("usage", "--since", "2026-11-01")).stdout).toMatch(/^no usage since 2026-11-01 in /);
  const counts = { requests: 1, estimatedRequests: 0, tokensIn: 100, tokensOut: 20, tokensCached: 50 };
  const row = { key: "ada", namespace: "team-a", model: "chat", host: "mac-1", ...counts };
  for (const [place, rows] of [
    [{ gateway: "g1", day: "2026-11-26" }, [row, { ...row, key: "bob", estimatedRequests: 1 }]],
    [{ gateway: "g2", day: "2026-11-26" }, [{ ...row, host: "mac-2" }]],
    [{ gateway: "g1", day: "2026-11-27" }, [row]],
    [{ gateway: "g1", day: "2026-10-31" }, [row]],
  ] as const)
    must(
      await desk.client.create(CONFIG_MAPS, renderUsageRecord({ namespace: desk.namespace, ...place }, rows)),
    );
  const usage = async (...args: string[]) => (await run("usage", "--since", "2026-11-01", ...args)).stdout;
  expect(await usage()).toMatch(
    /^KEY +REQUESTS +INPUT +CACHED +OUTPUT +ESTIMATED\nada +3 +300 +150 +60 +0\nbob +1 +100 +50 +20 +1\n$/,
  );
  expect(await usage("--by", "day,host", "-o", "csv")).toBe(
    [
      "day,host,requests,tokensIn,tokensCached,tokensOut,estimatedRequests",
      "2026-11-26,mac-1,2,200,100,40,1",
      "2026-11-26,mac-2,1,100,50,20,0",
      "2026-11-27,mac-1,1,100,50,20,0\n",
    ].join("\n"),
  );
  expect(JSON.parse(await usage("--by", "namespace", "-o", "json"))).toEqual([
    {
      namespace: "team-a",
      requests: 4,
      tokensIn: 400,
      tokensCached: 200,
      tokensOut: 80,
      estimatedRequests: 1,
    },
  ]);
  expect((await run("usage", "--since", "soon")).code).toBe(2);
  expect((await run("usage", "--by", "color")).code).toBe(2);
});
