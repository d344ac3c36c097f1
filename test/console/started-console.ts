/**
 * The console over a whole farm, each part as users run it: control plane, controller, agents with llama-server, gateway
 * with Envoy, server, and Chromium. For the tests of pages, one for each file:
 *
 *     describeUnless(whyNoConsole, "the page of services", () => {
 *       const on = oneConsole({ hosts: ["mac-1"] });
 *
 *       it("shows a service that serves", async () => {
 *         await on().serve("chat", "mac-1");
 *         await using reader = await on().administrator();
 *         await reader.goTo("/services");
 *         await expect.poll(() => reader.page.getByRole("row").count()).toBe(2);
 *         await expectAccessible(reader.page);
 *         await takePictures(reader.page, "services");
 *       });
 *     });
 *
 * An error in the browser's console, an exception of the page and a violation of the CSP fail the test at the end of its
 * `await using`; a test that causes one names it with `expectProblems`. `signedIn({ token: await on().token("ann", {
 * clusterRole: "view" }) })` is a person with fewer rights. `startSyntheticConsole` has no controller and no agent, but
 * hosts and services by the thousand (test/bed/console/synthetic-farm.ts). `npm run build` first: the server serves dist/console. To look at
 * the pages: `CONSOLE_PICTURES=/tmp/pictures npx vitest run test/console/pages.system.test.ts`.
 */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect } from "vitest";
import { ONE_THREAD } from "../bed/agent.ts";
import {
  type ConsolePage,
  openBrowser,
  openPage,
  type PageOptions,
  whyNoBrowser,
} from "../bed/console/browser.ts";
import {
  type ConsoleServer,
  type Rights,
  startConsoleServer,
  tokenFor,
} from "../bed/console/console-server.ts";
import {
  type SyntheticFarm,
  type SyntheticFarmOptions,
  startSyntheticFarm,
} from "../bed/console/synthetic-farm.ts";
import { serveSyntheticGateway } from "../bed/console/synthetic-gateway.ts";
import { model, serviceAnywhere } from "../bed/manifests.ts";
import { openNetwork, whyNoNetwork } from "../bed/network.ts";
import { startFleet, type TestFleet } from "../bed/test-fleet.ts";
import { type PrivateCluster, startCluster } from "../cluster/cluster.ts";
import { WITH_SLICES } from "../cluster/planes.ts";
import { serveRepo, startOrigin } from "../fixtures/origin.ts";
import { writeTinyGguf } from "../fixtures/tiny-gguf.ts";
import { type StartedGateway, startGateway, whyNoGateway } from "../gateway/started-gateway.ts";

/** Undefined where this machine can run it, else the reason for skipping a test. */
export const whyNoConsole: string | undefined = whyNoBrowser ?? whyNoGateway ?? whyNoNetwork();

export interface OpenConsole extends AsyncDisposable {
  readonly cluster: PrivateCluster;
  readonly server: ConsoleServer;
  readonly browser: Browser;
  /** Of the server, without /console. */
  readonly url: string;
  /** A token of a new ServiceAccount in the namespace default; an administrator's unless `rights` say otherwise. */
  readonly token: (name: string, rights?: Rights) => Promise<string>;
  /** `await using reader = await on().signedIn()`: a new browser profile, an administrator unless a token is given. */
  readonly signedIn: (options?: PageOptions) => Promise<ConsolePage>;
  /**
   * `await using reader = await on().administrator()`: the same page for one test after the other, which is at no address
   * of the console. A new one takes two seconds of a core.
   */
  readonly administrator: () => Promise<ConsolePage>;
}

export interface StartedConsole extends OpenConsole {
  readonly farm: TestFleet;
  readonly gateway: StartedGateway;
  /** Path of a small GGUF model whose answers are random, and endless. */
  readonly tinyModel: string;
  readonly apply: (...objects: readonly object[]) => Promise<void>;
  /** Applies a Model with the tiny weights and a service of the same name; resolves once it is Ready. */
  readonly serve: (name: string, host: string, spec?: object) => Promise<void>;
  readonly untilPhase: (service: string, phase: string) => Promise<void>;
}

export interface ConsoleOptions {
  /** Names of the hosts, each with an agent. */
  readonly hosts?: readonly string[];
  /** More flags of the server. */
  readonly serverArgs?: readonly string[];
  readonly gatewayArgs?: readonly string[];
  /** Repositories of a hub on loopback that stands for the Hugging Face Hub; each file is the tiny model. */
  readonly hub?: Readonly<Record<string, readonly string[]>>;
}

export interface SyntheticConsole extends OpenConsole {
  readonly farm: SyntheticFarm;
}

/** One for all tests of a file or `describe`. */
export function oneConsole(options: ConsoleOptions = {}): () => StartedConsole {
  return oneOf(() => startConsole(options));
}

/** One over a synthetic farm. */
export function oneSyntheticConsole(options: SyntheticFarmOptions): () => SyntheticConsole {
  return oneOf(() => startSyntheticConsole(options));
}

/** All parts run; hosts are ready once their agents have reported. */
export async function startConsole(options: ConsoleOptions = {}): Promise<StartedConsole> {
  const { hosts = ["mac-1"], serverArgs = [], gatewayArgs = [], hub = {} } = options;
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(await startCluster({ controllerManager: WITH_SLICES }));
  // An EndpointSlice holds no loopback address: engines listen on this machine's side of a network of its own.
  const network = stack.use(await openNetwork(["station"]));
  const origin = stack.use(await startOrigin());
  const config = { disk: { reserve: 0 }, huggingFace: { endpoint: origin.url } };
  const agents = hosts.map((hostName) => ({ hostName, config }));
  const controllerArgs = ["--hf-endpoint", origin.url];
  const { kubeconfig } = cluster;
  const farm = stack.use(await startFleet({ kubeconfig, address: network.gateway, agents, controllerArgs }));
  const tinyModel = path.join(farm.modelsDir, "tiny.gguf");
  await writeTinyGguf(tinyModel, { endless: true, layers: 2, embeddingSize: 64, contextLength: 8192 });
  for (const [repo, names] of Object.entries(hub)) {
    const weights = await readFile(tinyModel);
    serveRepo(origin, repo, { files: Object.fromEntries(names.map((name) => [name, weights])) });
  }
  const gateway = stack.use(await startGateway(kubeconfig, gatewayArgs));
  const open = stack.use(await openOver(cluster, ["--gateway-url", gateway.url, ...serverArgs]));
  const { apply } = farm.objects;
  const untilPhase = (service: string, phase: string) =>
    farm.objects.until("default", `isvc/${service}`, (found) => expect(found?.status?.phase).toBe(phase));
  const kept = stack.move();
  return {
    ...open,
    farm,
    gateway,
    tinyModel,
    apply,
    untilPhase,
    serve: async (name, host, spec = {}) => {
      const usual = {
        placement: { hosts: [host] },
        contextSize: 4096,
        // With a shifting context, an answer without a limit of tokens ends when the reader stops it.
        extraArgs: [...ONE_THREAD, "--context-shift"],
        rollout: { drainSeconds: 5 },
      };
      await apply(model(name, tinyModel), serviceAnywhere(name, { ...usual, ...spec }));
      await untilPhase(name, "Ready");
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** Hosts and services are objects that nothing acts on. */
export async function startSyntheticConsole(options: SyntheticFarmOptions): Promise<SyntheticConsole> {
  await using stack = new AsyncDisposableStack();
  const cluster = stack.use(await startCluster());
  const farm = stack.use(await startSyntheticFarm(cluster.kubeconfig, options));
  const gateway = options.hasClients === true ? stack.use(await serveSyntheticGateway(farm)) : undefined;
  const flags = gateway === undefined ? [] : ["--gateway-url", gateway.url];
  const open = stack.use(await openOver(cluster, flags));
  const kept = stack.move();
  return { ...open, farm, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function openOver(cluster: PrivateCluster, serverArgs: readonly string[]): Promise<OpenConsole> {
  await using stack = new AsyncDisposableStack();
  const dir = await mkdtemp(path.join(tmpdir(), "mb-console-"));
  stack.defer(() => rm(dir, { recursive: true, force: true, maxRetries: 5 }));
  const server = stack.use(await startConsoleServer(cluster.kubeconfig, dir, serverArgs));
  const browser = await openBrowser();
  stack.defer(() => browser.close());
  const { url } = server;
  const token = (name: string, rights?: Rights) => tokenFor(cluster, name, rights);
  const administrator = await token("console-test");
  const signedIn: OpenConsole["signedIn"] = (options) =>
    openPage(browser, url, { token: administrator, ...options });
  const kept = stack.move();
  return {
    cluster,
    server,
    browser,
    url,
    token,
    signedIn,
    administrator: oneReader(signedIn),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** The page goes with its browser. One that had problems is not for other tests. */
function oneReader(signedIn: () => Promise<ConsolePage>): () => Promise<ConsolePage> {
  let idle: ConsolePage | undefined;
  return async () => {
    const reader = idle ?? (await signedIn());
    if (idle === undefined) await reader.open("/settings");
    idle = undefined;
    return {
      ...reader,
      [Symbol.asyncDispose]: async () => {
        await reader.rest();
        idle = reader;
      },
    };
  };
}

function oneOf<T extends AsyncDisposable>(start: () => Promise<T>): () => T {
  let started: T | undefined;
  beforeAll(async () => {
    started = await start();
  });
  afterAll(() => started?.[Symbol.asyncDispose]());
  return () => {
    if (started === undefined) throw new Error("the console starts before the first test, not before");
    return started;
  };
}
