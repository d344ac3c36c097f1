/** Builds the container that the engine runs in. Pure. */

import { MetalbridgeError } from "../../../src/api/errors.ts";
import { canonicalQuantity, parseQuantity } from "../../../src/api/fields/quantity.ts";
import type { Resources } from "../../../src/api/fields/resources.ts";
import { ENGINE_CONTAINER, PORT_NAME } from "../../../src/api/group.ts";
import type { InferenceServiceSpec } from "../../../src/api/inference-service/index.ts";
import type { PodCommand, PodInput, PodRuntime, PodVariable } from "../../../src/engines/contract/pod.ts";
import type { Container } from "../../../src/kube/workload-objects.ts";
import { gaugesOf, preStopOf, STOP_SECONDS } from "./drain.ts";
import type { GPURequest } from "./gpus.ts";
import type { Mount } from "./volumes.ts";

type PassedThrough = Readonly<Record<string, unknown>>;

interface EnvironmentVariable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: PassedThrough;
  readonly [further: string]: unknown;
}

/** Linux rejects an argument or variable of 128 KiB or more; etcd rejects objects over 1.5 MiB. */
const TEXT_MAX = 131_071;
const TEXTS_MAX = 524_288;
/** Slow volumes read about this fast. A start may take the time to read the weights at this speed, plus half an hour. */
const LOAD_BYTES_PER_SECOND = 50e6;
const START_SECONDS = 1800;
/** Short, so that a pod is ready soon after it has loaded. A probe of a loading engine costs its node almost nothing. */
const START_PERIOD_SECONDS = 1;

export interface ContainerInput {
  readonly spec: InferenceServiceSpec;
  readonly pod: PodRuntime;
  readonly input: PodInput;
  readonly command: PodCommand;
  readonly gpus: GPURequest;
  readonly image: string;
  readonly mounts: readonly Mount[];
  /** Quantity of storage that the weights take in the pod; undefined if they are elsewhere. */
  readonly ephemeralStorage: string | undefined;
  /** Quantity of memory to request if the service names none. */
  readonly memory: string | undefined;
  /** Limits other than GPUs, from the flavor of the Model. */
  readonly limits?: Readonly<Record<string, string>> | undefined;
  readonly sizeBytes: number | undefined;
}

/** Throws MetalbridgeError. */
export function containerOf(containerInput: ContainerInput): Container {
  const { spec, pod, input, image, mounts } = containerInput;
  const command = escaped(containerInput);
  const env = variablesOf(command, containerInput);
  checkLength([...(command.command ?? []), ...command.args, ...env.map(({ value = "" }) => value)]);
  const gauges = gaugesOf(pod, spec.inFlightProbe);
  return {
    name: ENGINE_CONTAINER,
    image,
    command: command.command && [...command.command],
    args: [...command.args],
    env,
    ports: [{ name: PORT_NAME, containerPort: input.port, protocol: "TCP" }],
    resources: resourcesOf(containerInput),
    ...probesOf(containerInput),
    lifecycle: {
      // A preStop of the user replaces ours; a postStart is added to it.
      preStop: preStopOf({
        gauges,
        address: input.address,
        port: input.port,
        drainSeconds: spec.rollout.drainSeconds,
        keyFile: pod.metrics?.isProtected === true ? input.apiKeyFile : undefined,
        endsAtSecondTerm: pod.endsAtSecondTerm,
      }),
      ...spec.lifecycle,
    },
    securityContext: {
      ...(escalates(spec.securityContext) ? {} : { allowPrivilegeEscalation: false }),
      capabilities: { drop: ["ALL"] },
      ...(pod.writesImage === true ? {} : { readOnlyRootFilesystem: true }),
      ...spec.securityContext,
    },
    terminationMessagePolicy: "FallbackToLogsOnError",
    volumeMounts: [...mounts],
  };
}

/** The API server rejects allowPrivilegeEscalation false in combination with either setting. */
function escalates(given: PassedThrough = {}): boolean {
  const { add } = (given.capabilities ?? {}) as { readonly add?: unknown };
  return given.privileged === true || (Array.isArray(add) && add.includes("CAP_SYS_ADMIN"));
}

/** Kubernetes expands $(NAME) in arguments, so text that the user did not write is escaped. */
function escaped({ pod, command }: ContainerInput): PodCommand {
  if (pod.render !== undefined) return command;
  const args = command.args.map((text) => text.replaceAll("$(", "$$$$("));
  return { ...command, args: [...args, ...(command.expanded ?? [])] };
}

/** A variable that the user sets replaces ours, except the one that holds the API key. */
function variablesOf({ env }: PodCommand, { spec, pod, gpus, input }: ContainerInput): EnvironmentVariable[] {
  const ours: PodVariable[] = [
    // Compilers and downloaders cache below HOME, which must be writable for any user; some look up the user's name.
    { name: "HOME", value: "/tmp" },
    { name: "USER", value: "metalbridge" },
    ...gpuVariables(gpus),
    ...env,
  ];
  const { apiKey } = pod;
  const { secretRef, key = "" } = spec.auth ?? {};
  const keyVariables: PodVariable[] =
    apiKey?.by === "variable" && secretRef !== undefined
      ? [{ name: apiKey.variable, secret: { name: secretRef.name, key } }]
      : [];
  const given = (spec.env ?? []).map((variable) => ({
    ...(variable as unknown as EnvironmentVariable),
    ...(typeof variable.value === "string" && pod.render !== undefined
      ? { value: pod.render(variable.value, input) }
      : {}),
  }));
  const byName = new Map<string, EnvironmentVariable>();
  for (const variable of [...ours.map(toVariable), ...given, ...keyVariables.map(toVariable)])
    byName.set(variable.name, variable);
  return [...byName.values()];
}

function gpuVariables({ accelerator, vendor, memoryLimitGiB }: GPURequest): PodVariable[] {
  if (vendor !== "nvidia") return [];
  return [
    ...(accelerator === "vulkan"
      ? [{ name: "NVIDIA_DRIVER_CAPABILITIES", value: "compute,graphics,utility" }]
      : []),
    ...(memoryLimitGiB === undefined
      ? []
      : [{ name: "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", value: `0=${memoryLimitGiB}G` }]),
  ];
}

function toVariable(variable: PodVariable): EnvironmentVariable {
  const { name } = variable;
  if ("value" in variable) return { name, value: variable.value };
  return "field" in variable
    ? { name, valueFrom: { fieldRef: { fieldPath: variable.field } } }
    : { name, valueFrom: { secretKeyRef: { name: variable.secret.name, key: variable.secret.key } } };
}

function checkLength(texts: readonly string[]): void {
  const encoder = new TextEncoder();
  const lengths = texts.map((text) => encoder.encode(text).length);
  const longest = Math.max(0, ...lengths);
  const total = lengths.reduce((sum, length) => sum + length, 0);
  if (longest > TEXT_MAX || total > TEXTS_MAX) {
    const message = `arguments and variables have ${total} bytes, the longest ${longest}; at most ${TEXTS_MAX} and ${TEXT_MAX} are possible`;
    throw new MetalbridgeError("PodArgumentsTooLong", message);
  }
}

function resourcesOf({
  spec: { resources = {} },
  gpus,
  ephemeralStorage,
  memory: estimated,
  limits: ofFlavor = {},
}: ContainerInput): NonNullable<Container["resources"]> {
  const others = withLimits(ofFlavor, resources.limits);
  // A limit also caps the estimate, and is the request of what the service does not request.
  const memory = resources.hostMemory ?? resources.memory ?? others.memory ?? estimated;
  const storage = resources.ephemeralStorage ?? ephemeralStorage;
  const counts = Object.fromEntries(
    Object.entries(gpus.resources).map(([name, count]) => [name, String(count)]),
  );
  const requests = {
    ...others,
    ...(resources.cpu === undefined ? {} : { cpu: canonicalQuantity(resources.cpu) }),
    ...(memory === undefined ? {} : { memory: canonicalQuantity(memory) }),
    ...(storage === undefined ? {} : { "ephemeral-storage": canonicalQuantity(storage) }),
    ...counts,
  };
  const limits = { ...others, ...counts };
  return {
    ...(Object.keys(requests).length === 0 ? {} : { requests }),
    ...(Object.keys(limits).length === 0 ? {} : { limits }),
    ...(gpus.claims.length === 0 ? {} : { claims: gpus.claims.map((name) => ({ name })) }),
  };
}

/** Where the flavor and the service both set a limit, the lower one applies. */
function withLimits(
  ofFlavor: Readonly<Record<string, string>>,
  own: Resources["limits"] = {},
): Readonly<Record<string, string>> {
  const limits = { ...ofFlavor };
  for (const [name, quantity] of Object.entries(own)) {
    const other = parseQuantity(limits[name] ?? "") ?? Number.POSITIVE_INFINITY;
    if ((parseQuantity(quantity) ?? 0) < other) limits[name] = canonicalQuantity(quantity);
  }
  return limits;
}

/** Maximum duration of a start, in seconds. */
export function startSeconds(sizeBytes: number | undefined): number {
  return START_SECONDS + Math.ceil((sizeBytes ?? 0) / LOAD_BYTES_PER_SECOND);
}

function probesOf({ pod, input, spec, sizeBytes }: ContainerInput) {
  const ready = checkOf(pod, pod.probes?.ready(input));
  const given = spec.probeOverrides ?? {};
  const [startup, liveness, readiness] = [given.startup, given.liveness, given.readiness].map((probe) =>
    withRendered(probe, (text) => pod.render?.(text, input) ?? text),
  );
  const failureThreshold = Math.ceil(startSeconds(sizeBytes) / START_PERIOD_SECONDS);
  const times = startup?.periodSeconds ?? startup?.failureThreshold;
  return {
    startupProbe: overridden(
      // As in Kubernetes: a user who sets one of the two gets the kubelet's default for the other.
      {
        ...ready,
        timeoutSeconds: 5,
        ...(times === undefined ? { periodSeconds: START_PERIOD_SECONDS, failureThreshold } : {}),
      },
      startup,
    ),
    livenessProbe: overridden(
      // An engine that hangs completes no request, so waiting for drainSeconds would be pointless.
      {
        ...checkOf(pod, pod.probes?.alive(input)),
        periodSeconds: 15,
        timeoutSeconds: 5,
        failureThreshold: 3,
        terminationGracePeriodSeconds: STOP_SECONDS,
      },
      liveness,
    ),
    readinessProbe: overridden(
      { ...ready, periodSeconds: 5, timeoutSeconds: 5, failureThreshold: 3 },
      readiness,
    ),
  };
}

function checkOf({ healthPath }: PodRuntime, command: readonly string[] | undefined): PassedThrough {
  if (command !== undefined) return { exec: { command } };
  return healthPath === undefined
    ? { tcpSocket: { port: PORT_NAME } }
    : { httpGet: { path: healthPath, port: PORT_NAME } };
}

const HANDLERS = ["httpGet", "tcpSocket", "exec", "grpc"];

/** The user's handler replaces ours; its default port is the engine's. */
function overridden(ours: PassedThrough, given: PassedThrough | undefined): PassedThrough {
  if (given === undefined) return ours;
  const hasHandler = HANDLERS.some((handler) => handler in given);
  const base = Object.entries(ours).filter(([key]) => !hasHandler || !HANDLERS.includes(key));
  const theirs = Object.entries(given).map(([key, value]) =>
    ["httpGet", "tcpSocket"].includes(key) ? [key, { port: PORT_NAME, ...(value as object) }] : [key, value],
  );
  return Object.fromEntries([...base, ...theirs]);
}

function withRendered(
  probe: PassedThrough | undefined,
  render: (text: string) => string,
): PassedThrough | undefined {
  const { command } = (probe?.exec ?? {}) as { readonly command?: unknown };
  if (!Array.isArray(command)) return probe;
  return { ...probe, exec: { command: command.map((text) => render(String(text))) } };
}
