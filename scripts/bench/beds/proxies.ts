/** Other proxies from their packages, in the cache and not installed: nginx of Debian, LiteLLM of the Python registry. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { startPart } from "../../../test/bed/part.ts";
import { freePort } from "../../../test/bed/ports.ts";
import { until } from "../../../test/bed/until.ts";
import { cacheDir } from "../../setup/cache.mjs";
import { findOnPath, run } from "../../setup/command.mjs";
import { fillFolder } from "../../setup/fill-folder.mjs";
import { unpackPackages } from "../../setup/private-apt.mjs";
import type { Plane } from "./plane.ts";

export interface OtherProxy {
  /** Without /v1. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

const LITELLM = "1.108.7";
const INSTALL_MS = 300_000;
const START_MS = 120_000;
/** LiteLLM does not start without a key. */
const LITELLM_KEY = "sk-bench-0123456789abcdef";

/** A plain reverse proxy; it ends with the plane. A text: why it cannot be had here. */
export async function startNginx(plane: Plane, upstream: string): Promise<OtherProxy | string> {
  const program = await ensureNginx();
  if (typeof program !== "string") return program.reason;
  const dir = path.join(plane.dir, "nginx");
  mkdirSync(dir, { recursive: true });
  const port = await freePort();
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  const config = `daemon off; user root; worker_processes auto; pid ${dir}/pid; error_log stderr;
events { worker_connections 1024; }
http {
  access_log off; client_max_body_size 32m;
  ${temporary.map((name) => `${name}_temp_path ${dir}/${name};`).join(" ")}
  upstream daemon { server ${upstream}; keepalive 64; }
  server {
    listen 127.0.0.1:${port}; keepalive_requests 1000000;
    location / {
      proxy_pass http://daemon; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }
  }
}
`;
  const file = path.join(dir, "nginx.conf");
  writeFileSync(file, config);
  plane.use(startPart(["-c", file], path.join(dir, "log"), dir, [program, "-p"]));
  const url = `http://127.0.0.1:${port}`;
  return answering(url, {});
}

/** Envoy alone, the same program, which only forwards: what of the gateway's time is Envoy's own. It ends with the plane. */
export async function startPlainEnvoy(
  plane: Plane,
  program: string,
  upstream: string,
): Promise<OtherProxy | string> {
  const dir = path.join(plane.dir, "plain-envoy");
  mkdirSync(dir, { recursive: true });
  const port = await freePort();
  const file = path.join(dir, "envoy.json");
  writeFileSync(file, JSON.stringify(plainEnvoy(port, new URL(`http://${upstream}`))));
  plane.use(
    startPart(["--use-dynamic-base-id", "-l", "warning"], path.join(dir, "log"), file, [program, "-c"]),
  );
  return answering(`http://127.0.0.1:${port}`, {});
}

function plainEnvoy(port: number, upstream: URL) {
  const at = (address: string, portValue: number) => ({ socket_address: { address, port_value: portValue } });
  const type = (name: string) => ({ "@type": `type.googleapis.com/envoy.extensions.filters.${name}` });
  const manager = {
    ...type("network.http_connection_manager.v3.HttpConnectionManager"),
    stat_prefix: "plain",
    http_filters: [{ name: "envoy.filters.http.router", typed_config: type("http.router.v3.Router") }],
    route_config: {
      virtual_hosts: [
        { name: "all", domains: ["*"], routes: [{ match: { prefix: "/" }, route: { cluster: "daemon" } }] },
      ],
    },
  };
  const filters = [{ name: "envoy.filters.network.http_connection_manager", typed_config: manager }];
  const endpoint = { address: at(upstream.hostname, Number(upstream.port)) };
  const assignment = { cluster_name: "daemon", endpoints: [{ lb_endpoints: [{ endpoint }] }] };
  return {
    static_resources: {
      listeners: [{ name: "plain", address: at("127.0.0.1", port), filter_chains: [{ filters }] }],
      clusters: [{ name: "daemon", type: "STATIC", load_assignment: assignment }],
    },
  };
}

/** Serves one model. It ends with the plane. A text: why it cannot be had here. */
export async function startLiteLlm(
  plane: Plane,
  upstream: string,
  model: string,
): Promise<OtherProxy | string> {
  const program = await ensureLiteLlm();
  if (typeof program !== "string") return program.reason;
  const dir = path.join(plane.dir, "litellm");
  mkdirSync(dir, { recursive: true });
  const port = await freePort();
  const served = { model: `openai/${model}`, api_base: `http://${upstream}/v1`, api_key: "none" };
  const file = path.join(dir, "config.yaml");
  // JSON is YAML, too.
  writeFileSync(file, JSON.stringify({ model_list: [{ model_name: model, litellm_params: served }] }));
  const settings = [`LITELLM_MASTER_KEY=${LITELLM_KEY}`, "LITELLM_LOCAL_MODEL_COST_MAP=True"];
  const flags = ["--config", file, "--host", "127.0.0.1", "--port", String(port), "--telemetry", "False"];
  plane.use(startPart(flags, path.join(dir, "log"), program, ["env", ...settings]));
  return answering(`http://127.0.0.1:${port}`, { authorization: `Bearer ${LITELLM_KEY}` });
}

async function answering(url: string, headers: OtherProxy["headers"]): Promise<OtherProxy | string> {
  try {
    await until(() => fetch(url, { signal: AbortSignal.timeout(5_000) }), { timeoutMs: START_MS });
    return { url, headers };
  } catch (error) {
    return `it did not start: ${String(error)}`;
  }
}

interface Missing {
  readonly reason: string;
}

async function ensureNginx(): Promise<string | Missing> {
  const found = findOnPath("nginx");
  if (found !== undefined) return found;
  const prefix = path.join(cacheDir(), "nginx", "prefix");
  const program = path.join(prefix, "usr", "sbin", "nginx");
  try {
    if (!existsSync(program))
      await fillFolder(prefix, async (work: string) => (await unpackPackages(work, ["nginx"])).prefix);
    return program;
  } catch (error) {
    return { reason: String(error) };
  }
}

async function ensureLiteLlm(): Promise<string | Missing> {
  const folder = path.join(cacheDir(), "litellm", LITELLM);
  const program = path.join(folder, "bin", "litellm");
  const whole = `${folder}.whole`;
  if (existsSync(whole)) return program;
  const python = findOnPath("python3");
  if (python === undefined) return { reason: "there is no python3 on PATH" };
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(path.dirname(folder), { recursive: true });
  const pip = ["install", "--quiet", "--no-cache-dir", `litellm[proxy]==${LITELLM}`];
  for (const [command, args] of [
    [python, ["-m", "venv", folder]],
    [path.join(folder, "bin", "pip"), pip],
  ] as const) {
    const { code, tail } = await run(command, [...args], { timeoutMs: INSTALL_MS });
    if (code !== 0) return { reason: tail.split("\n").at(-1) ?? "" };
  }
  writeFileSync(whole, "");
  return program;
}
