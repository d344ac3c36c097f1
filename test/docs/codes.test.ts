/** Codes, phases, kinds and conditions that the pages name exist; so do configuration keys, fields and variables. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { z } from "zod";
import { agentConfigSchema } from "../../agent/config/schema.ts";
import { configureAgent } from "../../cli/agent.ts";
import { configureController } from "../../cli/controller.ts";
import { controllerConfigSchema } from "../../controller/config.ts";
import { AGENT_KEYS, configKeys, flagsByKey } from "../../scripts/generate/configuration.ts";
import { environmentVariables } from "../../scripts/generate/environment.ts";
import { customResourceDefinitions } from "../../src/api/crd/definitions.ts";
import { errorCatalog } from "../../src/api/errors.ts";
import { allPages, inlineCode, type Page, repositoryFiles, root } from "./pages.ts";

/** Words of others: Kubernetes' kinds and settings, launchd's keys, attributes of cookies. */
const FOREIGN = new Set(
  (
    "ClusterIP ControllerRevision Deployment EndpointSlice Event Job Lease Namespace NodeRestriction Role " +
    "RoleBinding Secret Service ServiceAccount PodMonitor HPA NetworkPolicy ValidatingAdmissionPolicy " +
    "AbandonProcessGroup ExitTimeOut KeepAlive ProcessType Interactive RunAtLoad Authorization KillMode OOMPolicy TimeoutStopSec UserName Label SchedulingGated HttpOnly SameSite"
  ).split(" "),
);

const readers = allPages().filter(({ path: file }) => /^(README|docs\/[^/]+|examples\/.*)\.md$/.test(file));
const sources = repositoryFiles("src/**/*.ts", "agent/**/*.ts", "controller/**/*.ts").filter(
  (file) => !file.endsWith(".test.ts"),
);
/** Condition types and reasons stand in the code as plain strings. */
const wordsOfTheCode = new Set(
  sources.flatMap((file) =>
    [...readFileSync(path.join(root, file), "utf8").matchAll(/"([A-Z][A-Za-z0-9]+)"/g)].map(
      ([, word]) => word ?? "",
    ),
  ),
);
const wordsOfTheApi = new Set(
  [...JSON.stringify(customResourceDefinitions()).matchAll(/"([A-Za-z0-9]+)"/g)].map(
    ([, word]) => word ?? "",
  ),
);

function unknownWords(page: Page): readonly string[] {
  const words = inlineCode(page).flatMap(
    (code) => /^([A-Z][a-z]+(?:[A-Z][A-Za-z]*)+)\b/.exec(code)?.[1] ?? [],
  );
  return words.filter(
    (word) =>
      !(word in errorCatalog || FOREIGN.has(word) || wordsOfTheApi.has(word) || wordsOfTheCode.has(word)),
  );
}

test.for(readers)("$path: every code, phase and condition exists", (page) => {
  expect(unknownWords(page)).toEqual([]);
});

test("a code that does not exist is noticed", () => {
  const page: Page = { path: "x.md", text: "", blocks: [], prose: "`HostNotHere` and `HostNotRegistered`" };
  expect(unknownWords(page)).toEqual(["HostNotHere"]);
});

test.for(readers)("$path: every field that is named with spec or status exists", (page) => {
  const fields = inlineCode(page).flatMap(
    (code) =>
      /^(?:[A-Z][A-Za-z]+\.)?(?:spec|status)\.([A-Za-z.[\]]+)$/.exec(code)?.[1]?.split(/[.[\]]+/) ?? [],
  );
  expect(fields.filter((field) => field !== "" && !wordsOfTheApi.has(field))).toEqual([]);
});

test("every key of the configurations says what it means", () => {
  const keys = [...configKeys(agentConfigSchema), ...configKeys(controllerConfigSchema)];
  expect(keys.filter(({ schema }) => (schema.description ?? "").length < 10).map(({ key }) => key)).toEqual(
    [],
  );
});

test("every flag of the agent and the controller is a key, or is known not to be one", () => {
  const agentKeys = new Set(configKeys(agentConfigSchema).map(({ key }) => key));
  const agentFlags = [...flagsByKey(configureAgent, AGENT_KEYS).keys()];
  expect(agentFlags.filter((key) => !agentKeys.has(key))).toEqual(["config"]);
  const controllerKeys = new Set(configKeys(controllerConfigSchema).map(({ key }) => key));
  const controllerFlags = [...flagsByKey(configureController).keys()];
  const others = ["logLevel", "dryRun", "catalog"];
  expect(controllerFlags.filter((key) => !controllerKeys.has(key))).toEqual(others);
});

test("every environment variable that is documented is read somewhere", () => {
  const code = [...sources, ...repositoryFiles("cli/**/*.ts", "cli/*.mjs", "scripts/*.mjs")]
    .map((file) => readFileSync(path.join(root, file), "utf8"))
    .join("\n");
  expect(environmentVariables.filter(({ name }) => !code.includes(name)).map(({ name }) => name)).toEqual([]);
});

test("configuration files in the pages are valid", () => {
  const machine = { hostName: "here", stateDir: "/state", platform: "linux" };
  const files = readers.flatMap(({ path: file, blocks }) =>
    blocks
      .filter(({ language, text }) => language === "yaml" && !text.includes("apiVersion:"))
      .map(({ text, line }) => ({ where: `${file}:${line}`, settings: parse(text) as object })),
  );
  expect(files.length).toBeGreaterThan(1);
  for (const { where, settings } of files) {
    const parsed = agentConfigSchema.safeParse({ ...machine, ...settings });
    expect(parsed.success ? [] : z.prettifyError(parsed.error), where).toEqual([]);
  }
});
