/** Native programs as engines under the real runner: a tiny server, and programs that behave badly. */
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test, vi } from "vitest";
import type { ProgramSpec } from "../../../src/api/fields/program.ts";
import type { InferenceReplica } from "../../../src/api/inference-replica.ts";
import { SECRETS } from "../../../src/kube/kinds.ts";
import { runInTerminal } from "../../../test/cli/in-terminal.ts";
import { WITH_COMPILE_CACHE } from "../../../test/fixtures/compile-cache.ts";
import type { Bench } from "../../../test/replicas/bench.ts";
import { withBench } from "../../../test/replicas/with-bench.ts";
import { createEngineDrivers } from "../registry.ts";

const PATIENT = { timeout: 60_000, interval: 20 };
const TINY = fileURLToPath(new URL("../testing/tiny-program.ts", import.meta.url));
const SERVES = `${WITH_COMPILE_CACHE}\nexec '${process.execPath}' '${TINY}' "$@"`;
const quick = {
  firstRestartMs: 20_000,
  propagationMs: 0,
  outsideMs: 300,
  liveProbeMs: 200,
  failedProbeMs: 50,
};

test(
  "a program is started, adopted by the next agent with its probes, restarted after a hang and a crash, and drained by its gauge",
  withBench(async (bench) => {
    const { root, startAgent } = allowing(bench);
    const first = await startAgent();
    await create(bench, "one", { command: [script(root, "serve", SERVES), ...args()] });
    const one = await bench.untilPhase("one", "Ready");
    expect(one.status?.memory).toMatchObject({
      claimBasis: "size of the weights on disk plus 20% and 256 MiB",
    });
    const url = (path: string) => `http://${bench.address}:${one.status?.port}${path}`;
    expect(await (await fetch(url("/arguments"))).json()).toEqual([
      ...[String(one.status?.port), bench.address, bench.modelPath, "512", "1"],
    ]);

    await first.end();
    const { runner } = await startAgent({ timings: { ...quick, firstRestartMs: 0, backoffFirstMs: 20 } });
    expect(runner.snapshot()).toMatchObject([{ pid: one.status?.pid }]);
    process.kill(one.status?.pid ?? 0, "SIGSTOP");
    await bench.untilExit("one", "EngineHung");
    const hung = await untilRestarted(bench, one, 1);
    process.kill(hung.status?.pid ?? 0, "SIGKILL");
    await bench.untilExit("one", "EngineKilled");
    const again = await untilRestarted(bench, hung, 2);

    const answer = fetch(`http://${bench.address}:${again.status?.port}/hold`);
    await vi.waitFor(async () => {
      const metrics = await fetch(`http://${bench.address}:${again.status?.port}/metrics`);
      expect(await metrics.text()).toContain("held 1");
    }, PATIENT);
    await bench.deleteReplica("one");
    await bench.untilReason("one", "AwaitingQuiet");
    await fetch(`http://${bench.address}:${again.status?.port}/release`);
    expect(await (await answer).text()).toBe("released");
    await vi.waitFor(() => expect(isAlive(again.status?.pid)).toBe(false), PATIENT);
  }),
);

test(
  "a program without a gauge is drained for drainSeconds, and one that ignores TERM is killed",
  withBench(async (bench) => {
    const { root, startAgent } = allowing(bench);
    await startAgent();
    const stubborn = `trap '' TERM\n${WITH_COMPILE_CACHE}\n'${process.execPath}' '${TINY}' "$@"`;
    const command = [script(root, "stubborn", stubborn), ...args()];
    await create(bench, "one", { command, inFlightProbe: undefined }, { drainSeconds: 1 });
    const { status } = await bench.untilPhase("one", "Ready");
    const askedAt = performance.now();
    await bench.deleteReplica("one");
    await bench.untilGone("one");
    expect(performance.now() - askedAt).toBeGreaterThan(1_000);
    expect(isAlive(status?.pid)).toBe(false);
  }),
);

test.each<[string, string, string, Partial<ProgramSpec>]>([
  ["exits at once", "echo no weights here >&2; exit 3", "EngineCrashed", {}],
  ["forks away", `${SERVES.replace("exec", "setsid")} & echo $! >"$0.pid"; exit 0`, "EngineCrashed", {}],
  ["is an exec format error", "\u0000", "RuntimeNotExecutable", {}],
])("a program that %s is reported and backs off, and nothing of it is left", (_, body, reason, change) =>
  withBench(async (bench) => {
    const { root, startAgent } = allowing(bench);
    await startAgent();
    const path = script(root, "program", body);
    await create(bench, "one", { command: [path, ...args()], ...change });
    const { status } = await bench.untilExit("one", reason);
    expect(status?.lastExit?.killedByUs).toBe(false);
    await bench.untilPhase("one", "Backoff");
    const pid = body.includes("$0.pid") ? Number(readFileSync(`${path}.pid`, "utf8")) : undefined;
    await vi.waitFor(() => expect(isAlive(pid)).toBe(false), PATIENT);
  })(),
);

test(
  "commands that cannot or may not run are refused with what to change",
  withBench(async (bench) => {
    const { root, startAgent } = allowing(bench);
    const first = await startAgent();
    const path = script(root, "serve", SERVES);
    await create(bench, "typo", { command: [path, "{{port}}", "{{modle}}"] });
    await create(bench, "outside", { command: ["/bin/sh", "{{port}}"] });
    await create(bench, "absent", { command: [`${path}-2`, "{{port}}"] });
    await create(bench, "variable", {
      command: [path, ...args()],
      env: [{ name: "OPENSSL_CONF", value: "{{model}}" }],
    });
    await create(bench, "probe", {
      command: [path, ...args()],
      readiness: { exec: ["/bin/true"] },
    });
    const auth = { secretName: "keys", key: "apiKey" };
    const { metadata } = await create(bench, "key", { command: [path, ...args()] }, {}, auth);
    const place = { name: "keys", namespace: metadata.namespace ?? "" };
    const secret = { apiVersion: "v1", kind: "Secret", metadata: place, data: { apiKey: "eA==" } };
    expect(await bench.client.create(SECRETS, secret)).toMatchObject({ ok: true });
    expect((await bench.untilPhase("typo", "Failed")).status).toMatchObject({
      reason: "CommandInvalid",
      message: expect.stringContaining("{{modle}} is not a placeholder; known: {{model}} {{modelName}}"),
    });
    expect((await bench.untilPhase("variable", "Failed")).status).toMatchObject({
      reason: "CommandInvalid",
      message: expect.stringContaining("OPENSSL_CONF, which generic.env"),
    });
    for (const name of ["outside", "probe"]) {
      const { status } = await bench.untilReason(name, "ProgramNotAllowed");
      expect(status?.message).toContain("generic.roots");
    }
    await bench.untilReason("absent", "RuntimeNotInstalled");
    await bench.untilPhase("key", "Ready");
    await first.end();
    await bench.startAgent({
      drivers: (options) =>
        createEngineDrivers({ ...options, config: { ...options.config, generic: { roots: [], env: [] } } }),
      timings: quick,
    });
    await bench.untilReplica("outside", (found) =>
      expect(found?.status?.message).toContain("generic.roots in the agent's configuration (it allows none)"),
    );
  }),
);

test(
  "a program in a terminal serves and is typed to, and who is attached notices no restart of the agent",
  withBench(async (bench) => {
    const { root, startAgent } = allowing(bench);
    const first = await startAgent();
    const body = `printf 'console> '\n${WITH_COMPILE_CACHE}\n'${process.execPath}' '${TINY}' "$@" &\nwhile read -r line; do echo "<$line>"; done`;
    await create(bench, "one", { command: [script(root, "console", body), ...args()], tty: true });
    const { status, metadata } = await bench.untilPhase("one", "Ready");
    expect(status?.memory?.claimBasis).toContain("and 64 MiB for its terminal");
    const attach = ["attach", "one", "-n", metadata.namespace ?? "", "--state-dir", bench.stateDir];
    using attached = runInTerminal(attach, { cols: 90, rows: 30 });
    await attached.shows("console> ");
    attached.pty.write("hello\r");
    await attached.shows("<hello>");

    await first.end();
    const { runner } = await startAgent();
    expect(runner.snapshot()).toMatchObject([{ pid: status?.pid }]);
    attached.pty.write("again\r");
    await attached.shows("<again>");
    const log = readFileSync(join(bench.stateDir, "engines", metadata.uid ?? "", "log"), "utf8");
    expect(log).toContain("console> hello\n<hello>\nagain\n<again>\n");
    await bench.deleteReplica("one");
    await attached.shows(/the program of \S+\/one was ended by SIGTERM/);
    await bench.untilGone("one");
    expect(isAlive(status?.pid)).toBe(false);
  }),
);

test(
  "a program that writes 256 MiB to its output serves, and its logs stay small",
  withBench(async (bench) => {
    const { root, startAgent } = allowing(bench);
    await startAgent();
    const body = `head -c 256M /dev/zero\n${SERVES}`;
    await create(bench, "one", { command: [script(root, "loud", body), ...args()] });
    const one = await bench.untilPhase("one", "Ready");
    const dir = join(bench.stateDir, "engines", one.metadata.uid ?? "");
    const logBytes = () => {
      const logs = readdirSync(dir).filter((name) => name.startsWith("log"));
      return logs.reduce(
        (sum, name) => sum + (statSync(join(dir, name), { throwIfNoEntry: false })?.size ?? 0),
        0,
      );
    };
    // Three old files of at most 32 MiB, and a log below 16.
    await vi.waitFor(() => expect(logBytes()).toBeLessThanOrEqual(112 * 1024 ** 2), {
      timeout: 60_000,
      interval: 100,
    });
    expect((await bench.replica("one"))?.status).toMatchObject({ phase: "Ready", restarts: 0 });
  }),
);

/** Agents of this bench run programs below one folder of it. */
function allowing(bench: Bench) {
  const root = join(bench.place.root, "programs");
  mkdirSync(root);
  const startAgent = (changes: Parameters<Bench["startAgent"]>[0] = {}) =>
    bench.startAgent({
      drivers: (options) =>
        createEngineDrivers({
          ...options,
          config: { ...options.config, generic: { roots: [root], env: [] } },
        }),
      timings: quick,
      ...changes,
    });
  return { root, startAgent };
}

function script(root: string, name: string, body: string): string {
  const path = join(root, name);
  writeFileSync(path, body === "\u0000" ? "\u0000" : `#!/bin/sh\n${body}\n`);
  chmodSync(path, 0o755);
  return path;
}

const args = () => ["{{port}}", "{{address}}", "{{model}}", "{{contextSize}}", "{{slots}}"];

function create(
  bench: Bench,
  name: string,
  change: { readonly command: string[] } & { [Key in keyof ProgramSpec]?: ProgramSpec[Key] | undefined },
  spec: object = {},
  auth?: object,
) {
  const usual = { liveness: { httpPath: "/health" }, inFlightProbe: { gauges: ["held"] } };
  return bench.createReplica(name, (into) => {
    Object.assign(into, spec);
    const program = JSON.parse(JSON.stringify({ ...usual, ...change })) as ProgramSpec;
    const engine = { mode: "chat", contextSize: 512, parallelSlots: 1, program } as const;
    Object.assign(into.template, { runtime: "generic", engine, auth });
  });
}

/** Ready again, in another process. */
function untilRestarted(bench: Bench, before: InferenceReplica, restarts: number) {
  return bench.untilReplica(before.metadata.name, (found) => {
    if (found === undefined) throw new Error("it is gone");
    expect(found.status).toMatchObject({ phase: "Ready", restarts });
    expect(found.status?.pid).not.toBe(before.status?.pid);
    return found;
  });
}

function isAlive(pid: number | undefined): boolean {
  try {
    return pid !== undefined && process.kill(pid, 0);
  } catch {
    return false;
  }
}
