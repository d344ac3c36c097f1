import path from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { findWords } from "./find.ts";
import { wordRules } from "./rules.ts";
import { findInTree } from "./tree.ts";

const phrases = [
  "it is retried by itself",
  "they stop by themselves",
  "its replicas are placed anew",
  "it hangs for ever",
  "it starts afresh",
  "nobody wants it",
  "somebody killed it",
  "the drain goes on",
  "the agent tells the controller",
  "it is looked at again",
  "for want of memory",
  "a batch service makes way",
  "which hosts come into question",
  "it is tried again",
  "after so long",
  "the deadline is over",
  "the engine has ended",
  "the engine is to end",
  "the catalogue of errors",
  "MOST_BYTES",
  "LEAST_BYTES",
  "the keeper holds the FIFO",
  "a hopeless failure",
  "the memory ledger",
  "two waiters",
  "what its sayings are",
  "one glance",
  "a host that comes and goes",
  "given up as lost",
  "it takes the place of another",
  "asked in vain",
  "a counter stands still",
  "two requests in work",
  "objects of the Linux path",
  "const colour = 1",
  "a labelled object",
  "Whether the disk is full.",
  "Of each request.",
  "whoever opens it",
  "onTrouble: report",
  "givenUp.add(name)",
  "countAfresh()",
  "lookAt(pid)",
  "whereItListens(host)",
  "whyFailed(pod)",
  "tellDemands(world)",
  "untilGone(process)",
  "stopAskedAt",
  "wishOf(replica)",
  "patienceMs",
  "startGiver()",
];

test.each(phrases)("the word list finds: %s", (phrase) => {
  expect(findWords("agent/a.ts", `// fine\n// ${phrase}\n`)).toEqual([
    { line: 2, message: expect.stringMatching(/^".+": write .+/) },
  ]);
});

test("a word that is forbidden in some folders only is allowed elsewhere", () => {
  expect(findWords("controller/scheduler/a.ts", "the board")).toHaveLength(1);
  expect(findWords("agent/a.ts", "the board")).toEqual([]);
});

test("a word that is forbidden in the product only is allowed in tests", () => {
  expect(findWords("agent/a.ts", "untilGone(process)")).toHaveLength(1);
  for (const path of ["agent/a.test.ts", "agent/fixtures/a.ts", "test/bed/a.ts"])
    expect(findWords(path, "untilGone(process)")).toEqual([]);
});

test.each(["LINUX_ONLY", "onMetal()", "inLinux", '"metal" | "linux"'])(
  "%s is no name for hosts or pods in the controller",
  (name) => {
    expect(findWords("src/capacity/a.ts", name)).toHaveLength(1);
    expect(findWords("agent/host/linux/a.ts", name)).toEqual([]);
  },
);

const settledPhrases = [
  "the answer, without a body",
  "figuresOf(samples)",
  "the wanted tree",
  "a farm of Macs",
  "the reason of the rejection",
];

test.each(settledPhrases)("the word list finds, in the rooms that are settled: %s", (phrase) => {
  expect(findWords("src/a.ts", `// ${phrase}`)).toHaveLength(1);
  expect(findWords("agent/a.ts", `// ${phrase}`)).toEqual([]);
  expect(findWords("src/a.test.ts", `// ${phrase}`)).toEqual([]);
});

test.each(["the server answers 404", "configures", "`prefetch.wanted`", "an unhandled rejection"])(
  "the word list allows: %s",
  (phrase) => {
    expect(findWords("src/a.ts", `// ${phrase}`)).toEqual([]);
  },
);

test("a doc comment in a settled room begins with a noun or a verb", () => {
  expect(findWords("src/a.ts", "/** What a host reports. */")).toHaveLength(1);
  expect(findWords("src/a.ts", "/** Reports what a host has. */")).toEqual([]);
});

test("every rule is shown by a phrase", () => {
  const shown = [
    ...phrases,
    ...settledPhrases,
    "What a host reports",
    "the board",
    "PODS_ONLY, not LINUX_ONLY",
  ];
  expect(
    wordRules.filter(
      ({ pattern }) => !shown.some((phrase) => pattern.test(`// ${phrase}`) || pattern.test(`/** ${phrase}`)),
    ),
  ).toEqual([]);
});

test.each([
  ["on the same line", "nobody // words-allow: the Unix user of that name\n"],
  ["on the line above", "// words-allow: the Unix user of that name\nnobody\n"],
  ["in Markdown", "nobody <!-- words-allow: the Unix user of that name -->\n"],
])("a waiver with a reason %s covers the finding", (_, text) => {
  expect(findWords("a.ts", text)).toEqual([]);
});

test("a waiver covers the next line only if it stands alone", () => {
  const text = "nobody // words-allow: the Unix user of that name\nnobody\n";
  expect(findWords("a.ts", text).map(({ line }) => line)).toEqual([2]);
});

test("a waiver without a reason is a finding", () => {
  expect(findWords("a.ts", "nobody // words-allow:\n")).toEqual([
    { line: 1, message: "a waiver needs a reason: words-allow: REASON" },
  ]);
});

test("a waiver that covers nothing is a finding", () => {
  expect(findWords("a.ts", "// words-allow: the Unix user of that name\nroot\n")).toEqual([
    { line: 1, message: "nothing to waive here: remove words-allow" },
  ]);
});

test("no file of the repository holds a word of the list", () => {
  const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
  expect(findInTree(root)).toEqual([]);
});
