/** Layouts in a real registry: what arrives is what was packed; Helm pulls the chart. */
import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import type { RequestListener } from "node:http";
import path from "node:path";
import { promisify } from "node:util";
import { describe, expect, test } from "vitest";
import { serveHttp } from "../../test/bed/http-server.ts";
import { PASSWORD, registryProgram, startOciRegistry, USERNAME } from "../../test/bed/oci-registry.ts";
import { CHART, helmIn, helmProgram } from "../../test/chart/helm.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { readProject } from "../project/project.ts";
import { textEntry } from "./entries.ts";
import { cachedLayer } from "./layer.ts";
import { INDEX_TYPE, packImage, writeFolder } from "./layout.ts";
import { pushLayout } from "./push.ts";
import { credentialsFor, parseReference, repositoryClient } from "./registry.ts";
import { writeChart } from "./release.ts";

const run = promisify(execFile);
const basic = (name: string, password: string) => Buffer.from(`${name}:${password}`).toString("base64");
const KNOWN = basic(USERNAME, PASSWORD);
const root = path.dirname(path.dirname(CHART));
const { version } = readProject(root);

async function writeTiny(folder: string): Promise<string> {
  const platforms = [];
  for (const architecture of ["amd64", "arm64"] as const) {
    const options = { compression: "gzip", folder: path.join(folder, architecture) } as const;
    const layers = [await cachedLayer(options, () => [textEntry("etc/architecture", architecture)])];
    const config = { User: "65532:65532", Env: [], Entrypoint: ["/x"], WorkingDir: "/" };
    platforms.push({ architecture, layers, config });
  }
  const layout = packImage({ references: ["any:1"], created: "2026-01-02T03:04:05Z", platforms });
  await writeFolder(layout, path.join(folder, "layout"));
  return path.join(folder, "layout");
}

describe.skipIf(registryProgram === undefined)("push (needs a registry: npm run setup -- --for test)", () => {
  test.each(["basic", "token"] as const)("an index arrives whole, and twice (%s)", async (auth) => {
    await using folder = await temporaryFolder();
    await using registry = await startOciRegistry({ auth });
    const layout = await writeTiny(folder.path);
    const reference = `${registry.host}/public/tiny:1.0.0`;
    const digest = await pushLayout(layout, reference, () => KNOWN);
    expect(await pushLayout(layout, reference, () => KNOWN)).toBe(digest);
    const accept = `${INDEX_TYPE}, application/vnd.oci.image.manifest.v1+json`;
    const headers = auth === "basic" ? { accept, authorization: `Basic ${KNOWN}` } : { accept };
    const response = await fetch(`http://${registry.host}/v2/public/tiny/manifests/1.0.0`, { headers });
    if (auth === "token") return expect(response.status).toBe(401);
    expect(response.headers.get("docker-content-digest")).toBe(digest);
    const { manifests } = (await response.json()) as { manifests: { digest: string }[] };
    expect(manifests).toHaveLength(2);
    for (const manifest of manifests) {
      const url = `http://${registry.host}/v2/public/tiny/manifests/${manifest.digest}`;
      expect((await fetch(url, { headers })).status).toBe(200);
    }
  });

  test.each([
    ["basic", undefined, /^log in \(docker login 127/],
    ["basic", basic(USERNAME, "wrong"), /^check user name and password/],
    ["token", undefined, /^log in \(docker login 127/],
    ["token", basic(USERNAME, "wrong"), /^check user name and password/],
  ] as const)("a push that is not allowed says what to do (%s, %s)", async (auth, credentials, remedy) => {
    await using folder = await temporaryFolder();
    await using registry = await startOciRegistry({ auth });
    const layout = await writeTiny(folder.path);
    const pushed = pushLayout(layout, `${registry.host}/public/tiny:1.0.0`, () => credentials);
    await expect(pushed).rejects.toMatchObject({
      message: expect.stringContaining("401"),
      remedy: expect.stringMatching(remedy),
    });
  });

  test.skipIf(helmProgram === undefined)(
    "Helm pulls the chart, which names the published image",
    async () => {
      await using folder = await temporaryFolder();
      await using registry = await startOciRegistry({ auth: "basic" });
      const input = {
        version,
        date: new Date("2026-01-02T03:04:05Z"),
        commit: "0".repeat(40),
        url: "https://example.com/project",
        repository: "registry.example.com/published",
      };
      const chart = await writeChart(path.join(folder.path, "out"), input);
      const again = await writeChart(path.join(folder.path, "again"), input);
      expect(again.digest).toBe(chart.digest);
      await pushLayout(chart.folder, `${registry.host}/charts/metalbridge:${version}`, () => KNOWN);

      const helm = helmIn(folder.path);
      const login = path.join(folder.path, "login.json");
      writeFileSync(login, JSON.stringify({ auths: { [registry.host]: { auth: KNOWN } } }));
      const source = `oci://${registry.host}/charts/metalbridge`;
      const place = ["--version", version, "--plain-http", "--registry-config", login, "-d", folder.path];
      await helm("pull", source, ...place);
      const pulled = path.join(folder.path, `metalbridge-${version}.tgz`);
      const rendered = await helm(
        "template",
        "metalbridge",
        pulled,
        "-n",
        "metalbridge-system",
        "--kube-version=1.32.0",
      );
      expect(rendered).toContain(`image: "registry.example.com/published:${version}"`);
      const namesIn = async (file: string) => {
        const { stdout } = await run("tar", ["-tzf", file]);
        return stdout.trim().split("\n").sort();
      };
      await helm("package", CHART, "-d", path.join(folder.path, "helm"));
      expect(await namesIn(pulled)).toEqual(
        await namesIn(path.join(folder.path, "helm", `metalbridge-${version}.tgz`)),
      );
    },
  );
});

test.each<[string, RegExp, RequestListener]>([
  ["answers without a token", /127[.0-9:]+\/token gave no token/, (_, response) => response.end("{}")],
  ["answers with other text", /127[.0-9:]+\/token gave no token/, (_, response) => response.end("<html>")],
  ["never answers", /127[.0-9:]+\/token did not answer within 0\.3 s/, () => undefined],
])("a token server that %s is the error that is reported", async (_, why, tokens) => {
  await using server = await serveHttp((request, response) => {
    if (request.url?.startsWith("/token")) return tokens(request, response);
    const realm = `Bearer realm="http://${request.headers.host}/token"`;
    response.writeHead(401, { "www-authenticate": realm }).end();
  });
  const send = repositoryClient({ host: server.host, repository: "tiny" }, undefined, 300);
  await expect(send("manifests/1.0.0")).rejects.toMatchObject({
    name: "ReleaseError",
    message: expect.stringMatching(why),
  });
});

test("a registry that cannot be reached is named, with the reason", async () => {
  const server = await serveHttp(() => {});
  const { host } = server;
  await server[Symbol.asyncDispose]();
  await expect(repositoryClient({ host, repository: "tiny" }, undefined)("blobs/x")).rejects.toMatchObject({
    name: "ReleaseError",
    message: `http://${host}/v2/tiny/blobs/x cannot be reached: connect ECONNREFUSED ${host}`,
  });
});

test("credentials are blamed only for an answer that refuses them", async () => {
  await using server = await serveHttp((_, response) => response.writeHead(503).end("busy"));
  const { host } = server;
  await expect(repositoryClient({ host, repository: "tiny" }, KNOWN)("blobs/x")).rejects.toMatchObject({
    message: expect.stringContaining("answered 503: busy"),
    remedy: expect.stringContaining("run the same command again"),
  });
});

test.each(["metalbridge:1", "org/metalbridge:1", "ghcr.io/a", "ghcr.io/A:1", "ghcr.io/a:", ""])(
  "%j names no registry, no tag, or nothing",
  (text) => {
    expect(() => parseReference(text)).toThrow(/is not an image reference/);
  },
);

test("credentials come from the environment, from docker's file and from its helpers", async () => {
  await using folder = await temporaryFolder();
  const env = { DOCKER_CONFIG: folder.path, PATH: `${folder.path}:${process.env.PATH}` };
  expect(credentialsFor("ghcr.io", env)).toBeUndefined();
  expect(credentialsFor("ghcr.io", { ...env, REGISTRY_USERNAME: "me", REGISTRY_PASSWORD: "p" })).toBe(
    basic("me", "p"),
  );
  const config = { auths: { "ghcr.io": { auth: KNOWN }, "quay.io": {} }, credsStore: "test" };
  writeFileSync(path.join(folder.path, "config.json"), JSON.stringify(config));
  const helper = `#!/bin/sh\nread -r host; [ "$host" = quay.io ] && echo '{"Username":"u","Secret":"s"}'\n`;
  writeFileSync(path.join(folder.path, "docker-credential-test"), helper, { mode: 0o755 });
  expect(credentialsFor("ghcr.io", env)).toBe(KNOWN);
  expect(credentialsFor("quay.io", env)).toBe(basic("u", "s"));
  expect(credentialsFor("other.example.com", env)).toBeUndefined();
});
