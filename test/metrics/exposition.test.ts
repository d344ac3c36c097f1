import { expect, test } from "vitest";
import { problemsOf } from "./conventions.ts";
import { parseExposition } from "./exposition.ts";

const GOOD = `# HELP a_total It counts.
# TYPE a_total counter
a_total{x="1",y="a\\"b\\\\c\\nd"} 3
a_total{x="2",y=""} 4.5e+3

# HELP b_seconds Times.
# TYPE b_seconds histogram
b_seconds_bucket{le="0.5"} 1
b_seconds_bucket{le="+Inf"} 2
b_seconds_sum 3
b_seconds_count 2
`;

test("what is right is read", () => {
  const families = parseExposition(GOOD);
  expect([...families.keys()]).toEqual(["a_total", "b_seconds"]);
  expect(families.get("a_total")?.samples).toEqual([
    { name: "a_total", labels: { x: "1", y: 'a"b\\c\nd' }, value: 3 },
    { name: "a_total", labels: { x: "2", y: "" }, value: 4500 },
  ]);
});

test.each([
  ["no end", GOOD.slice(0, -1), "no end"],
  ["a sample without a family", "a 1\n", "before any family"],
  ["a sample of another family", GOOD.replace('a_total{x="2"', 'c_total{x="2"'), "not of the family"],
  ["a series twice", GOOD.replace('x="2",y=""} 4.5e+3', 'y="a\\"b\\\\c\\nd",x="1"} 1'), "same series"],
  ["a family twice", `${GOOD}# HELP a_total Again.\n# TYPE a_total counter\na_total 1\n`, "there before"],
  ["a label twice", GOOD.replace('x="2",y=""', 'x="2",x="3"'), "twice"],
  ["a comma too many", GOOD.replace('x="2",y=""', 'x="2",'), "bad labels"],
  ["an open string", GOOD.replace('x="2",y=""', 'x="2"y=""'), "bad labels"],
  ["a time stamp", GOOD.replace("4.5e+3", "4 1700000000"), "no timestamp"],
  ["a value that is none", GOOD.replace("4.5e+3", "many"), "bad name or value"],
  ["no help", GOOD.replace("# HELP a_total It counts.\n", ""), "lacks HELP"],
  ["no type", GOOD.replace("# TYPE a_total counter\n", ""), "lacks HELP or TYPE"],
  ["an unknown type", GOOD.replace("a_total counter", "a_total thing"), "unknown TYPE"],
  ["another comment", `# hello\n${GOOD}`, "neither HELP nor TYPE"],
  ["a counter below zero", GOOD.replace("4.5e+3", "-1"), "below zero"],
  ["buckets that shrink", GOOD.replace('le="0.5"} 1', 'le="0.5"} 3'), "no histogram"],
  ["no last bucket", GOOD.replace('b_seconds_bucket{le="+Inf"} 2\n', ""), "no histogram"],
  ["a count of its own", GOOD.replace("b_seconds_count 2", "b_seconds_count 5"), "no histogram"],
])("%s is an error", (_name, text, why) => {
  expect(() => parseExposition(text)).toThrow(why);
});

test.each([
  ["metalbridge_agent_things", "counter", "only counters end in _total"],
  ["metalbridge_agent_things_total", "gauge", "only counters end in _total"],
  ["metalbridge_agent_wait_ms", "gauge", "another unit"],
  ["metalbridge_agent_wait_duration", "histogram", "no unit"],
  ["things_total", "counter", "known subsystems"],
] as const)("%s as a %s is against the conventions", (name, type, why) => {
  expect(problemsOf({ name, type, help: "This says what it is." }).join()).toContain(why);
});

test("a help text is a sentence", () => {
  const family = { name: "metalbridge_agent_watch_age_seconds", type: "gauge" } as const;
  expect(problemsOf({ ...family, help: "Time since the last sign of life." })).toEqual([]);
  expect(problemsOf({ ...family, help: "watch age" }).join()).toContain("sentence");
});
