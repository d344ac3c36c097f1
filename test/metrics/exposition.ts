/** Reads Prometheus' text format strictly: what a scraper would forgive is an error here. */

export interface ParsedSample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

export interface ParsedFamily {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram" | "summary";
  readonly help: string;
  readonly samples: readonly ParsedSample[];
}

const METRIC_NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,(?!$)|$)/;
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|Inf)$|^NaN$/;
const TYPES: ReadonlySet<string> = new Set(["counter", "gauge", "histogram", "summary"]);

interface Open {
  readonly name: string;
  help: string | undefined;
  type: ParsedFamily["type"] | undefined;
  readonly samples: ParsedSample[];
}

/** Throws with the line that is wrong. */
export function parseExposition(text: string): ReadonlyMap<string, ParsedFamily> {
  if (!text.endsWith("\n")) throw new Error("the last line has no end");
  const families = new Map<string, Open>();
  const series = new Set<string>();
  let current: Open | undefined;
  for (const line of text.slice(0, -1).split("\n")) {
    if (line === "") continue;
    if (line.startsWith("#")) current = readComment(line, current, families);
    else current?.samples.push(readSample(line, current, series)) ?? fail(line, "a sample before any family");
  }
  return new Map([...families].map(([name, family]) => [name, finish(family)]));
}

function readComment(line: string, current: Open | undefined, families: Map<string, Open>): Open {
  const [, keyword, name = "", rest = ""] =
    /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? fail(line, "neither HELP nor TYPE");
  if (!METRIC_NAME.test(name)) fail(line, "a name that is none");
  if (current?.name !== name) {
    if (families.has(name)) fail(line, "a family that was there before");
    current = { name, help: undefined, type: undefined, samples: [] };
    families.set(name, current);
  }
  if (current.samples.length > 0) fail(line, "after the family's samples");
  if (keyword === "HELP") {
    if (current.help !== undefined) fail(line, "a second HELP");
    current.help = rest;
  } else {
    if (current.type !== undefined || !TYPES.has(rest)) fail(line, "a second or unknown TYPE");
    current.type = rest as ParsedFamily["type"];
  }
  return current;
}

function readSample(line: string, family: Open, series: Set<string>): ParsedSample {
  const [, name = "", , inner = "", value = ""] =
    /^([^\s{]+)(\{(.*)\})? (\S+)$/.exec(line) ??
    fail(line, "not a name, labels and a value (and no timestamp)");
  if (!METRIC_NAME.test(name) || !NUMBER.test(value)) fail(line, "a bad name or value");
  const labels = readLabels(inner, line);
  const suffixes =
    family.type === "histogram"
      ? ["_bucket", "_sum", "_count"]
      : family.type === "summary"
        ? ["", "_sum", "_count"]
        : [""];
  if (!suffixes.some((suffix) => name === family.name + suffix))
    fail(line, `not of the family ${family.name}`);
  const key = `${name}${JSON.stringify(Object.entries(labels).sort())}`;
  if (series.has(key)) fail(line, "the same series again");
  series.add(key);
  return {
    name,
    labels,
    value: value.endsWith("Inf") ? Number(`${value.startsWith("-") ? "-" : ""}Infinity`) : Number(value),
  };
}

function readLabels(text: string, line: string): Record<string, string> {
  const labels: Record<string, string> = {};
  for (let rest = text; rest !== ""; ) {
    const [whole, name = "", value = ""] = LABEL.exec(rest) ?? fail(line, `bad labels from ${rest}`);
    if (name in labels) fail(line, `the label ${name} twice`);
    labels[name] = value.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === "n" ? "\n" : escaped));
    rest = rest.slice(whole.length);
  }
  return labels;
}

function finish({ name, help, type, samples }: Open): ParsedFamily {
  if (help === undefined || type === undefined) throw new Error(`${name} lacks HELP or TYPE`);
  if (type === "histogram") checkHistogram(name, samples);
  if (type === "counter" && samples.some(({ value }) => !(value >= 0)))
    throw new Error(`${name} counts below zero`);
  return { name, help, type, samples };
}

/** Buckets grow, end in +Inf, and agree with the count. */
function checkHistogram(name: string, samples: readonly ParsedSample[]): void {
  const groups = groupBy(samples, ({ labels: { le: _, ...labels } }) =>
    JSON.stringify(Object.entries(labels).sort()),
  );
  for (const [labels, group] of groups) {
    const buckets = group.filter((sample) => sample.name === `${name}_bucket`);
    const bounds = buckets.map((sample) =>
      sample.labels.le === "+Inf" ? Number.POSITIVE_INFINITY : Number(sample.labels.le),
    );
    const count = group.find((sample) => sample.name === `${name}_count`)?.value;
    const isAscending = bounds.every(
      (bound, index) => index === 0 || bound > (bounds[index - 1] ?? Number.NaN),
    );
    const isGrowing = buckets.every(
      ({ value }, index) => index === 0 || value >= (buckets[index - 1]?.value ?? Number.NaN),
    );
    const isWhole = bounds.at(-1) === Number.POSITIVE_INFINITY && buckets.at(-1)?.value === count;
    const hasSum = group.some((sample) => sample.name === `${name}_sum`);
    if (!(isAscending && isGrowing && isWhole && hasSum)) throw new Error(`${name}${labels} is no histogram`);
  }
}

function groupBy(
  samples: readonly ParsedSample[],
  keyOf: (sample: ParsedSample) => string,
): ReadonlyMap<string, readonly ParsedSample[]> {
  const groups = new Map<string, ParsedSample[]>();
  for (const sample of samples) groups.set(keyOf(sample), [...(groups.get(keyOf(sample)) ?? []), sample]);
  return groups;
}

function fail(line: string, why: string): never {
  throw new Error(`${why}: ${line}`);
}
