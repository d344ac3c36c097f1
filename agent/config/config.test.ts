import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { checkAddress } from "../host/address.ts";
import { hostNameFrom, loadAgentConfig } from "./load.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "mb-config-"));
});
afterAll(() => rm(folder, { recursive: true }));

async function file(text: string): Promise<string> {
  const path = join(folder, `${Math.random().toString(36).slice(2)}.yaml`);
  await writeFile(path, text);
  return path;
}

const base = { stateDir: "/tmp/state", hostName: "mac" };

test("flags win over the file, the file over defaults, groups key by key, and the result cannot be changed", async () => {
  const path = await file(
    "hostName: studio\nsources:\n  allowLoopback: true\n  allowedHosts: [a.example]\ndisk:\n  reserve: 2Gi\n",
  );
  const config = loadAgentConfig({
    file: path,
    flags: { hostName: "mini", sources: { allowLoopback: false }, stateDir: "/tmp/s" },
    env: {},
  });
  expect(config).toMatchObject({
    hostName: "mini",
    sources: {
      allowLoopback: false,
      allowedHosts: ["a.example"],
      allowPrivateAddresses: true,
      stallMs: 30_000,
    },
    disk: { reserve: 2 ** 31 },
    portRange: [21_000, 21_999],
    drain: { quietMs: 250 },
    engineLogs: { maxSize: 16 * 2 ** 20, keep: 3 },
    huggingFace: { endpoint: "https://huggingface.co" },
  });
  expect(Object.isFrozen(config.sources)).toBe(true);
});

test.each([
  "portRange: 20000-20999",
  "portRange: ' 20000 - 20999 '",
  "portRange: [20000, 20999]",
  "portRange: '[20000, 20999]'",
])("%s is a range of ports", async (text) => {
  expect(loadAgentConfig({ file: await file(text), flags: base, env: {} }).portRange).toEqual([
    20_000, 20_999,
  ]);
});

test("the environment gives the token and the kubeconfig; a token file is read", async () => {
  expect(loadAgentConfig({ flags: base, env: { HF_TOKEN: "hf_1", KUBECONFIG: "/k" } })).toMatchObject({
    kubeconfig: "/k",
    huggingFace: { token: "hf_1" },
  });
  expect(loadAgentConfig({ flags: base, env: { KUBECONFIG: "/k:/l" } }).kubeconfig).toBeUndefined();
  const tokenFile = await file("hf_2\n");
  expect(loadAgentConfig({ flags: { ...base, huggingFace: { tokenFile } }, env: {} }).huggingFace.token).toBe(
    "hf_2",
  );
});

test.each([
  ["hostNam: mac", /hostNam: unknown key/],
  ["engineLogs:\n  maxSize: 10Gi", /engineLogs\.maxSize: must be from 64Ki to 256Mi/],
  ["engineLogs:\n  keep: -1", /engineLogs\.keep/],
  ["sources:\n  allowLoopbak: true", /sources\.allowLoopbak: unknown key/],
  ["sources: { maxDownloads: 0 }", /sources\.maxDownloads/],
  ["sources: { maxBytesPerSecond: 1Ki }", /sources\.maxBytesPerSecond: must be at least 64Ki/],
  ["sources: { maxBytesPerSecond: fast }", /sources\.maxBytesPerSecond: must be a quantity/],
  ["sources: { connectionsPerFile: 17 }", /sources\.connectionsPerFile/],
  ["hostName: Mac.local", /hostName: must be a DNS label/],
  [`hostName: ${"a".repeat(64)}`, /hostName: must be a DNS label/],
  ["hostName: 7", /hostName: /],
  ["addresses: [127.0.0.1]", /addresses\.0: is loopback/],
  ["addresses: [169.254.3.4]", /addresses\.0: is link-local/],
  ["addresses: [0.0.0.0]", /addresses\.0: is unspecified/],
  ["addresses: ['fe80::1']", /addresses\.0: is link-local/],
  ["addresses: [mac.local]", /addresses\.0: is not an IP address/],
  ["addresses: 192.0.2.1", /addresses: /],
  ...[
    "[22000, 21000]",
    "[0, 70000]",
    "22000-21000",
    "21000-70000",
    "21000",
    "[21000]",
    "[1, 2, 3]",
    "[a, b]",
  ].map((range): [string, RegExp] => [
    `portRange: ${range}`,
    /portRange: must be the first and the last port for engines, such as 21000-21999 or \[21000, 21999\]: [^;]*$/,
  ]),
  ["modelRoots: [models]", /modelRoots\.0: must be an absolute path/],
  ["huggingFace: { endpoint: 'ftp://x' }", /huggingFace\.endpoint: must be an http/],
  ["disk: { reserve: lots }", /disk\.reserve: must be a quantity/],
  ["drain: { quietMs: -1 }", /drain\.quietMs/],
  ["platform: windows", /platform/],
  ["register: 'yes'", /register/],
  ["logLevel: loud", /logLevel/],
  ["metricsPort: 99999", /metricsPort/],
  ["metricsPort: 9465\nmetricsAddress: 192.0.2.1", /metricsTokenFile: is required/],
  ["metricsAddress: 192.0.2.1\nmetricsTokenFile: /token", /metricsPort: is required/],
  ["metricsPort: 9465\nmetricsTokenFile: /token\nmetricsAddress: 127.0.0.1", /metricsAddress: is loopback/],
  ["metricsPort: 9465\nmetricsTokenFile: /token\nmetricsAddress: 0.0.0.0", /metricsAddress: is unspecified/],
  ["metricsPort: 9465\nmetricsTokenFile: /token\nmetricsAddress: mini-1", /metricsAddress: is not an IP/],
  ["- a\n- b", /must hold keys and values/],
])("%s is refused and the key is named", async (text, why) => {
  const path = await file(text);
  const load = () => loadAgentConfig({ file: path, env: {} });
  expect(load).toThrow(why);
  expect(load).toThrow(
    expect.objectContaining({ code: "AgentConfigInvalid", message: expect.stringContaining(path) }),
  );
});

test("a file that is missing, unreadable or no YAML has its own code; an empty one says nothing", async () => {
  const unreadable = await file("hostName: mac");
  await chmod(unreadable, 0o000);
  const broken = await file("hostName: [");
  for (const path of [join(folder, "none.yaml"), broken, folder]) {
    expect(() => loadAgentConfig({ file: path, env: {} })).toThrow(
      expect.objectContaining({ code: "AgentConfigUnreadable" }),
    );
  }
  expect(loadAgentConfig({ file: await file(""), env: {} }).hostName).toMatch(/^[a-z0-9-]+$/);
  expect(JSON.stringify(loadAgentConfig({ file: await file('{"hostName":"mac"}'), env: {} }))).toContain(
    '"hostName":"mac"',
  );
});

test.each([
  ["Johns-MacBook-Pro.local", "johns-macbook-pro"],
  ["Büro Mac", "b-ro-mac"],
  ["---", "host"],
  ["x".repeat(80), "x".repeat(63)],
])("machine %s becomes host %s", (name, label) => {
  expect(hostNameFrom(name)).toBe(label);
});

test("addresses of both families are checked", () => {
  expect(checkAddress("192.168.1.2")).toBe("192.168.1.2");
  expect(checkAddress("fd00::1")).toBe("fd00::1");
  expect(() => checkAddress("::1")).toThrow(expect.objectContaining({ code: "AddressNotUsable" }));
});

test("credentials of sources come from the environment, a file and the configuration, each over the one before", async () => {
  const credentialsFile = await file("AWS_REGION: of-file\nAWS_SESSION_TOKEN: of-file\n");
  const account = await file("{}");
  const env = { AWS_ACCESS_KEY_ID: "of-env", AWS_REGION: "of-env", token: "no", AWS_PROFILE: "no" };
  const { sources } = loadAgentConfig({
    flags: { ...base, sources: { credentialsFile, credentials: { AWS_SESSION_TOKEN: "said" } } },
    env: { ...env, GOOGLE_APPLICATION_CREDENTIALS: account },
  });
  expect(sources.credentials).toEqual({
    AWS_ACCESS_KEY_ID: "of-env",
    AWS_REGION: "of-file",
    AWS_SESSION_TOKEN: "said",
    GOOGLE_APPLICATION_CREDENTIALS_JSON: "{}",
  });
  expect(loadAgentConfig({ flags: base, env: {} }).sources).not.toHaveProperty("credentials");
});
