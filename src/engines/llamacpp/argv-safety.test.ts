/** What must not get into a command line, or not without being asked for. */
import fc from "fast-check";
import { expect, it } from "vitest";
import type { EngineSettings } from "../../api/engine-settings.ts";
import { ALLOWED_FLAGS } from "./allowed-flags.ts";
import { buildArgv } from "./argv.ts";
import { checkExtraArgs } from "./extra-args.ts";
import { PINNED } from "./pinned.ts";

function build(settings: Partial<EngineSettings>) {
  const input = { modelPath: "/m.gguf", hosts: ["127.0.0.1"], port: 21000, aliases: ["chat"] };
  return buildArgv({ ...input, settings: { mode: "chat", ...settings } }, PINNED);
}

it("origins are those of this machine, unless the user names others", () => {
  const origins = (extraArgs: string[]) =>
    build({ extraArgs }).argv.flatMap((word, index, all) =>
      word === "--cors-origins" ? [all[index + 1]] : [],
    );
  expect(origins([])).toEqual(["localhost"]);
  // As a value it says nothing about origins.
  expect(origins(["--grammar", "--cors-origins"])).toEqual(["localhost", undefined]);
  expect(origins(["--cors-origins", "https://a.example"])).toEqual(["https://a.example"]);
  expect(origins(["--cors_origins", "*"])).toEqual(["*"]);
});

it.each<Partial<EngineSettings>>([
  { extraArgs: ["--chat-template", "a\0b"] },
  { reasoningBudget: 1, reasoningBudgetMessage: "a\0b" },
  { metadataOverrides: ["a=str:\0"] },
  { tensorOverrides: ["\0=CPU"] },
])("a NUL is refused: %j", (settings) => {
  expect(build(settings).problems).toEqual([
    { field: "engine", code: "SettingNotSupported", why: expect.stringContaining("NUL") },
  ]);
});

it.each([
  ["-m=/etc/passwd"],
  ["--model=/etc/passwd"],
  ["--mod", "/x"],
  ["--models", "/x"],
  ["-lora", "/x"],
  ["--lora_scaled", "/x:1"],
  ["LLAMA_ARG_MODEL=/x"],
  ["@/etc/passwd"],
  ["--temp\n--host", "0"],
  [" --host", "0.0.0.0"],
  ["--temp", "0", "--", "--host", "0.0.0.0"],
  ["--Host", "0.0.0.0"],
  ["\u2013-host", "0.0.0.0"],
  ["--log_file", "/x"],
  ["--api_key_file", "/x"],
  ["--ssl-key-file", "/x"],
  ["--tools", "all"],
  ["--mcp-servers-json", "{}"],
  ["-hf", "a/b"],
])("%j is refused", (...extraArgs) => {
  const { argv, problems } = build({ extraArgs });
  expect(problems.length).toBeGreaterThan(0);
  expect(problems.every(({ code }) => code === "ExtraArgRefused")).toBe(true);
  const plain = build({}).argv.filter((word) => !["--cors-origins", "localhost"].includes(word));
  expect(argv.filter((word) => !plain.includes(word)).join(" ")).toMatch(
    /^(--temp 0 )?--cors-origins localhost( --temp 0)?$/,
  );
});

/** Every spelling of the allowed numbers of threads. */
const THREADS = [...ALLOWED_FLAGS]
  .filter((flag) => flag.startsWith("--threads"))
  .flatMap((flag) => PINNED.flags.get(flag)?.names ?? [])
  .flatMap((name) => [...new Set([name, name.replace(/(?<=\w)-/g, "_")])]);

it.each(THREADS)("%s is held to what a machine can have", (flag) => {
  expect(build({ extraArgs: [flag, "16"] }).problems).toEqual([]);
  expect(build({ extraArgs: [flag, "-1"] }).problems).toEqual([]);
  for (const value of ["100000", "513", "0x7fffffff", "99999999999"])
    expect(build({ extraArgs: [flag, value] }).problems).toEqual([
      { field: "extraArgs", code: "ExtraArgRefused", why: expect.stringContaining("at most 512 threads") },
    ]);
});

it("an integer is refused as a number of threads exactly where it is above 512", () => {
  const flag = fc.constantFrom(...THREADS);
  const count = fc.oneof(fc.integer({ min: 500, max: 525 }), fc.integer({ min: -1, max: 512 }), fc.nat());
  fc.assert(
    fc.property(flag, count, (name, threads) => {
      const { problems } = build({ extraArgs: [name, String(threads)] });
      expect(problems.map(({ code }) => code)).toEqual(threads > 512 ? ["ExtraArgRefused"] : []);
    }),
  );
});

it("whatever extraArgs hold, the engine reads allowed flags with one value each, and no other word", () => {
  const flag = fc.constantFrom(...PINNED.flags.keys());
  const word = fc.oneof(
    flag,
    flag.map((name) => name.replaceAll("-", "_").replace(/^__/, "--")),
    flag.map((name) => `${name}=x`),
    flag.map((name) => name.toUpperCase()),
    fc.constantFrom("0", "512", "513", "/etc/passwd", "--", "-", "x", "\u2013\u2013host"),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(word, { maxLength: 12 }), (extraArgs) => {
      const { argv } = checkExtraArgs(extraArgs, PINNED);
      for (let index = 0; index < argv.length; index += 1) {
        const found = PINNED.flags.get(argv[index] ?? "");
        expect(found?.names.some((name) => ALLOWED_FLAGS.has(name))).toBe(true);
        if (found?.value === undefined) continue;
        index += 1;
        expect(index).toBeLessThan(argv.length);
        if (found.names.some((name) => name.startsWith("--threads")))
          expect(Number(argv[index])).toBeLessThanOrEqual(512);
      }
    }),
    { numRuns: 1_000 },
  );
});
