/** The console over hosts and services that a script writes: control plane, server and Chromium are real. */
import type { Browser } from "playwright-core";
import { type ConsolePage, openBrowser, openPage } from "../../../../test/bed/console/browser.ts";
import { type Rights, tokenFor } from "../../../../test/bed/console/console-server.ts";
import { type SyntheticFarm, startSyntheticFarm } from "../../../../test/bed/console/synthetic-farm.ts";
import { objectsOf } from "../../../../test/bed/objects.ts";
import type { Part } from "../../../../test/bed/part.ts";
import { until } from "../../../../test/bed/until.ts";
import { openOn } from "../../beds/bed.ts";
import type { Plane } from "../../beds/plane.ts";
import { type Changes, startChanges, startWatchProxy } from "./changes.ts";

export interface ConsoleRig extends Plane {
  readonly fleet: SyntheticFarm;
  /** Changes services, so many times a second, until it is stopped. */
  readonly startChanges: (perSecond: number) => Changes;
  readonly server: Part;
  /** Without /console. */
  readonly url: string;
  readonly browser: Browser;
  readonly token: (name: string, rights?: Rights) => Promise<string>;
  /** Signed in as an administrator, with an empty cache; `before` runs before the page's own scripts. */
  readonly open: (before?: string) => Promise<ConsolePage>;
}

const LIMIT_MS = 600_000;
const SERVICES_PER_HOST = 5;
const HOSTS_PER_NODE = 25;

/** Resolves once the server has scored everything. */
export async function openConsoleRig(hosts: number): Promise<ConsoleRig> {
  return openOn({ fsync: false }, async (plane) => {
    const { kubeconfig } = plane.controlPlane;
    const counts = { hosts, services: SERVICES_PER_HOST * hosts, nodes: Math.floor(hosts / HOSTS_PER_NODE) };
    const fleet = plane.use(await startSyntheticFarm(kubeconfig, counts));
    const proxy = plane.use(await startWatchProxy(plane));
    const flags = ["--kubeconfig", proxy.kubeconfig, "--port", "0", "--health-port", "0"];
    const server = plane.start("server", ...flags);
    const ports = await portsOf(server);
    await until(
      async () => {
        const response = await fetch(`http://127.0.0.1:${ports.health}/readyz`);
        if (!response.ok) throw new Error(await response.text());
      },
      { timeoutMs: LIMIT_MS },
    );
    const browser = await openBrowser();
    plane.atEnd(() => browser.close());
    const url = `http://127.0.0.1:${ports.api}`;
    const objects = objectsOf(kubeconfig);
    plane.atEnd(async () => objects[Symbol.dispose]());
    const token = (name: string, rights?: Rights) => tokenFor({ objects }, name, rights);
    const administrator = await token("bench");
    const open = (before?: string) => openPage(browser, url, { token: administrator, before });
    const changes = (perSecond: number) => startChanges(fleet.written, perSecond, proxy.send);
    return { ...plane, fleet, startChanges: changes, server, url, browser, token, open };
  });
}

async function portsOf(server: Part): Promise<{ readonly api: string; readonly health: string }> {
  return until(
    () => {
      const [, api, health] = /"api":(\d+),"health":(\d+)/.exec(server.log()) ?? [];
      if (api === undefined || health === undefined)
        throw new Error(`the server did not start:\n${server.log().slice(-2_000)}`);
      return { api, health };
    },
    { timeoutMs: LIMIT_MS },
  );
}
