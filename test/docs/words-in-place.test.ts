/** Words of one engine or one path stand in the folders of that engine or path; the lists of the others can only shrink. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { repositoryFiles, root } from "./pages.ts";

interface Word {
  readonly name: string;
  readonly pattern: RegExp;
  /** Folders and files that the word belongs to. */
  readonly homes: readonly string[];
  /** Files elsewhere that still have it, each with its reason. */
  readonly elsewhere: Readonly<Record<string, string>>;
}

/** Speaks of programs and backends by the names that llmfit gives them. */
const llmfit = "fitness/llmfit/";
/** Finds what other programs have on a machine. */
const installed = "agent/inventory/";
const registries = ["src/engines/registry.ts", "agent/engines/registry.ts"];

const words: readonly Word[] = [
  {
    name: "llama-server",
    pattern: /llama-?(server|cpp)/i,
    homes: [
      "src/engines/llamacpp/",
      "agent/engines/llamacpp/",
      ...registries,
      "src/api/",
      llmfit,
      installed,
      "local/",
      "cli/calibrate",
    ],
    elsewhere: {
      "cli/bench/speed.ts": "it reports its build at a path of its own",
      "cli/bench/stream.ts": "it adds its timings to an answer",
      "cli/selftest.ts": "the flag --llama-server",
      "cli/selftest/engine.ts": "serves a tiny model with it",
      "agent/engines/ollama/driver.ts": "Ollama's runners are llama.cpp, and fail with its words",
      "agent/engines/ollama/models.ts":
        "names llama.cpp's tool that merges files, and the runtime that needs none",
      "src/engines/ollama/claims.ts": "Ollama's runners make llama.cpp's buffers",
      "src/engines/ollama/pod.ts": "reads the same line of the log about layers on GPUs",
      "src/engines/ollama/settings.ts": "names the runtime that does what Ollama cannot",
      "fitness/density/views.ts": "names runtimes as the density API does",
      "fitness/scoring/claim.ts": "how much its KV cache grows with a token",
      "src/engines/omlx/claims.ts": "the sum of its claim is the one for llama-server, with other settings",
      "cli/agent.ts": "the flag --llama-server",
      "cli/doctor/engines.ts": "finds each engine as its driver does",
      "cli/engine.ts": "`metalbridge engine install llamacpp`",
      "cli/engine/programs.ts": "which programs the driver tries, in order",
      "cli/join.ts": "the key llamaServer, as the agent will have it",
      "launchd/engines/store.ts": "the folder and the program of an installed engine",
      "src/doctor/checks/storage.ts": "says how the weights are read",
      "cli/fit.ts": "takes the engine's settings as flags",
      "cli/fit/sizing.ts": "options for llama-server's claim",
      "cli/gguf.ts": "`metalbridge gguf` prints llama-server's claim",
      "cli/verbs.ts": "help texts of verbs about llama-server",
    },
  },
  {
    name: "Ollama",
    pattern: /ollama/i,
    homes: [
      "src/engines/ollama/",
      "agent/engines/ollama/",
      "src/hub/ollama/",
      "src/models/source/kinds/",
      ...registries,
      "src/api/",
      llmfit,
      installed,
    ],
    elsewhere: {
      "agent/node/config.ts": "a setting says where it answers on a node",
      "cli/node.ts": "the flag --ollama says where it answers",
      "agent/config/store-options.ts": "hands the registry of ollama:// sources to the store",
      "agent/config/schema.ts": "the key ollama holds its settings",
      "agent/gate/body/lists.ts": "compares names as Ollama does",
      "agent/gate/body/rewrite-model.ts": "reads requests of Ollama's API, a protocol that the gate passes",
      "src/engines/gated-routes.ts": "the registry of what the gate passes",
      "agent/gate/relay.ts": "sends a request again that Ollama could not look up",
      "agent/gate/route-server.ts": "passes requests of Ollama's API",
      "agent/gate/routes.ts": "names the protocols that the gate passes",
      "agent/store/store.ts": "hands the registry of ollama:// sources on",
      "agent/store/types.ts": "the registry of ollama:// sources is an option",
      "agent/store/volume.ts": "hands the registry of ollama:// sources on",
      "controller/models/source/classify.ts": "ollama:// is a kind of source",
      "controller/models/config.ts": "the registry of ollama:// sources is a setting",
      "cli/controller.ts": "the flag --ollama-registry",
      "cli/fetch.ts": "the flag --ollama-registry",
      "cli/gguf/read.ts": "ollama:// is a kind of source",
      "cli/agent.ts": "the flag --ollama names its programs",
      "fitness/catalog/weights.ts": "picks the weights for the runtime that a user names",
      "agent/replicas/prepare/fetch.ts":
        "a Model of Ollama's format that another registry serves is fetched as GGUF",
      "cli/deploy.ts": "ollama:// is a kind of source",
      "local/control-plane/config.ts": "the variable that names its program",
      "local/control-plane/engine-programs.ts": "finds its program for the demo",
      "local/demo/engine.ts": "the demo serves with it where it is asked to",
      "local/demo/source.ts": "ollama:// is a kind of source",
      "src/capacity/claim.ts": "ollama:// is a kind of source, whose projector its manifest names",
      "src/hub/inspect/inspect.ts": "hands the registry of ollama:// sources on",
      "src/models/source/parse.ts": "a model of the Ollama library is read by the host",
      "src/hub/oci/manifest.ts": "reads manifests of Ollama's layout",
      "src/hub/inspect/open.ts": "ollama:// is a kind of source",
      "controller/pods/workload/workload.ts": "hands the registry of ollama:// sources on",
      "src/engines/contract/pod.ts": "the registry of ollama:// sources is part of the input",
      "controller/pods/workload/contract.ts": "ollama:// is a kind of source",
      "controller/pods/workload/cache-eligibility.ts": "ollama:// is a kind of source",
      "controller/pods/workload/model-cache.ts": "download Jobs may reach the registry of ollama:// sources",
    },
  },
  {
    name: "oMLX",
    pattern: /omlx/i,
    homes: ["src/engines/omlx/", "agent/engines/omlx/", ...registries, "src/api/", llmfit, installed],
    elsewhere: {
      "src/engines/gated-routes.ts": "lists the routes of each shared server",
    },
  },
  {
    name: "metal",
    pattern: /\bmetal\b/i,
    homes: [
      llmfit,
      "controller/hosts/",
      "src/macos/",
      "src/engines/",
      "agent/engines/llamacpp/",
      ...registries,
      "src/api/",
      "cli/calibrate",
    ],
    elsewhere: {
      "cli/selftest/engine.ts": "the claim on the backend that the engine has here",
      "agent/config/schema.ts": "explains when calibration is absent",
      "cli/fit/target.ts": "`metalbridge fit SOURCE` asks about hosts",
      "cli/fit/llmfit.ts": "a backend, as llmfit calls it",
      "src/capacity/placement/budget.ts": "the table of Metal's default limits",
      "src/capacity/runs-on.ts": "a Model for Metal can use the CPU of a node",
      "src/console/rows.ts": "the backend of a machine, as the console shows it",
    },
  },
];

const product = repositoryFiles("src", "fitness", "agent", "controller", "launchd", "local", "cli").filter(
  (file) => file.endsWith(".ts") && !/\.test\.ts$|\/(testing|fixtures|golden)\//.test(file),
);

test.each(words)("product code says $name only where it belongs", ({ pattern, homes, elsewhere }) => {
  const found = product.filter(
    (file) =>
      !homes.some((home) => file.startsWith(home)) &&
      pattern.test(readFileSync(path.join(root, file), "utf8")),
  );
  expect(found).toEqual(Object.keys(elsewhere).sort());
});

test("each exception has a reason", () => {
  const reasons = words.flatMap(({ elsewhere }) => Object.values(elsewhere));
  expect(reasons.filter((reason) => reason.length < 20)).toEqual([]);
});
