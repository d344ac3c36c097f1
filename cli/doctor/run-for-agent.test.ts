/** doctor as an agent runs it for users of the cluster. */
import { once } from "node:events";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { type AddressInfo, createServer } from "node:net";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { loadAgentConfig } from "../../agent/config/load.ts";
import type { AgentSettings } from "../../agent/config/schema.ts";
import { packageRoot } from "../../local/package-root.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { runDoctor } from "./run-for-agent.ts";

interface Finding {
  readonly code: string;
  readonly status: string;
  readonly finding: string;
}

/** The results of `code` for an agent that was started with these flags. */
async function findingsOf(code: string, flags: AgentSettings, file: string): Promise<readonly Finding[]> {
  const config = loadAgentConfig({ file, flags, env: {} });
  const report = await runDoctor(config, { config: file }, AbortSignal.timeout(60_000));
  const { results } = JSON.parse(report) as { readonly results: readonly Finding[] };
  return results.filter((result) => result.code === code);
}

test.skipIf(process.platform !== "linux")(
  "checks the configuration that the agent runs with, its flags included",
  async () => {
    const [, program = ""] = process.argv;
    process.argv[1] = path.join(packageRoot(), "cli", "metalbridge.mjs");
    onTestFinished(() => {
      process.argv[1] = program;
    });
    await using folder = await temporaryFolder();
    const stateDir = path.join(folder.path, "state");
    await mkdir(stateDir, { mode: 0o700 });
    const file = path.join(folder.path, "agent.yaml");
    await writeFile(file, "portRange: 1-1\n");
    await chmod(file, 0o666);
    await using server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;

    const flags: AgentSettings = { stateDir, hostName: "mini-1", portRange: [port, port] };
    const taken = await findingsOf("PortRangeInUse", flags, file);
    expect(taken).toMatchObject([
      { status: "warning", finding: expect.stringContaining(`port ${port} is used`) },
    ]);
    // Of the file that it was loaded from, permissions are checked.
    expect(await findingsOf("ConfigWritable", flags, file)).toMatchObject([{ status: "error" }]);
  },
);
