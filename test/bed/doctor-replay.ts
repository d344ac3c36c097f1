/** The tools that doctor asks, as one recorded machine answers: `tools.yaml` of its folder beside the files of replay.ts. */
import { chmod, readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { parse } from "yaml";
import { type Replay, startReplay } from "./replay.ts";

interface Answer {
  readonly stdout?: string;
  readonly stderr?: string;
  readonly code?: number;
}

/** `changes` replaces answers by command line; both keys and changes may end in `*`. */
export async function startDoctorReplay(
  machine: string,
  changes: Readonly<Record<string, string | Answer>> = {},
): Promise<Replay> {
  const replay = await startReplay(machine);
  const [bin = ""] = replay.path.split(":");
  const file = resolve(import.meta.dirname, "..", "macos", machine, "tools.yaml");
  const recorded = parse(await readFile(file, "utf8")) as Record<string, string | Answer>;
  const byProgram = new Map<string, string[]>();
  for (const [line, answer] of Object.entries({ ...changes, ...without(recorded, changes) })) {
    const [program = "", ...args] = line.split(" ");
    const cases = byProgram.get(program) ?? [];
    cases.push(`${pattern(args.join(" "))}) ${body(answer)} ;;`);
    byProgram.set(program, cases);
  }
  for (const [program, cases] of byProgram) {
    const script = `#!/bin/sh\ncase "$*" in\n${cases.join("\n")}\n*) exit 64 ;;\nesac\n`;
    // Everything else that a shell is asked for is a real question.
    const text = program === "sh" ? script.replace("*) exit 64", '*) exec /bin/sh "$@"') : script;
    await writeFile(join(bin, program), text);
    await chmod(join(bin, program), 0o755);
  }
  return replay;
}

function without<T>(all: Readonly<Record<string, T>>, keys: object): Record<string, T> {
  return Object.fromEntries(Object.entries(all).filter(([key]) => !(key in keys)));
}

function pattern(args: string): string {
  return args.endsWith("*") ? `${quoted(args.slice(0, -1))}*` : quoted(args);
}

function body(answer: string | Answer): string {
  const { stdout = "", stderr = "", code = 0 } = typeof answer === "string" ? { stdout: answer } : answer;
  return `printf '%s\\n' ${quoted(stdout)}; printf '%s' ${quoted(stderr)} >&2; exit ${code}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
