import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadAgentConfig } from "./load.ts";

let folder = "";
let path = "";
/** plutil on a Mac; here an executable of that name that answers as recorded. */
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "mb-managed-"));
  path = `${folder}:/usr/bin:/bin`;
  const script = `#!/bin/sh
[ "$1 $2 $3 $4" = "-convert json -o -" ] || exit 64
case "$5" in
*date*) echo "$5: invalid object in plist for destination format" >&2; exit 1 ;;
*) cat "$5" ;;
esac
`;
  writeFileSync(join(folder, "plutil"), script, { mode: 0o755 });
});
afterAll(() => rmSync(folder, { recursive: true }));

function managed(name: string, content: string): string {
  const file = join(folder, name);
  writeFileSync(file, content);
  return file;
}

const load = (managedFile: string, file?: string, flags = {}) =>
  loadAgentConfig({ managedFile, file, flags: { stateDir: "/s", ...flags }, env: { PATH: path } });

test("what a profile sets wins over the file, flags win over both, and groups are merged key by key", () => {
  const profile = managed(
    "a.plist",
    '{"PayloadUUID":"0C0E","hostName":"managed","engineLogs":{"maxSize":"1Mi"},"logLevel":"warn"}',
  );
  const file = managed("agent.yaml", "hostName: file\nmetricsPort: 9465\nengineLogs: { keep: 5 }\n");
  expect(load(profile, file, { logLevel: "error" })).toMatchObject({
    hostName: "managed",
    metricsPort: 9465,
    engineLogs: { maxSize: 2 ** 20, keep: 5 },
    logLevel: "error",
  });
});

test("without a profile nothing is managed", () => {
  expect(load(join(folder, "none.plist"), undefined, { hostName: "mac" }).hostName).toBe("mac");
});

test.each([
  ["unknown.plist", '{"hostNam":"x"}', "AgentConfigInvalid", /unknown\.plist: hostNam: unknown key/],
  ["list.plist", "[1]", "AgentConfigInvalid", /must hold keys and values/],
  ["date.plist", "{}", "AgentConfigUnreadable", /invalid object in plist/],
  ["broken.plist", "{", "AgentConfigUnreadable", /broken\.plist/],
])("%s stops the agent: what an administrator enforces is never ignored", (name, content, code, message) => {
  const file = managed(name, content);
  expect(() => load(file)).toThrow(
    expect.objectContaining({ code, message: expect.stringMatching(message) }),
  );
});
