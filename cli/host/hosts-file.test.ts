/** The file of `host add -f`: every problem has its line, and nothing of a wrong file is used. */
import { readFileSync } from "node:fs";
import path from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { packageRoot } from "../../local/package-root.ts";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { canonicalAddress, HOSTS_FILE_MAX, parseHostsFile, readHostsFile } from "./hosts-file.ts";

function problemsOf(text: string): readonly string[] {
  try {
    parseHostsFile(text, "hosts.yaml");
    return [];
  } catch (error) {
    if (!(error instanceof MetalbridgeError)) throw error;
    expect(error.code).toBe("HostsFileInvalid");
    return error.message.split("\n  ").slice(1);
  }
}

test("the example is read, as YAML and as JSON", () => {
  const text = readFileSync(path.join(packageRoot(), "examples/mac-fleet/hosts.yaml"), "utf8");
  const { hosts, lineOf } = parseHostsFile(text, "hosts.yaml");
  expect(hosts.length).toBeGreaterThan(2);
  expect(lineOf(0)).toMatch(/^hosts\.yaml:\d+$/);
  expect(parseHostsFile(JSON.stringify(hosts), "hosts.json").hosts).toEqual(hosts);
});

test("unknown keys, wrong values and duplicates are named with their lines, all of them", () => {
  const text = `- name: mac-1
  addresses: [10.0.0.1]
- name: Mac 2
  addresses: []
- name: mac-3
  adresses: [10.0.0.3]
- name: mac-1
  addresses:
    - 10.0.0.300
    - 10.0.0.4/33
- name: mac-5
  addresses: [10.0.0.5]
  memory:
    reserve: 8Gi
`;
  expect(problemsOf(text)).toEqual([
    expect.stringMatching(/^hosts\.yaml:3: host 2 name: /),
    "hosts.yaml:4: host 2 addresses: at least one address is needed",
    expect.stringMatching(/^hosts\.yaml:5: host 3 addresses: /),
    "hosts.yaml:6: host 3 adresses: unknown key",
    "hosts.yaml:9: host 4 addresses.0: neither an IP address nor a CIDR",
    "hosts.yaml:10: host 4 addresses.1: neither an IP address nor a CIDR",
    "hosts.yaml:14: host 5 memory.reserve: unknown key",
  ]);
});

test("names and addresses that occur twice are named with both lines; a network may be that of many", () => {
  const text = `- {name: a, addresses: [10.0.0.1, "fd00::1"]}
- {name: b, addresses: [10.0.0.0/24]}
- {name: c, addresses: [10.0.0.0/24]}
- {name: a, addresses: [10.0.0.4]}
- {name: e, addresses: ["fd00:0::1"]}
- {name: f, addresses: [10.0.0.6, 10.0.0.6]}
`;
  expect(problemsOf(text)).toEqual([
    "hosts.yaml:4: host 4: the name a is also at hosts.yaml:1",
    "hosts.yaml:5: host 5: the address fd00:0::1 is also at hosts.yaml:1",
    "hosts.yaml:6: host 6: the address 10.0.0.6 is also at hosts.yaml:6",
  ]);
});

test("a file without a list says what it needs", () => {
  const list =
    "it must be a list of hosts, each with a name and addresses: - {name: mac-01, addresses: [192.168.1.21]}";
  expect(problemsOf("")).toEqual([`hosts.yaml:1: the file is empty: ${list}`]);
  expect(problemsOf("# later\n---\n")).toEqual([expect.stringContaining("the file is empty")]);
  expect(problemsOf("hosts: []")).toEqual([`hosts.yaml:1: ${list}`]);
  expect(problemsOf("- {name: a, addresses: [10.0.0.1]}\n---\n- {name: b, addresses: [10.0.0.2]}\n")).toEqual(
    ["hosts.yaml:2: a second YAML document begins here: put all hosts into one list"],
  );
});

test.each([
  ["is missing", "missing.yaml", "there is no such file"],
  ["is a folder", ".", "it is a folder"],
])("a file that %s cannot be read, and the remedy speaks of no lines", async (_, name, why) => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, name);
  await expect(readHostsFile(file)).rejects.toMatchObject({
    code: "HostsFileInvalid",
    message: `cannot read ${file}: ${why}`,
    remedy: { summary: expect.stringMatching(/^pass a file that this user can read/) },
  });
});

test.each([
  ["nothing", ""],
  ["an empty list", "[]"],
  ["a map", "name: a"],
  ["a text", "hello"],
  ["what is no YAML", "- name: [a"],
  ["a key twice", "- {name: a, name: b, addresses: [10.0.0.1]}"],
  ["more hosts than a file may have", JSON.stringify(Array(HOSTS_FILE_MAX + 1).fill({}))],
  [
    "aliases that grow",
    `a: &a [x,x,x,x,x,x,x,x,x]\n${"bcdefghi".replaceAll(/./g, (k) => `${k}: &${k} [${Array(9).fill(`*${String.fromCharCode(k.charCodeAt(0) - 1)}`)}]\n`)}`,
  ],
])("%s is refused", (_, text) => {
  expect(problemsOf(text).length).toBeGreaterThan(0);
});

test("no text makes it fail in another way", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.json(),
        fc.array(fc.dictionary(fc.string(), fc.anything())).map((value) => JSON.stringify(value)),
      ),
      (text) => {
        problemsOf(text);
      },
    ),
    { numRuns: 50 },
  );
});

test("an address has one form, and a network none", () => {
  expect(canonicalAddress("FD00:0:0::1")).toBe(canonicalAddress("fd00::1"));
  expect(canonicalAddress("10.0.0.1")).toBe("10.0.0.1");
  for (const none of ["10.0.0.0/24", "x", "fe80::1%en0"]) expect(canonicalAddress(none)).toBeUndefined();
});
