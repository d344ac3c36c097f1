/** `metalbridge mcp`: tools for programs that speak the Model Context Protocol, with the rights of the caller's kubeconfig. */

import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { type Command, InvalidArgumentError, Option } from "commander";
import { readEnvironment } from "../agent/config/environment.ts";
import { createDensity } from "../fitness/density/density.ts";
import { createFitIndex } from "../fitness/density/fits.ts";
import { createLlmfitRest } from "../fitness/llmfit/rest/rest.ts";
import { packageVersion } from "../local/package-root.ts";
import type { Deploy, McpContext } from "../server/mcp/context.ts";
import { listenMcp } from "../server/mcp/listen.ts";
import { createMcp } from "../server/mcp/server.ts";
import { MetalbridgeError } from "../src/api/errors.ts";
import { keyOf } from "../src/api/names.ts";
import { manifestYaml } from "../src/kube/manifest-yaml.ts";
import { systemClock } from "../src/kube/system-clock.ts";
import { parseSource } from "../src/models/source/parse.ts";
import { defined } from "../src/util/defined.ts";
import { catalogOption, readCatalogFiles } from "./catalog/read.ts";
import { withCluster } from "./cluster/cluster.ts";
import { fillDensity } from "./cluster/density.ts";
import { listAll } from "./cluster/find.ts";
import { addNamespacedFlags, type ClusterFlags } from "./cluster/flags.ts";
import { createObjects } from "./deploy/create.ts";
import { objectsOf } from "./deploy/objects.ts";
import { readLocalMachine } from "./mcp/local-machine.ts";
import { createJsonLog, LOG_LEVELS } from "./program/json-log.ts";
import { writeOut } from "./program/output.ts";
import { whenStdinEnds } from "./program/stdin-lifetime.ts";
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
      "offer the tool deploy, which asks the user before it creates anything; with --http it needs --token-file",
    )
    .option("--http", "serve streamable HTTP at /mcp instead of standard input and output")
    .option("--address <ip>", "with --http: its address; others than loopback need a token", "127.0.0.1")
    .option("--port <n>", "with --http: its port; 0 takes a free one", parsePort, PORT)
    .option("--token-file <file>", "with --http: file with the token that every request must send")
    .addOption(new Option("--log-level <level>", "log level").choices([...LOG_LEVELS]).default("warn"))
    .action(mcp);
}

async function mcp(flags: McpFlags): Promise<void> {
  const { http, address, port, tokenFile, logLevel } = flags;
  const log = createJsonLog(logLevel);
  const options = { context: await contextOf(flags), version: packageVersion(), log };
  const stop = listenForStop();
  if (http === true) {
    const { signal } = stop;
    const listening = await listenMcp({ ...options, address, port, tokenFile, clock: systemClock, signal });
    writeOut(`http://${address.includes(":") ? `[${address}]` : address}:${listening}/mcp\n`);
    // The listener alone does not keep the process alive.
    const alive = setInterval(() => {}, 2 ** 30);
    await whenAborted(signal);
    clearInterval(alive);
  } else {
    const server = createMcp(options);
    await server.connect(new StdioServerTransport());
    whenStdinEnds(stop.stop);
    await whenAborted(stop.signal);
    await server.close();
  }
  process.exitCode = stop.exitCode();
}

/** A cluster is read when a tool needs it, each time from scratch: the program lives as long as its client. */
async function contextOf({ catalog, allowDeploy, ...flags }: McpFlags): Promise<McpContext> {
  const { records } = await readCatalogFiles(catalog);
  return {
    now: () => ({ wallMs: systemClock.nowMs(), monotonicMs: systemClock.monotonicMs() }),
    density: async () => {
      const density = createDensity(createFitIndex(records));
      await withCluster("mcp", flags, (cluster) => fillDensity(density, cluster));
      return density;
    },
    here: async () => {
      const { platform } = process;
      const density = createDensity(createFitIndex(records));
      const place = await readLocalMachine({ platform, toolPath: readEnvironment().toolPath });
      density.setPlace(place.kind, place.name, { ...place, heardAtMs: systemClock.nowMs() });
      return density;
    },
    llmfit: createLlmfitRest(records),
    cluster: (use) =>
      withCluster("mcp", flags, (cluster) =>
        use({
          namespace: cluster.namespace,
          list: (kind, namespace) => listAll(cluster, kind, namespace === undefined ? {} : { namespace }),
        }),
      ),
    deploy: allowDeploy === true ? deployWith(flags) : undefined,
  };
}

function deployWith(flags: ClusterFlags): Deploy {
  return ({ model, namespace, ...wish }, isAllowed) =>
    withCluster("mcp", namespace === undefined ? flags : { ...flags, namespace }, async (cluster) => {
      const given = defined(wish);
      const objects = await objectsOf(cluster, model, given);
      if (objects.model !== undefined && parseSource(objects.model.spec.source).kind === "file")
        throw new MetalbridgeError("McpArgumentInvalid", "model: a path is no source that is offered here");
      const manifests = [objects.model, objects.service].filter((object) => object !== undefined);
      const yaml = manifestYaml(manifests);
      if (!(await isAllowed(`Create this in namespace ${cluster.namespace}?\n\n${yaml}`))) return undefined;
      await createObjects(cluster, objects);
      return { service: keyOf(objects.service.metadata), model: objects.service.spec.modelRef };
    });
}

function parsePort(text: string): number {
  if (/^\d{1,5}$/.test(text) && Number(text) <= 65535) return Number(text);
  throw new InvalidArgumentError("It has to be a port from 0 to 65535.");
}
