/**
 * What the page shows of a cluster that changes, that is lost, or that is far away.
 * CPU: a browser over a whole farm whose control plane ends and comes back.
 */
import { afterEach, expect, it } from "vitest";
import type { ConsolePage } from "../bed/console/browser.ts";
import { describeUnless } from "../bed/describe-unless.ts";
import { until } from "../bed/until.ts";
import { oneSyntheticConsole, whyNoConsole } from "./started-console.ts";

const HOUR = 3_600_000;
/** A page that is cut off reports failed requests, and may retry them. */
const CUT_OFF = /Failed to load resource|net::ERR_|ERR_/;

describeUnless(whyNoConsole, "a page over a cluster that changes", () => {
  const on = oneSyntheticConsole({ hosts: 10, services: 8 });
  const cluster = () => on().cluster;
  const cordon = (host: string, isCordoned: boolean) =>
    cluster().objects.patch("", `mbhost/${host}`, { spec: { unschedulable: isCordoned } });
  const hostOf = ({ page }: ConsolePage, host: string) => page.locator(`main a[href$="/hosts/${host}"]`);
  const cordoned = (reader: ConsolePage, host = "mac-0001") =>
    hostOf(reader, host).getByText("Cordoned").first();
  /** The stream is open, and rows have come. */
  const untilLive = async (reader: ConsolePage) => {
    await reader.page.locator(".link-live").waitFor();
    await hostOf(reader, "mac-0001").first().waitFor();
  };
  const untilReconnecting = ({ page }: ConsolePage) => page.locator(".link-reconnecting").waitFor();

  afterEach(async () => {
    for (const host of ["mac-0001", "mac-0002", "mac-0003"]) await until(() => cordon(host, false));
  });

  it("shows a change as it happens, and in every tab of the browser", async () => {
    await using reader = await on().signedIn();
    await reader.open("/hosts");
    await untilLive(reader);
    const other = await reader.context.newPage();
    await other.goto(`${on().url}/console/hosts`);
    await other.locator(".link-live").waitFor();
    const others = other.locator("main a").filter({ hasText: "mac-0001" }).getByText("Cordoned").first();
    for (const isCordoned of [true, false]) {
      await cordon("mac-0001", isCordoned);
      const state = isCordoned ? "visible" : "detached";
      await cordoned(reader).waitFor({ state });
      await others.waitFor({ state });
    }
  });

  it("marks a lost server, keeps what it knows, and is current again without a reload", async () => {
    await using reader = await on().signedIn();
    reader.expectProblems(CUT_OFF);
    await reader.open("/hosts");
    await untilLive(reader);
    await on().server.part().kill("SIGKILL");
    try {
      await untilReconnecting(reader);
      expect(await hostOf(reader, "mac-0001").count()).toBe(1);
      await cordon("mac-0002", true);
    } finally {
      await on().server.restart();
    }
    // The key of the sessions was in the memory of the server that is gone.
    await reader.page.getByRole("dialog", { name: "Sign in" }).waitFor();
    await reader.page.locator("input[type=password]").fill(await on().token("console-test"));
    await reader.page.getByRole("dialog").getByRole("button", { name: "Sign in" }).click();
    await untilLive(reader);
    await cordoned(reader, "mac-0002").waitFor();
  });

  it("outlives an API server that stops and returns", async () => {
    await using reader = await on().signedIn();
    reader.expectProblems(CUT_OFF);
    reader.expectProblems(/50[0-9]/);
    await reader.open("/hosts");
    await untilLive(reader);
    await cluster().stopApiServer();
    try {
      await reader.page.locator(".link-away").waitFor();
      expect(await hostOf(reader, "mac-0001").count()).toBe(1);
    } finally {
      await cluster().startApiServer();
    }
    await untilLive(reader);
    await until(() => cordon("mac-0003", true));
    await cordoned(reader, "mac-0003").waitFor();
  });

  it("asks to sign in again over the page when the token ends, and continues there", async () => {
    const token = await on().token("leaver");
    await using reader = await on().signedIn({ token });
    reader.expectProblems(/401/);
    await reader.open("/hosts");
    await untilLive(reader);
    await cluster().objects.remove("default", "serviceaccount/leaver");
    const dialog = reader.page.getByRole("dialog", { name: "Sign in" });
    // Rights are known for half a minute.
    await dialog.waitFor();
    expect(await hostOf(reader, "mac-0001").count()).toBe(1);
    await reader.page.locator("input[type=password]").fill(await on().token("successor"));
    await dialog.getByRole("button", { name: "Sign in" }).click();
    await untilLive(reader);
    expect(reader.page.url()).toContain("/console/hosts");
  });

  it("works on a slow network, and shows that it is loading", async () => {
    await using reader = await on().signedIn();
    const session = await reader.context.newCDPSession(reader.page);
    await session.send("Network.enable");
    const slow = { latency: 400, downloadThroughput: 50_000, uploadThroughput: 50_000, offline: false };
    await session.send("Network.emulateNetworkConditions", slow);
    await reader.page.goto(`${on().url}/console/hosts`, { waitUntil: "commit" });
    await untilLive(reader);
  });

  it("loads the document again where a part of a page did not arrive", async () => {
    await using reader = await on().signedIn();
    reader.expectProblems(CUT_OFF);
    reader.expectProblems(/Failed to fetch dynamically imported module|Unable to preload CSS/);
    await reader.open("/hosts");
    await reader.context.route(/\/assets\//, (route) => route.abort());
    await reader.page.getByRole("link", { name: "What fits" }).click();
    await reader.page.getByRole("heading", { name: "This page could not be shown" }).waitFor();
    await reader.context.unroute(/\/assets\//);
    await reader.page.getByRole("button", { name: "Try again" }).click();
    await reader.page.getByRole("heading", { name: "What fits" }).waitFor();
  });

  it("takes ages from the server's clock where that of the browser is wrong", async () => {
    const shift = `{ const right = Date.now; Date.now = () => right() - ${5 * HOUR}; }`;
    // A script cannot be put before those of a SharedWorker: the page then has a worker of its own.
    await using reader = await on().signedIn({ before: `${shift} delete globalThis.SharedWorker;` });
    await reader.context.route(/\/assets\/worker-[^/]*\.js$/, async (route) => {
      const body = `${shift}\n${await (await route.fetch()).text()}`;
      await route.fulfill({ body, contentType: "text/javascript" });
    });
    await reader.open("/hosts");
    await untilLive(reader);
    // The one host that is stale.
    await expect.poll(() => reader.page.locator("main time").allTextContents()).toHaveLength(1);
    expect(await reader.page.locator("main time").textContent()).toMatch(/^2\d min ago$/);
  });
});
