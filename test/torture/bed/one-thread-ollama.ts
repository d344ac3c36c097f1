/** Ollama with one thread for each model, for the reason that engines of tests have one; it takes the number from /proc/cpuinfo. */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

/** A program that runs it where it sees one CPU; in `dir`. */
export function oneThreadOllama(program: string, dir: string): string {
  mkdirSync(dir, { recursive: true });
  const cpu = path.join(dir, "cpuinfo");
  const [first = ""] = readFileSync("/proc/cpuinfo", "utf8").split(/\n\n/);
  writeFileSync(cpu, `${first.replace(/^(cpu cores|siblings)(\s*): \d+/gm, "$1$2: 1")}\n\n`);
  const wrapper = path.join(dir, "ollama");
  const inside = `mount --bind ${cpu} /proc/cpuinfo && exec ${program} "$@"`;
  writeFileSync(wrapper, `#!/bin/sh\nexec unshare --mount sh -c '${inside}' sh "$@"\n`, { mode: 0o755 });
  return wrapper;
}
