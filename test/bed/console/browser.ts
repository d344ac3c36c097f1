/** Chromium of setup, and pages of the console that are signed in. Whatever goes wrong in a page fails its test. */
import { setTimeout as pause } from "node:timers/promises";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { findChromium } from "../../../scripts/setup/chromium.mjs";
import { CONSOLE_HEADER, CONSOLE_PATH } from "../../../src/console/protocol.ts";

const program: string | undefined = findChromium();

export const hasBrowser = program !== undefined;

/** Undefined where there is a browser, else the reason for skipping a test. */
export const whyNoBrowser: string | undefined = hasBrowser
  ? undefined
  : "needs Chromium: npm run setup -- --for test";

export interface PageOptions {
  /** Bearer token of the reader. Without one, or with an empty one, the page asks for it. */
  readonly token?: string;
  readonly width?: number;
  readonly theme?: "light" | "dark";
  /** Script that runs before those of the page. */
  readonly before?: string;
}

export interface ConsolePage extends AsyncDisposable {
  readonly page: Page;
  readonly context: BrowserContext;
  /** Opens a path below /console, such as `/services`, and waits until the page has its title and nothing is loading. */
  readonly open: (path: string) => Promise<void>;
  /** Goes from one page to another as a link does, without a load of the document, which takes half a second of a core. */
  readonly goTo: (path: string) => Promise<void>;
  /** Errors in the browser's console, exceptions and violations of the CSP, without those that are expected. */
  readonly problems: () => readonly string[];
  /** For tests that cause one, such as a lost connection. Counts for earlier problems, too. */
  readonly expectProblems: (pattern: RegExp) => void;
  /** Leaves what is shown, and rejects if there were problems, which then are forgotten, as are those that were expected. */
  readonly rest: () => Promise<void>;
}

const HEIGHT = 900;
/** The machine may be busy; it only fails a test. */
const PATIENCE_MS = 90_000;
/** Chromium gives up all requests when an interface of the machine comes or goes, and other tests have networks of their own. */
const NETWORK_CHANGED = /net::ERR_NETWORK_CHANGED/;
const MAX_LOADS = 5;
const INTERRUPTION_CHECK_MS = 100;
/** Shown between two pages, so that nothing of the first one is taken for the second. */
const NOWHERE = { path: "/no-such-page", text: "There is no page at this address." };

/** A sandbox needs rights that root in a container lacks. Pages are those of the test alone. */
export async function openBrowser(args: readonly string[] = []): Promise<Browser> {
  return chromium.launch({ executablePath: program, args: ["--no-sandbox", ...args] });
}

/** A browser of its own for one reader: cookies, cache and storage are empty. Disposal rejects if the page had problems. */
export async function openPage(
  browser: Browser,
  url: string,
  options: PageOptions = {},
): Promise<ConsolePage> {
  const { token, width = 1440, theme = "light", before } = options;
  const context = await browser.newContext({
    viewport: { width, height: HEIGHT },
    colorScheme: theme,
    reducedMotion: "reduce",
    permissions: ["clipboard-read", "clipboard-write"],
  });
  context.setDefaultTimeout(PATIENCE_MS);
  if (before !== undefined) await context.addInitScript(before);
  if (token !== undefined && token !== "") await signIn(context, url, token);
  const page = await context.newPage();
  const seen = collectProblems(page);
  const expected: RegExp[] = [NETWORK_CHANGED];
  const problems = () => seen.filter((one) => !expected.some((pattern) => pattern.test(one)));
  const rejectProblems = () => {
    if (problems().length > 0) throw new Error(`the page had problems:\n${problems().join("\n")}`);
  };
  return {
    page,
    context,
    open: (path) => load(page, `${url}${CONSOLE_PATH}${path}`, seen),
    goTo: async (path) => {
      await leave(page);
      await push(page, path);
      await page.getByText(NOWHERE.text).waitFor({ state: "detached" });
      await untilLoaded(page);
    },
    problems,
    expectProblems: (pattern) => void expected.push(pattern),
    rest: async () => {
      await leave(page);
      try {
        rejectProblems();
      } finally {
        seen.length = 0;
        expected.length = 1;
      }
    },
    [Symbol.asyncDispose]: async () => {
      await context.close();
      rejectProblems();
    },
  };
}

async function load(page: Page, url: string, seen: string[]): Promise<void> {
  for (let load = 1; load <= MAX_LOADS; load += 1) {
    const before = seen.length;
    const interrupted = () => seen.slice(before).some((one) => NETWORK_CHANGED.test(one));
    await page.goto(url);
    // Without its scripts the page would never have a title, nor be loaded.
    const loaded = untilLoaded(page);
    while (!interrupted() && !(await Promise.race([loaded, pause(INTERRUPTION_CHECK_MS, false)])));
    loaded.catch(() => undefined);
    if (!interrupted()) return;
    // Scripts and styles that did not arrive cause further errors.
    seen.length = before;
  }
  throw new Error(`the network changed during ${MAX_LOADS} loads of ${url}`);
}

async function leave(page: Page): Promise<void> {
  await push(page, NOWHERE.path);
  await page.getByText(NOWHERE.text).waitFor();
}

/** The router follows what scripts do with the history. */
async function push(page: Page, path: string): Promise<void> {
  await page.evaluate(`history.pushState(null, "", ${JSON.stringify(CONSOLE_PATH + path)})`);
}

async function untilLoaded(page: Page): Promise<true> {
  await page.locator("main").locator("h1, h2").first().waitFor();
  await page.locator("main [aria-busy=true]").first().waitFor({ state: "detached" });
  return true;
}

/** Exchanges a token for the session cookie, as the sign-in page does. */
export async function signIn(context: BrowserContext, url: string, token: string): Promise<void> {
  const answer = await context.request.post(`${url}${CONSOLE_PATH}/session`, {
    headers: { [CONSOLE_HEADER]: "1", origin: url },
    data: { token },
  });
  if (!answer.ok()) throw new Error(`the sign-in is refused: ${answer.status()} ${await answer.text()}`);
}

/** The browser reports violations of the CSP, and requests that fail, as errors in its console. */
function collectProblems(page: Page): string[] {
  const seen: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") seen.push(`${message.text()} (${message.location().url})`);
  });
  page.on("pageerror", (error) => seen.push(error.stack ?? error.message));
  page.on("crash", () => seen.push("the page has crashed"));
  return seen;
}
