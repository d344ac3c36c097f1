import { chmod, mkdir, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { MetalbridgeError } from "../../api/errors.ts";
import { explainFailure } from "../errors.ts";
import { CONFIG_MAPS } from "../kinds.ts";
import { connect } from "./connect.ts";
import { createClient } from "./create-client.ts";
import { openCredentials } from "./credentials.ts";

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(path.join(tmpdir(), "kubeconfig-"));
});
afterEach(() => rm(dir, { recursive: true, force: true }));

interface Parts {
  server?: string;
  user?: object;
  current?: string;
  cluster?: string;
  userName?: string;
}

async function kubeconfig({
  server = "https://127.0.0.1:1",
  user = {},
  current = "c",
  cluster = "k",
  userName = "u",
}: Parts) {
  const file = path.join(dir, "config");
  const content = {
    "current-context": current,
    contexts: [{ name: "c", context: { cluster, user: userName } }],
    clusters: [{ name: "k", cluster: { server } }],
    users: [{ name: "u", user }],
  };
  await writeFile(file, JSON.stringify(content));
  return file;
}

async function codeOf(kubeconfigPath: string, context?: string): Promise<string> {
  try {
    const connection = await connect({ kubeconfigPath, context });
    connection.close();
    return "none";
  } catch (error) {
    return error instanceof MetalbridgeError ? `${error.code} ${error.message}` : `not ours: ${error}`;
  }
}

describe("a kubeconfig that cannot work", () => {
  it("is refused with a code and a sentence", async () => {
    expect(await codeOf(path.join(dir, "missing"))).toMatch(/^KubeconfigUnreadable .*missing.*ENOENT/);
    expect(await codeOf(dir)).toMatch(/^KubeconfigUnreadable .*EISDIR/);
    for (const text of ["", "just words", "a: [", "[]", "\0\0", "clusters: 5\nusers: x\ncontexts: {}"]) {
      const file = path.join(dir, "bad");
      await writeFile(file, text);
      expect(await codeOf(file), JSON.stringify(text)).toMatch(/^KubeconfigInvalid /);
    }
    expect(await codeOf(await kubeconfig({ current: "" }))).toContain("no current-context");
    expect(await codeOf(await kubeconfig({}), "other")).toContain('no context named "other"');
    expect(await codeOf(await kubeconfig({ cluster: "nope" }))).toContain('the cluster "nope"');
    expect(await codeOf(await kubeconfig({ userName: "nope" }))).toContain('the user "nope"');
    expect(await codeOf(await kubeconfig({ server: "not an address" }))).toMatch(
      /^KubeconfigInvalid .*server address/,
    );
    expect(await codeOf(await kubeconfig({ server: "http://127.0.0.1:1" }))).toContain("https://");
    expect(await codeOf(await kubeconfig({}))).toBe("none");
  });

  it("that points nowhere gives results, not exceptions", async () => {
    const connection = await connect({ kubeconfigPath: await kubeconfig({ user: { token: "t" } }) });
    const result = await createClient(connection).get(CONFIG_MAPS, { name: "a" });
    expect(result).toMatchObject({ ok: false, error: { kind: "unreachable", reason: "ECONNREFUSED" } });
    connection.close();
  });
});

describe("the kubeconfig of the environment", () => {
  afterEach(() => vi.unstubAllEnvs());

  const authorization = async () => (await openCredentials({}).current()).headers.Authorization;

  it.each([
    ["a token file", { tokenFile: "token" }],
    ["a plugin", { exec: { command: "./plugin" } }],
  ])("has %s in its own folder, in KUBECONFIG and in ~/.kube/config", async (_what, user) => {
    await mkdir(path.join(dir, ".kube"));
    await writeFile(path.join(dir, ".kube", "token"), "t");
    await writePlugin(".kube/plugin", `echo '{"status":{"token":"t"}}'`);
    const file = path.join(dir, ".kube", "config");
    await rename(await kubeconfig({ user }), file);
    vi.stubEnv("HOME", "/nonexistent");
    for (const list of [file, `/nonexistent/a:${file}`, `:${file}:/nonexistent/b`]) {
      vi.stubEnv("KUBECONFIG", list);
      expect(await authorization(), list).toBe("Bearer t");
    }
    vi.stubEnv("KUBECONFIG", "");
    vi.stubEnv("HOME", dir);
    expect(await authorization()).toBe("Bearer t");
  });

  it("is merged from several files: the first that names something wins", async () => {
    const other = path.join(dir, "other");
    await rename(await kubeconfig({ user: { token: "other" }, server: "https://127.0.0.1:2" }), other);
    const first = await kubeconfig({ user: { token: "first" }, current: "" });
    vi.stubEnv("KUBECONFIG", `${first}:${other}`);
    const credentials = openCredentials({});
    expect((await credentials.current()).headers.Authorization).toBe("Bearer first");
    expect(credentials.server()).toBe("https://127.0.0.1:1");
  });

  it("names the files of KUBECONFIG if none exists", () => {
    vi.stubEnv("KUBECONFIG", "/nonexistent/a:/nonexistent/b");
    expect(() => openCredentials({})).toThrow("no file of KUBECONFIG exists: /nonexistent/a, /nonexistent/b");
  });
});

describe("credentials", () => {
  it("of a token file are read relative to the kubeconfig, trimmed, and read again on reload", async () => {
    await writeFile(path.join(dir, "token"), "first\n");
    const credentials = openCredentials({
      kubeconfigPath: await kubeconfig({ user: { tokenFile: "token", token: "old" } }),
    });
    expect((await credentials.current()).headers).toMatchObject({ Authorization: "Bearer first" });
  });

  it("of an exec plugin are its token; one that fails is a result with the plugin's words", async () => {
    const plugin = path.join(dir, "plugin");
    const credential = {
      apiVersion: "client.authentication.k8s.io/v1",
      kind: "ExecCredential",
      status: { token: "t" },
    };
    await writeFile(plugin, `#!/bin/sh\necho '${JSON.stringify(credential)}'\n`);
    await chmod(plugin, 0o755);
    const exec = { apiVersion: "client.authentication.k8s.io/v1", command: plugin };
    const good = openCredentials({ kubeconfigPath: await kubeconfig({ user: { exec } }) });
    expect((await good.current()).headers).toMatchObject({ Authorization: "Bearer t" });
    for (const [body, words] of [
      ["echo 'please log in' >&2; exit 3", "please log in"],
      ["echo 'no json'", "JSON"],
      ["echo '{}'", ""],
    ]) {
      await writeFile(plugin, `#!/bin/sh\n${body}\n`);
      const connection = await connect({ kubeconfigPath: await kubeconfig({ user: { exec } }) });
      const result = await createClient(connection).get(CONFIG_MAPS, { name: "a" });
      connection.close();
      expect(result).toMatchObject({ error: { kind: "unauthorized", reason: "CredentialUnavailable" } });
      if (result.ok) continue;
      expect(result.error.message).toContain(words);
      expect(explainFailure(result.error).code).toBe("ApiCredentialUnavailable");
    }
    await rm(plugin);
    const connection = await connect({ kubeconfigPath: await kubeconfig({ user: { exec } }) });
    expect(await createClient(connection).get(CONFIG_MAPS, { name: "a" })).toMatchObject({
      error: { kind: "unauthorized" },
    });
    connection.close();
  });

  it("whose certificate file is missing are a result", async () => {
    const user = { "client-certificate": "nope.crt", "client-key": "nope.key" };
    const connection = await connect({ kubeconfigPath: await kubeconfig({ user }) });
    const result = await createClient(connection).get(CONFIG_MAPS, { name: "a" });
    expect(result).toMatchObject({
      error: { kind: "unauthorized", message: expect.stringContaining("nope.crt") },
    });
    connection.close();
  });

  it("with garbage as certificate are a result", async () => {
    const user = { "client-certificate-data": "Z2FyYmFnZQ==", "client-key-data": "Z2FyYmFnZQ==" };
    const connection = await connect({ kubeconfigPath: await kubeconfig({ user }) });
    expect(await createClient(connection).get(CONFIG_MAPS, { name: "a" })).toMatchObject({ ok: false });
    const { signal } = new AbortController();
    const watch = { method: "GET", path: "/api", timeoutMs: 1_000, signal } as const;
    expect(await connection.stream(watch)).toMatchObject({
      ok: false,
      error: { kind: "unauthorized", reason: "CredentialUnavailable" },
    });
    connection.close();
  });

  it("of a plugin named relative to the kubeconfig are found there", async () => {
    await writePlugin("plugin", `echo '{"status":{"token":"t"}}'`);
    const credentials = openCredentials({
      kubeconfigPath: await kubeconfig({ user: { exec: { command: "./plugin" } } }),
    });
    expect((await credentials.current()).headers).toMatchObject({ Authorization: "Bearer t" });
  });

  it.each([
    [
      "a client certificate",
      { "client-certificate-data": "Z2FyYmFnZQ==", "client-key-data": "Z2FyYmFnZQ==" },
    ],
    ["a token file", { tokenFile: "/absent/token" }],
    ["a plugin", { exec: { command: "./absent" } }],
    ["a password", { username: "admin", password: "secret" }],
  ])("of another person replace %s of the kubeconfig entirely", async (_, user) => {
    const credentials = openCredentials({ kubeconfigPath: await kubeconfig({ user }), token: "of-another" });
    const { headers, tls } = await credentials.current();
    expect(headers).toEqual({ Authorization: "Bearer of-another" });
    expect([tls.cert, tls.key]).toEqual([undefined, undefined]);
  });

  it("are asked for once by all who wait, and a plugin that hangs is ended", async () => {
    const runs = path.join(dir, "runs");
    await writePlugin("hangs", `echo $$ >>'${runs}'; exec sleep 600`);
    const user = { exec: { command: path.join(dir, "hangs") } };
    const credentials = openCredentials({
      kubeconfigPath: await kubeconfig({ user }),
      pluginTimeoutMs: 5_000,
    });
    const both = await Promise.allSettled([credentials.current(), credentials.current()]);
    expect(both.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    const [pid, ...more] = (await readFile(runs, "utf8")).trim().split("\n").map(Number);
    expect(more).toEqual([]);
    await vi.waitFor(() => expect(() => process.kill(pid ?? 0, 0)).toThrow(/ESRCH/), { timeout: 60_000 });
  });
});

async function writePlugin(name: string, body: string): Promise<void> {
  await writeFile(path.join(dir, name), `#!/bin/sh\n${body}\n`);
  await chmod(path.join(dir, name), 0o755);
}
