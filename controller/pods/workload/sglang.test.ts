/** SGLang takes its API key as an argument only: what other processes of the node can see of it. */
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/temporary-folder.ts";
import { inputOf } from "./fixtures/workload-input.ts";
import { buildWorkload } from "./workload.ts";

/** In place of the server: what it and a process that it spawns are given, and what /proc shows of both. */
const SERVER = `
import json, multiprocessing, sys

def look(queue):
    queue.put(open("/proc/self/cmdline").read())

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=look, args=(queue,))
    child.start()
    shown = [open("/proc/self/cmdline").read(), queue.get()]
    child.join()
    print(json.dumps({"argv": sys.argv[1:], "shown": shown, "exit": child.exitcode}))
`;

const SECRET = "-sk $(HOME) 'x'";

test.each([true, false])("the key is in no argument that /proc shows (auth: %s)", async (hasAuth) => {
  await using folder = await temporaryFolder();
  mkdirSync(path.join(folder.path, "sglang"));
  writeFileSync(path.join(folder.path, "sglang/__init__.py"), "");
  writeFileSync(path.join(folder.path, "sglang/launch_server.py"), SERVER);
  const { deployment } = buildWorkload(
    inputOf({
      runtime: "sglang",
      service: hasAuth ? { auth: { secretRef: { name: "keys" } } } : {},
      model: { source: "hf://org/m", format: "safetensors", hardware: { accelerator: "cuda" } },
    }),
  );
  const [engine] = deployment.spec.template.spec.containers;
  const [program = "", ...command] = engine?.command ?? [];
  const text = execFileSync(program, [...command, ...(engine?.args ?? [])], {
    cwd: folder.path,
    encoding: "utf8",
    env: { PATH: process.env.PATH, PYTHONPATH: folder.path, SGLANG_API_KEY: SECRET },
  });
  const { argv, shown, exit } = JSON.parse(text);
  expect(argv).toEqual([...(engine?.args ?? []), ...(hasAuth ? [`--api-key=${SECRET}`] : [])]);
  expect(shown).toHaveLength(2);
  expect(shown.join()).not.toContain(SECRET);
  expect(exit).toBe(0);
});
