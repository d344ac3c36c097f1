/** ansible-core for the test that runs the example role on real hosts. */
import { join } from "node:path";
import { cacheDir } from "./cache.mjs";
import { ensurePythonProgram, findPythonProgram } from "./python-venv.mjs";

const VERSION = "2.19.14";

export function ensureAnsible({ progress, env = process.env }) {
  return ensurePythonProgram(ansible(env), { progress, env });
}

export function findAnsible(env = process.env) {
  return findPythonProgram(ansible(env), env);
}

function ansible(env) {
  return {
    name: "ansible-core",
    program: "ansible-playbook",
    check: "--version",
    packages: [`ansible-core==${VERSION}`],
    folder: join(cacheDir(env), "ansible", VERSION),
    skipped: "the test of the example role is skipped",
  };
}
