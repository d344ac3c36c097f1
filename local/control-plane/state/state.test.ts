import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import path from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { freePort } from "../../../test/bed/ports.ts";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { dropOldCertificate } from "./certificate.ts";
import { ensureCredentials } from "./credentials.ts";
import { renderKubeconfig } from "./kubeconfig.ts";
import { controlPlaneLayoutOf } from "./layout.ts";
import { chooseApiPort } from "./port.ts";
import { readSettings, writeSettings } from "./settings.ts";

test("credentials are made once, kept, and readable by this user only", async () => {
  await using folder = await temporaryFolder();
  const layout = controlPlaneLayoutOf(folder.path);
  await mkdir(layout.secrets);
  const first = ensureCredentials(layout);
  expect(first.adminToken).toMatch(/^[0-9a-f]{64}$/);
  expect(ensureCredentials(layout)).toEqual(first);
  expect(await readFile(layout.tokens, "utf8")).toContain(
    `${first.adminToken},metalbridge-admin,1,"system:masters"`,
  );
  for (const file of [layout.tokens, layout.serviceAccountKey])
    expect((await stat(file)).mode & 0o077).toBe(0);
});

test("a key pair with one half missing is generated again", async () => {
  await using folder = await temporaryFolder();
  const layout = controlPlaneLayoutOf(folder.path);
  await mkdir(layout.secrets);
  const { publicKey } = generateKeyPairSync("ed25519", {
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs8", format: "pem" },
  });
  await writeFile(layout.serviceAccountPublicKey, publicKey);
  ensureCredentials(layout);
  expect(await readFile(layout.serviceAccountPublicKey, "utf8")).not.toBe(publicKey);
});

test("the kubeconfig holds everything a client needs", () => {
  const text = renderKubeconfig({
    url: "https://127.0.0.1:1",
    certificateAuthority: "PEM",
    token: "t",
    user: "u",
  });
  expect(parse(text)).toEqual({
    apiVersion: "v1",
    kind: "Config",
    clusters: [
      {
        name: "metalbridge",
        cluster: { server: "https://127.0.0.1:1", "certificate-authority-data": "UEVN" },
      },
    ],
    users: [{ name: "u", user: { token: "t" } }],
    contexts: [{ name: "metalbridge", context: { cluster: "metalbridge", user: "u", namespace: "default" } }],
    "current-context": "metalbridge",
  });
});

test("settings survive, and a damaged file is named", async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "settings.json");
  expect(readSettings(file)).toBeUndefined();
  writeSettings(file, { version: 1, port: 6443 });
  expect(readSettings(file)).toEqual({ version: 1, port: 6443 });
  for (const bad of ["", "{", '{"version":1,"port":0}', '{"version":1,"port":1,"more":2}']) {
    await writeFile(file, bad);
    expect(() => readSettings(file)).toThrow(expect.objectContaining({ code: "StateFileInvalid" }));
  }
});

test("the previous port is kept when it is free; a port asked for must be", async () => {
  const address = "127.0.0.1";
  expect(await chooseApiPort({ address })).toBeGreaterThan(0);
  // Not one that the kernel gives away.
  const free = await freePort(address);
  expect(await chooseApiPort({ address, previous: free })).toBe(free);
  expect(await chooseApiPort({ address, requested: free })).toBe(free);
  const holder = createServer().listen(free, address);
  await once(holder, "listening");
  try {
    await expect(chooseApiPort({ address, requested: free })).rejects.toMatchObject({
      code: "PortTaken",
      remedy: { command: `lsof -i :${free}` },
    });
    await expect(chooseApiPort({ address, previous: free, previousWaitMs: 150 })).resolves.not.toBe(free);
  } finally {
    holder.close();
  }
});

test("a certificate that cannot be read is removed together with its key", async () => {
  await using folder = await temporaryFolder();
  expect(dropOldCertificate(folder.path, Date.now())).toBe(false);
  await writeFile(path.join(folder.path, "apiserver.crt"), "not a certificate");
  await writeFile(path.join(folder.path, "apiserver.key"), "key");
  expect(dropOldCertificate(folder.path, Date.now())).toBe(true);
  await expect(stat(path.join(folder.path, "apiserver.key"))).rejects.toThrow(/ENOENT/);
});
