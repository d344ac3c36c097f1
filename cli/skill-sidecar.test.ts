/** The sidecar lives on whatever the agent puts into the folder that they share, and runs commands in the agent's folder. */
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { until } from "../test/bed/until.ts";
import { startProgram } from "../test/cli/program.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";

interface Result {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function startSidecar() {
  const folder = await temporaryFolder();
  const tools = path.join(folder.path, "ipc", "tools");
  const workspace = path.join(folder.path, "workspace");
  for (const one of [tools, workspace]) mkdirSync(one, { recursive: true });
  const program = startProgram([
    ...["skill-sidecar", "--ipc", path.dirname(tools)],
    ...["--workspace", workspace],
  ]);
  const at = (name: string) => path.join(tools, name);
  const write = (id: string, request: object) => {
    writeFileSync(at(`${id}.new`), JSON.stringify({ id, ...request }));
    renameSync(at(`${id}.new`), at(`exec-request-${id}.json`));
  };
  const read = (id: string) =>
    until((): Result => JSON.parse(readFileSync(at(`exec-result-${id}.json`), "utf8")), {
      timeoutMs: 30_000,
      ended: program.ended,
    });
  const ask = (id: string, command: string, more: object = {}) => {
    write(id, { command, ...more });
    return read(id);
  };
  const end = async () => {
    await program[Symbol.asyncDispose]();
    await folder[Symbol.asyncDispose]();
  };
  return { folder: folder.path, tools, workspace, program, at, write, read, ask, [Symbol.asyncDispose]: end };
}

test("a temporary file that the agent plants is neither followed nor waited for", async () => {
  await using sidecar = await startSidecar();
  const { at, folder, ask } = sidecar;
  const victim = path.join(folder, "victim");
  writeFileSync(victim, "as it was");
  symlinkSync(victim, at("exec-result-link.json.tmp"));
  expect(await ask("link", "metalbridge --version")).toMatchObject({ exitCode: 0 });
  expect(readFileSync(victim, "utf8")).toBe("as it was");
  // The agent is another user.
  expect(statSync(at("exec-result-link.json")).mode & 0o777).toBe(0o644);
  execFileSync("mkfifo", [at("exec-result-pipe.json.tmp"), at("exec-request-pipe2.json")]);
  expect(await ask("pipe", "metalbridge delete chat")).toMatchObject({ exitCode: 126 });
});

test("a result that cannot be written is retried, and the sidecar serves the others", async () => {
  await using sidecar = await startSidecar();
  const { at, tools, program, write, read, ask } = sidecar;
  const claimed = (id: string) =>
    until(() => expect(existsSync(at(`.claim-${id}`))).toBe(true), { everyMs: 5 });
  const said = (what: RegExp) =>
    until(() => expect(program.stderr()).toMatch(what), { timeoutMs: 30_000, ended: program.ended });
  write("held", { command: "metalbridge --version" });
  await claimed("held");
  mkdirSync(at("exec-result-held.json"));
  await said(/request held: EISDIR/);
  expect(await ask("other", "metalbridge delete chat")).toMatchObject({ exitCode: 126 });
  rmSync(at("exec-result-held.json"), { recursive: true });
  expect(await read("held")).toMatchObject({ exitCode: 0 });
  // It looks for requests meanwhile.
  write("gone", { command: "metalbridge --version" });
  await claimed("gone");
  rmSync(tools, { recursive: true });
  await said(/request gone: ENOENT/);
  mkdirSync(tools);
  expect(await ask("later", "metalbridge delete chat")).toMatchObject({ exitCode: 126 });
});

test("the request of a sidecar that was killed is taken over, but not forever", async () => {
  await using sidecar = await startSidecar();
  const { at, write, read } = sidecar;
  const past = new Date(Date.now() - 60_000);
  const claimedBefore = (...names: readonly string[]) => {
    for (const name of names) {
      mkdirSync(at(name));
      utimesSync(at(name), past, past);
    }
  };
  claimedBefore(".claim-once", ".claim-thrice", ".claim-thrice~1", ".claim-thrice~2", ".claim-held");
  // Another sidecar of the pod is at work on this one.
  mkdirSync(at(".claim-held~1"));
  for (const id of ["held", "thrice", "once"]) write(id, { command: "metalbridge --version" });
  expect(await read("once")).toMatchObject({ exitCode: 0 });
  expect(await read("thrice")).toMatchObject({ exitCode: 126, stderr: expect.stringMatching(/3 times/) });
  expect(existsSync(at(".claim-once~1"))).toBe(true);
  expect(existsSync(at("exec-result-held.json"))).toBe(false);
});

test("arguments that no process takes get an answer", async () => {
  await using sidecar = await startSidecar();
  const argv = ["metalbridge", "describe", "a\0b"];
  expect(await sidecar.ask("nul", "", { argv })).toMatchObject({
    exitCode: 126,
    stderr: expect.stringContaining("null bytes"),
  });
});

test("files are found from the folder of the request, within the workspace", async () => {
  await using sidecar = await startSidecar();
  const { workspace, folder, ask } = sidecar;
  const [record = ""] = readFileSync(path.join(import.meta.dirname, "../catalog/models.jsonl"), "utf8").split(
    "\n",
  );
  const places = { top: workspace, inner: path.join(workspace, "a/b"), outside: path.join(folder, "out") };
  for (const [name, place] of Object.entries(places)) {
    mkdirSync(place, { recursive: true });
    writeFileSync(
      path.join(place, "own.jsonl"),
      `${JSON.stringify({ ...JSON.parse(record), name: `own/${name}` })}\n`,
    );
  }
  symlinkSync(places.outside, path.join(workspace, "away"));
  symlinkSync(places.inner, path.join(folder, "into"));
  const rows: readonly [workDir: string | undefined, found: string][] = [
    [undefined, "own/top"],
    [places.inner, "own/inner"],
    ["a/b", "own/inner"],
    [path.join(folder, "into"), "own/inner"],
    [places.outside, "own/top"],
    [`${workspace}/a/../../out`, "own/top"],
    [`${workspace}/away`, "own/top"],
    [`${workspace}/missing`, "own/top"],
    [`${workspace}/own.jsonl`, "own/top"],
  ];
  for (const [id, [workDir, found]] of rows.entries()) {
    const result = await ask(`${id}`, "metalbridge catalog search own/ --catalog own.jsonl", { workDir });
    expect(result.stdout, `${workDir}: ${result.stderr}`).toContain(found);
  }
});
