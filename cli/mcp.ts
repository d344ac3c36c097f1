/** `metalbridge mcp`: serves tools over the Model Context Protocol, with the permissions of the caller's kubeconfig. */

import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import type { Command } from "commander";
import { readEnvironment } from "../agent/config/environment.ts";
import { createDensity } from "../fitness/density/density.ts";
import { createFitIndex } from "../fitness/density/fits.ts";
import { createLlmfitRest } from "../fitness/llmfit/rest/rest.ts";
import { packageVersion } from "../local/package-root.ts";
import type { Deploy, McpContext } from "../server/mcp/context.ts";
import { listenMcp } from "../server/mcp/http.ts";
import { createMcp } from "../server/mcp/server.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { mainModelOf } from "../src/api/inference-service/roles.ts";
import { keyOf } from "../src/api/names.ts";
import { manifestYaml } from "../src/kube/manifest-yaml.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { parseSource } from "../src/models/source/parse.ts";
import { defined } from "../src/util/defined.ts";
import { hostInUrl } from "../src/util/host-in-url.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { withCluster } from "./cluster/cluster.ts";
import { fillDensity } from "./cluster/density.ts";
import { listAll } from "./cluster/find.ts";
import { addNamespacedFlags, type ClusterFlags, logLevelOption, parsePort } from "./cluster/flags.ts";
import { listVisible, missingOf, type Visible } from "./cluster/visible.ts";
import { createObjects } from "./deploy/create.ts";
import { objectsOf } from "./deploy/objects.ts";
import { readLocalMachine } from "./mcp/local-machine.ts";
import { createJsonLog } from "./program/json-log.ts";
import { printLine } from "./program/output.ts";
import { listenForStop, whenAborted } from "./program/stop-signals.ts";

interface McpFlags extends ClusterFlags {
  readonly catalog?: readonly string[];
  readonly allowDeploy?: boolean;
  readonly http?: boolean;
  readonly address: string;
  readonly port: number;
  readonly tokenFile?: string;
  readonly logLevel: string;
}

const PORT = 8788;

/** Options and action of the verb. */
export function configureMcp(command: Command): void {
  addNamespacedFlags(command)
    .addOption(catalogOption())
    .option(
      "--allow-deploy",
      "enable the deploy tool, which asks the user before it creates anything; with --http it requires --token-file",
    )
    .option("--http", "serve streamable HTTP at /mcp instead of standard input and output")
    .option(
      "--address <ip>",
      "with --http: address to listen on; any but loopback requires a token",
      "127.0.0.1",
    )
    .option("--port <n>", "with --http: port to listen on; 0 chooses a free port", parsePort, PORT)
    .option("--token-file <file>", "with --http: file with the bearer token that every request must have")
    .addOption(logLevelOption().default("warn"))
    .action(mcp);
}

async function mcp(flags: McpFlags): Promise<void> {
  const log = createJsonLog(flags.logLevel);
  const options = { context: await contextOf(flags), version: packageVersion(), log };
  if (flags.http === true) return serveHttp(options, flags);
  const server = createMcp(options);
  await server.connect(new StdioServerTransport());
  // Only now: standard input must have a reader before it is resumed.
  const stop = listenForStop({ exitWithStdin: true });
  await whenAborted(stop.signal);
  await server.close();
  process.exitCode = stop.exitCode();
}

async function serveHttp(
  options: Parameters<typeof createMcp>[0],
  { address, port, tokenFile }: McpFlags,
): Promise<void> {
  const { signal, exitCode } = listenForStop();
  const listening = await listenMcp({ ...options, address, port, tokenFile, clock: systemClock, signal });
  printLine(`http://${hostInUrl(address)}:${listening}/mcp`);
  await whenAborted(signal);
  process.exitCode = exitCode();
}

/** Each tool call reads the cluster again, because the program runs as long as its client. */
async function contextOf({ catalog, allowDeploy, ...flags }: McpFlags): Promise<McpContext> {
  const { records } = await readCatalogFiles(catalog);
  return {
    now: () => ({ wallMs: systemClock.nowMs(), monotonicMs: systemClock.monotonicMs() }),
    density: async () => {
      const density = createDensity(createFitIndex(records));
      const { missing } = await withCluster("mcp", flags, (cluster) => fillDensity(density, cluster));
      return { density, missing };
    },
    localDensity: async () => {
      const { platform } = process;
      const density = createDensity(createFitIndex(records));
      const place = await readLocalMachine({ platform, toolPath: readEnvironment().toolPath });
      density.setPlace(place.kind, place.name, { ...place, lastHeartbeatMs: systemClock.nowMs() });
      return density;
    },
    llmfit: createLlmfitRest(records),
    cluster: (use) =>
      withCluster("mcp", flags, (cluster) => {
        const seen: Visible<unknown>[] = [];
        return use({
          namespace: cluster.namespace,
          list: async (kind, namespace) => {
            // A kind without a namespace is seen as a whole or not at all.
            if (!kind.namespaced) return listAll(cluster, kind);
            const one = await listVisible(cluster, kind, namespace);
            seen.push(one);
            return one.items ?? [];
          },
          missing: () => missingOf(...seen),
        });
      }),
    deploy: allowDeploy === true ? deployWith(flags) : undefined,
  };
}

function deployWith(flags: ClusterFlags): Deploy {
  return ({ model, namespace, ...request }, isAllowed) =>
    withCluster("mcp", namespace === undefined ? flags : { ...flags, namespace }, async (cluster) => {
      const objects = await objectsOf(cluster, model, defined(request));
      if (objects.model !== undefined && parseSource(objects.model.spec.source).kind === "file")
        throw new MetalbridgeError("McpArgumentInvalid", "model: a path is not a supported source");
      const manifests = [objects.model, objects.service].filter((object) => object !== undefined);
      const yaml = manifestYaml(manifests);
      if (!(await isAllowed(`Create this in namespace ${cluster.namespace}?\n\n${yaml}`))) return undefined;
      await createObjects(cluster, objects);
      return { service: keyOf(objects.service.metadata), model: mainModelOf(objects.service.spec) };
    });
}
