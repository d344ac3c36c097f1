/** Recordings of replayed machines: the fixture comes back, and nothing that was planted in it. */
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { loadAgentConfig } from "../../agent/config/load.ts";
import { createRunTool } from "../../src/util/command.ts";
import { startDoctorReplay } from "../../test/bed/doctor-replay.ts";
import { M4_MAX } from "../../test/bed/replay.ts";
import { createRecorder, type Recorded, writeRecording } from "./record.ts";
import { runSteps } from "./step.ts";
import { toolSteps } from "./tools.ts";

const FIXTURES = path.join(import.meta.dirname, "..", "..", "test", "macos");
/** It waits for a tool that no recording has. */
const steps = toolSteps.filter(({ name }) => name !== "awake");

async function record(machine: string, changes = {}): Promise<Recorded & { readonly statuses: object }> {
  await using mac = await startDoctorReplay(machine, changes);
  const runPrivately = createRunTool(mac.path);
  const recorder = createRecorder(runPrivately);
  const results = await runSteps(
    steps,
    {
      config: loadAgentConfig({ file: undefined, flags: { platform: "darwin" } }),
      run: recorder.run,
      runPrivately,
      path: mac.path,
      env: { PATH: mac.path },
      isReplayed: true,
      folder: "/tmp",
    },
    { stop: new AbortController().signal, onResult: () => {} },
  );
  const statuses = Object.fromEntries(results.map(({ name, status }) => [name, status]));
  return { ...(await recorder.files()), statuses };
}

/** The originals back in their places. */
function restored({ files, redaction }: Recorded, name: string): string {
  let text = files.get(name) ?? "";
  const longestFirst = [...redaction.replaced].sort(([, one], [, other]) => other.length - one.length);
  for (const [original, replacement] of longestFirst) text = text.replaceAll(replacement, original);
  return text;
}

describe.each([M4_MAX, "mac17-2-m5-32gb-macos-26.1"])("a recording of %s", (machine) => {
  it("equals the fixture but for what was replaced", async () => {
    const recorded = await record(machine);
    expect(recorded.machine).toBe(machine);
    const fixture = path.join(FIXTURES, machine);
    const names = await readdir(fixture);
    expect([...recorded.files.keys()].sort()).toEqual(names.sort());
    for (const name of names) {
      const text = await readFile(path.join(fixture, name), "utf8");
      if (name === "tools.yaml") expect(parse(restored(recorded, name))).toEqual(parse(text));
      else expect(restored(recorded, name)).toBe(text);
    }
  });

  it("replays as the machine that it was made from, and is recorded the same again", async () => {
    const folder = await mkdtemp(path.join(tmpdir(), "mb-record-"));
    try {
      const first = await record(machine);
      const written = await writeRecording(folder, first);
      const second = await record(written);
      expect(second.statuses).toEqual(first.statuses);
      expect(second.files).toEqual(first.files);
      await expect(writeRecording(folder, first)).rejects.toMatchObject({ code: "RecordingFailed" });
    } finally {
      await rm(folder, { recursive: true });
    }
  });
});

it("holds no original value of a machine with names, addresses and secrets", async () => {
  const planted = [
    ...["Janes Mac mini", "Janes-Mac-mini", "jane", "Jane Roe", "C02XK0ABCD12", "Doe Payroll"],
    ...[
      "6F2C1A52-8A3B-4B6E-9B1D-2F4E6A7C8D90",
      "a4:83:e7:0b:c1:02",
      "a4:83:e7:b:c1:2",
      "10.1.2.3",
      "2a02:8108::42",
    ],
    ...["sk-123456", "hf_abcdef", "343032584b"],
  ];
  const recorded = await record(M4_MAX, {
    "scutil --get ComputerName": "Janes Mac mini",
    "scutil --get LocalHostName": "Janes-Mac-mini",
    "scutil --get HostName": "Janes-Mac-mini.fritz.box",
    "id -un": "jane",
    "id -F": "Jane Roe",
    "ioreg *": [
      "+-o J616cAP  <class IOPlatformExpertDevice, id 0x100000281>",
      "    {",
      '      "IOPlatformUUID" = "6F2C1A52-8A3B-4B6E-9B1D-2F4E6A7C8D90"',
      '      "IOPlatformSerialNumber" = "C02XK0ABCD12"',
      '      "mlb-serial-number" = <343032584b000000>',
      "    }",
    ].join("\n"),
    "ps *": [
      "  1 0 /sbin/launchd",
      "  2 1 /Applications/Doe Payroll.app/Contents/MacOS/Doe Payroll --api-key sk-123456",
      "  3 1 /opt/homebrew/bin/llama-server --api-key sk-123456 -m /Users/jane/m.gguf",
    ].join("\n"),
    "launchctl list": "PID\tStatus\tLabel\n9\t0\tcom.jane.Doe Payroll",
    "launchctl print system/dev.metalbridge.agent":
      "x = {\n\tpath = /Users/jane/x.plist\n\tstate = running\n\tenvironment = {\n\t\tHF_TOKEN => hf_abcdef\n\t}\n}",
    "lsof *": "p9\ncDoe Payroll\nn10.1.2.3:80\nn[2a02:8108::42]:81",
    "ifconfig -a":
      "en0: flags=1\n\tether a4:83:e7:0b:c1:02\n\tinet 10.1.2.3 netmask 0xffffff00\n\tinet6 2a02:8108::42 prefixlen 64",
    "arp -an": "? (10.1.2.3) at a4:83:e7:b:c1:2 on en0 ifscope [ethernet]",
  });
  const text = [...recorded.files.values()].join("\n");
  for (const original of planted) expect(text.toLowerCase()).not.toContain(original.toLowerCase());
  expect(text).toContain("/Users/user-");
  expect(text).toMatch(/198\.18\.1\.1/);
});
