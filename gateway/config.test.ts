import { writeFile } from "node:fs/promises";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { parseGatewayConfig, readCountersUrl } from "./config.ts";

const GIVEN = { dir: "/run/gateway", envoy: "/envoy" };

test.each([
  [{ upstreamCert: "/c", upstreamCa: "/ca" }, "upstreamKey: must be set together with upstreamCert"],
  [{ upstreamCert: "/c", upstreamKey: "/k" }, "upstreamCa: is required with upstreamCert"],
  [{ userLimits: "requestsPerMinute=1" }, "userLimits: requires kubernetesTokens"],
  [{ userLimits: "requestsPerMinute=0", kubernetesTokens: true }, "userLimits.requestsPerMinute: "],
  [{ userLimits: "requestsPerHour=5", kubernetesTokens: true }, "requestsPerHour: "],
])("%j is refused with the setting", (settings, message) => {
  expect(() => parseGatewayConfig({ ...GIVEN, ...settings })).toThrow(message);
});

test.each(["dir", "envoy", "tlsCert", "tlsKey", "upstreamCa", "upstreamCert", "upstreamKey"] as const)(
  "a relative %s is a path from the folder where the gateway was started",
  (setting) => {
    const files = { tlsCert: "/c", tlsKey: "/k", upstreamCa: "/ca", upstreamCert: "/c", upstreamKey: "/k" };
    const config = parseGatewayConfig({ ...GIVEN, ...files, [setting]: "./a" });
    expect(config[setting]).toBe(path.resolve("a"));
    expect(parseGatewayConfig({ ...GIVEN, envoy: "external" }).envoy).toBe("external");
  },
);

test("the URL of the counters is read from a file, and a wrong one is not quoted", async () => {
  await using folder = await temporaryFolder();
  const countersFile = path.join(folder.path, "url");
  const read = (counters?: string) => readCountersUrl({ counters, countersFile });
  await expect(read()).rejects.toThrow("countersFile: cannot read");
  await writeFile(countersFile, "redis://:secret@r:6379\n");
  expect(await read()).toBe("redis://:secret@r:6379");
  await writeFile(countersFile, "http://:secret@r\n");
  await expect(read()).rejects.toThrow(/^(?!.*secret).*must be redis:/);
  await writeFile(countersFile, "redis://r:2");
  await expect(read("redis://r:1")).rejects.toThrow("cannot be set together with counters");
  expect(await readCountersUrl({ counters: "redis://r:1", countersFile: undefined })).toBe("redis://r:1");
});
