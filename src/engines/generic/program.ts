/** The command of a native program: read from a service, checked, and rendered for one start. */

import type { BackendRuntimeSpec } from "../../api/backend-runtime.ts";
import { MetalbridgeError } from "../../api/errors.ts";
import {
  KNOWN_PLACEHOLDERS,
  PLACEHOLDERS,
  type Placeholder,
  withoutAliases,
} from "../../api/fields/placeholders.ts";
import { type ProgramCheck, type ProgramSpec, programSchema } from "../../api/fields/program.ts";
import { parseQuantity, type Quantity } from "../../api/fields/quantity.ts";
import type { InferenceServiceSpec } from "../../api/inference-service/index.ts";
import { modelNamesOf } from "../../api/inference-service/roles.ts";
import { knownName } from "./known-programs.ts";

/** Reasons why a placeholder has no value, for placeholders that are not named after a field. */
const WITHOUT_VALUE: Partial<Record<Placeholder, string>> = {
  draftModel: "the service has no draft model",
};

const ANY_PLACEHOLDER = /\{\{([^{}]*)\}\}/g;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** Throws `CommandInvalid` with every problem in one message. `host` is that of the BackendRuntime that the service names. */
export function toProgram(spec: InferenceServiceSpec, host?: BackendRuntimeSpec["host"]): ProgramSpec {
  const { command = [], args = [], env = [], probeOverrides: probes, inFlightProbe, resources, tty } = spec;
  const liveness = checkOf(probes?.liveness);
  const readiness = checkOf(probes?.readiness);
  const given = {
    command: [...command, ...args].map(withoutAliases),
    env: env.map(({ name, value = "" }) => ({ name, value: withoutAliases(String(value)) })),
    tty: tty === true ? tty : undefined,
    liveness,
    readiness,
    inFlightProbe,
    memoryBytes: bytesOf(resources?.memory ?? host?.memory?.fixed),
    memoryFormula: formulaOf(host),
    backend: spec.backendRuntime?.name,
  };
  const problems = [
    ...(command.length === 0 ? ["spec.command is empty: it names the program on the host"] : []),
    ...env.flatMap((variable, index) =>
      "valueFrom" in variable ? [`spec.env[${index}].valueFrom is not read on hosts: set value`] : [],
    ),
  ];
  const parsed = programSchema.safeParse(given);
  if (!parsed.success && problems.length === 0) {
    problems.push(...parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`));
  }
  if (parsed.success) problems.push(...problemsOf(parsed.data));
  if (parsed.success && modelNamesOf(spec).draft === undefined && usesPlaceholder(parsed.data, "draftModel"))
    problems.push(withoutValue("draftModel"));
  if (parsed.success && problems.length === 0) return parsed.data;
  throw new MetalbridgeError("CommandInvalid", problems.join("; "));
}

function bytesOf(quantity: Quantity | undefined): number | undefined {
  return quantity === undefined ? undefined : parseQuantity(quantity);
}

function formulaOf(host: BackendRuntimeSpec["host"]): ProgramSpec["memoryFormula"] {
  const { weightsPercent, extra } = host?.memory ?? {};
  return weightsPercent === undefined ? undefined : { weightsPercent, extraBytes: bytesOf(extra) ?? 0 };
}

/** The handler of a Kubernetes probe: {} for a TCP connection, undefined if the probe has no handler. */
function checkOf(probe: Readonly<Record<string, unknown>> | undefined): unknown {
  const { httpGet, exec, tcpSocket } = (probe ?? {}) as Record<string, Record<string, unknown> | undefined>;
  if (httpGet !== undefined) return { httpPath: httpGet.path ?? "/" };
  if (exec !== undefined)
    return {
      exec: Array.isArray(exec.command) ? exec.command.map((text) => withoutAliases(String(text))) : [],
    };
  return tcpSocket === undefined ? undefined : {};
}

function problemsOf(program: ProgramSpec): string[] {
  const { command, env, liveness, readiness, backend } = program;
  const texts = [...command, ...env.map(({ value }) => value)];
  // A host finds known programs, and those of a BackendRuntime, by name.
  const own = knownName(program) === undefined && backend === undefined ? command[0] : undefined;
  const programs = [own, liveness.exec?.[0], readiness?.exec?.[0]];
  return [
    ...programs.flatMap((path) =>
      path === undefined || path.startsWith("/") ? [] : [`${path} is not an absolute path`],
    ),
    ...env.flatMap(({ name }) =>
      VARIABLE.test(name) ? [] : [`spec.env: ${JSON.stringify(name)} is not a variable's name`],
    ),
    ...[...texts, ...(liveness.exec ?? []), ...(readiness?.exec ?? [])].flatMap(unknownIn),
    ...(texts.some((text) => text.includes("{{port}}"))
      ? []
      : ["neither spec.command, spec.args nor spec.env holds {{port}}, so clients could not reach it"]),
  ];
}

function unknownIn(text: string): string[] {
  return [...text.matchAll(ANY_PLACEHOLDER)]
    .filter(([, name = ""]) => !isPlaceholder(name))
    .map(([whole]) => `${whole} is not a placeholder; known: ${KNOWN_PLACEHOLDERS}`);
}

function withoutValue(name: Placeholder, otherwise = `set ${name}`): string {
  return `{{${name}}} has no value: ${WITHOUT_VALUE[name] ?? otherwise}`;
}

function isPlaceholder(name: string): name is Placeholder {
  return PLACEHOLDERS.some((known) => known === name);
}

export function usesPlaceholder(
  { command, env }: Pick<ProgramSpec, "command" | "env">,
  name: Placeholder,
): boolean {
  return [...command, ...env.map(({ value }) => value)].some((text) => text.includes(`{{${name}}}`));
}

/** Renders the program for a start. All placeholders are replaced, and inserted values are not parsed again. Throws `CommandInvalid`. */
export function renderProgram(
  program: ProgramSpec,
  values: Readonly<Record<Placeholder, string | undefined>>,
): ProgramSpec {
  const missing = PLACEHOLDERS.filter((name) => values[name] === undefined && usesPlaceholder(program, name));
  const problems = [...problemsOf(program), ...missing.map((name) => withoutValue(name))];
  if (problems.length > 0) throw new MetalbridgeError("CommandInvalid", problems.join("; "));
  const render = (text: string) => substitute(text, values);
  const check = ({ exec, ...rest }: ProgramCheck): ProgramCheck =>
    exec === undefined ? rest : { exec: exec.map(render) };
  return {
    ...program,
    command: program.command.map(render),
    env: program.env.map(({ name, value }) => ({ name, value: render(value) })),
    liveness: check(program.liveness),
    ...(program.readiness === undefined ? {} : { readiness: check(program.readiness) }),
  };
}

function substitute(text: string, values: Readonly<Record<Placeholder, string | undefined>>): string {
  return text.replace(ANY_PLACEHOLDER, (whole, name: string) =>
    isPlaceholder(name) ? (values[name] ?? whole) : whole,
  );
}

/** Checks and renders a text of a container. Throws `CommandInvalid`. */
export function fillPlaceholders(
  text: string,
  values: Readonly<Record<Placeholder, string | undefined>>,
): string {
  const named = withoutAliases(text);
  const missing = PLACEHOLDERS.find((name) => values[name] === undefined && named.includes(`{{${name}}}`));
  const problems = [
    ...unknownIn(named),
    ...(missing === undefined ? [] : [withoutValue(missing, "no weights are on a volume")]),
  ];
  if (problems.length > 0) throw new MetalbridgeError("CommandInvalid", problems.join("; "));
  return substitute(named, values);
}

/** Number of requests in flight; undefined if a gauge is missing or not a number, which must not count as idle. */
export function sumGauges(metricsText: string, names: readonly string[]): number | undefined {
  const gauges = createGauges(names);
  for (const line of metricsText.split("\n")) gauges.add(line);
  return gauges.sum();
}

/** Same for a text that is read line by line, without storing the text. */
export function createGauges(names: readonly string[]) {
  const sums = new Map<string, number>();
  return {
    add: (line: string): void => {
      const [, name = "", value] = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{.*\})?\s+(\S+)/.exec(line) ?? [];
      if (names.includes(name)) sums.set(name, (sums.get(name) ?? 0) + Number(value));
    },
    /** Undefined if one of the names is missing. */
    sum: (some = names): number | undefined => {
      const total = some.reduce((sum, name) => sum + (sums.get(name) ?? Number.NaN), 0);
      return Number.isFinite(total) && total >= 0 ? total : undefined;
    },
  };
}
