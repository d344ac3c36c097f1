/** The real Open WebUI of the Python registry, started as examples/open-webui starts its container. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import path from "node:path";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import { packageRoot } from "../../../local/package-root.ts";
import { parseQuantity } from "../../../src/api/fields/quantity.ts";
import { freePort } from "../../bed/ports.ts";
import { until } from "../../bed/until.ts";
import { ensurePythonPackage } from "../python-package.ts";

export const OPEN_WEBUI_VERSION = "0.12.4";

const EXAMPLE = path.join(packageRoot(), "examples", "open-webui", "open-webui.yaml");
const GRACE_MS = 20_000;

const secretRef = z.strictObject({ name: z.literal("open-webui"), key: z.string() });
const variable = z.union([
  z.strictObject({ name: z.string(), value: z.string() }),
  z.strictObject({ name: z.string(), valueFrom: z.strictObject({ secretKeyRef: secretRef }) }),
]);
const containerSchema = z.object({
  image: z.string(),
  env: z.array(variable),
  readinessProbe: z.object({ httpGet: z.object({ path: z.string() }) }),
  resources: z.object({ limits: z.object({ memory: z.string() }) }),
});
const deploymentSchema = z.object({
  spec: z.object({ template: z.object({ spec: z.object({ containers: z.tuple([containerSchema]) }) }) }),
});

export interface OpenWebUI extends AsyncDisposable {
  readonly url: string;
  readonly image: string;
  readonly memoryLimitBytes: number;
  /** Most memory that it has used, in bytes. */
  readonly peakBytes: () => number;
  readonly log: () => string;
}

export interface OpenWebUIPlace {
  /** Folder of its programs. */
  readonly bin: string;
  /** Folder for its data and its log. */
  readonly folder: string;
  /** Base URL of the gateway, in place of the one of the chart. */
  readonly gateway: string;
  /** Values of the Secret `open-webui`. */
  readonly secret: Readonly<Record<string, string>>;
}

/** A text: why it cannot be had here. */
export function ensureOpenWebUI(note: (text: string) => void): Promise<{ readonly bin: string } | string> {
  const open = {
    name: "open-webui",
    version: OPEN_WEBUI_VERSION,
    requirements: path.join(import.meta.dirname, "requirements.txt"),
    size: "250 MB",
    finish: [["open-webui", "--help"]],
  } as const;
  return ensurePythonPackage(open, note);
}

/** Resolves once its readiness probe succeeds. */
export async function startOpenWebUI({ bin, folder, gateway, secret }: OpenWebUIPlace): Promise<OpenWebUI> {
  const { image, env, readinessProbe, resources } = exampleContainer();
  const data = path.join(folder, "data");
  mkdirSync(data, { recursive: true });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const logFile = path.join(folder, "open-webui.log");
  const log = openSync(logFile, "a");
  const child = spawn(
    path.join(bin, "open-webui"),
    ["serve", "--host", "127.0.0.1", "--port", String(port)],
    {
      cwd: folder,
      env: {
        PATH: `${bin}:/usr/bin:/bin`,
        HOME: folder,
        // The image sets these two.
        USE_SLIM_DOCKER: "true",
        DATA_DIR: data,
        ...Object.fromEntries(env.map((one) => [one.name, valueFor(one, gateway, secret)])),
      },
      stdio: ["ignore", log, log],
    },
  );
  closeSync(log);
  const isRunning = () => child.exitCode === null && child.signalCode === null;
  const stop = async (): Promise<void> => {
    if (!isRunning()) return;
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    const late = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
    await ended;
    clearTimeout(late);
  };
  const started = {
    url,
    image,
    memoryLimitBytes: parseQuantity(resources.limits.memory) ?? 0,
    peakBytes: () => peakOf(child.pid),
    log: () => readFileSync(logFile, "utf8"),
    [Symbol.asyncDispose]: stop,
  };
  await using stack = new AsyncDisposableStack();
  stack.use(started);
  const ended = once(child, "exit");
  await until(
    async () => {
      const { status } = await fetch(`${url}${readinessProbe.httpGet.path}`).catch(() => ({ status: 0 }));
      if (status !== 200) throw new Error(`Open WebUI does not answer:\n${started.log().slice(-2_000)}`);
    },
    { ended },
  );
  stack.move();
  return started;
}

function exampleContainer(): z.output<typeof containerSchema> {
  const deployment = parseAllDocuments(readFileSync(EXAMPLE, "utf8"))
    .map((document) => document.toJS())
    .find(({ kind }) => kind === "Deployment");
  return deploymentSchema.parse(deployment).spec.template.spec.containers[0];
}

function valueFor(
  one: z.output<typeof variable>,
  gateway: string,
  secret: Readonly<Record<string, string>>,
): string {
  if ("value" in one) return one.value.replace(/^http:\/\/metalbridge-gateway\.[^/]+/, gateway);
  const { key } = one.valueFrom.secretKeyRef;
  const value = secret[key];
  if (value === undefined) throw new Error(`${EXAMPLE}: the Secret of the run has no key ${key}`);
  return value;
}

function peakOf(pid: number | undefined): number {
  const [, kib] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kib) * 1024;
}
