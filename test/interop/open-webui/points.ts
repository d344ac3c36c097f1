/** Tries the real Open WebUI with the variables of examples/open-webui, in front of `npm start` with one key. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import path from "node:path";
import type { InteropCheck } from "../../../controller/pods/workload/fixtures/interop-facts.ts";
import { errorMessage } from "../../../src/util/error-message.ts";
import { until } from "../../bed/until.ts";
import { temporaryFolder } from "../../fixtures/temporary-folder.ts";
import { type Farm, SERVICE, startFarm } from "../farm.ts";
import { type Account, type SignedIn, signIn, signUp } from "./api.ts";
import { OPEN_WEBUI_VERSION, type OpenWebUI, startOpenWebUI } from "./program.ts";

interface Tried {
  readonly farm: Farm;
  readonly webui: OpenWebUI;
}

const KEY = "open-webui";
const [ANN, BOB, CAT] = ["ann", "bob", "cat"].map(accountOf) as [Account, Account, Account];
const SHORT = 16;
/** A request that others wait for. */
const LONG = 400;
const BEFORE = 5;

/** In this order: later points need the accounts of earlier ones. */
const POINTS: readonly (readonly [string, (tried: Tried) => Promise<void> | void])[] = [
  ["starts with the variables of the example, and answers its readiness probe", hasVersionOfImage],
  ["the first account is the administrator", firstIsAdministrator],
  ["an account that the administrator adds is a user, and sign-up is closed", addsUser],
  ["administrator and user see the models of the key", seesModels],
  ["administrator and user chat, streamed by the engine", chats],
  ["tokens are counted for the key", countsTokens],
  ["a user does not wait behind five requests of another one", sharesTurns],
  ["a chat that the page starts is stored with its answer, and the model is asked for its title", storesChat],
  ["a user sees what the gateway says of a revoked key", showsRefusal],
  ["needs less memory than the limit of the example", staysBelowLimit],
];

/** One result per point. */
export async function tryOpenWebUI(
  bin: string,
  note: (text: string) => void,
): Promise<readonly InteropCheck[]> {
  await using folder = await temporaryFolder();
  const userJwtSecret = random();
  note("npm start");
  await using farm = await startFarm(folder.path, userJwtSecret);
  const apiKey = await farm.run("key", "create", KEY, "--yes", "--services", `default/${SERVICE}`);
  note("open-webui serve");
  const secret = { apiKey, userJwtSecret, sessionSecret: random() };
  const place = { bin, folder: path.join(folder.path, "open-webui"), gateway: farm.url, secret };
  await using webui = await startOpenWebUI(place);
  const results: InteropCheck[] = [];
  for (const [point, run] of POINTS) {
    note(point);
    results.push({ point, differs: await differenceOf(() => run({ farm, webui })) });
  }
  return results;
}

/** Undefined if it does not throw. */
export async function differenceOf(run: () => Promise<void> | void): Promise<string | undefined> {
  try {
    await run();
    return undefined;
  } catch (error) {
    return errorMessage(error).replaceAll(/\s+/g, " ").slice(0, 400);
  }
}

function hasVersionOfImage({ webui }: Tried): void {
  assert.equal(webui.image.split(":").at(-1), `v${OPEN_WEBUI_VERSION}-slim`);
}

async function firstIsAdministrator({ webui }: Tried): Promise<void> {
  assert.equal((await signUp(webui.url, ANN)).role, "admin");
}

async function addsUser({ webui }: Tried): Promise<void> {
  await (await signIn(webui.url, ANN)).add(BOB);
  assert.equal((await signIn(webui.url, BOB)).role, "user");
  await assert.rejects(signUp(webui.url, CAT), /^Error: 403 /);
}

async function seesModels({ webui }: Tried): Promise<void> {
  for (const account of [ANN, BOB])
    assert.deepEqual(await (await signIn(webui.url, account)).models(), [SERVICE]);
}

async function chats({ webui }: Tried): Promise<void> {
  for (const user of await bothUsers(webui)) assert.equal(await user.chat(SERVICE, SHORT), SHORT);
}

async function countsTokens({ farm }: Tried): Promise<void> {
  await until(async () => {
    const counted = new RegExp(`_tokens_total\\{key="${KEY}",.*type="output"\\} ${2 * SHORT}$`, "m");
    assert.match(await farm.metrics(), counted);
  });
}

async function storesChat({ farm, webui }: Tried): Promise<void> {
  const before = await answered(farm);
  assert.match(await (await signIn(webui.url, BOB)).startChat(SERVICE, SHORT), /^(?!error: )./);
  await until(async () => assert.ok((await answered(farm)) >= before + 2, "no request for a title"));
}

async function answered(farm: Farm): Promise<number> {
  const [, count] =
    /^metalbridge_gateway_requests_total\{.*code="200"\} (\d+)$/m.exec(await farm.metrics()) ?? [];
  return Number(count);
}

/** All are behind one key, and the service has one slot: in the order of arrival, the user would be the last. */
async function sharesTurns({ farm, webui }: Tried): Promise<void> {
  const [ann, bob] = await bothUsers(webui);
  const served: string[] = [];
  const send = async (name: string, user: SignedIn) => {
    await user.chat(SERVICE, LONG);
    served.push(name);
  };
  const first = Array.from({ length: BEFORE }, () => send("ann", ann));
  await until(
    async () => {
      const { waiting, slots } = await farm.queue();
      assert.deepEqual({ waiting, slots }, { waiting: BEFORE - 1, slots: { used: 1, total: 1 } });
    },
    { everyMs: 10, timeoutMs: 10_000 },
  );
  await Promise.all([...first, send("bob", bob)]);
  assert.ok(served.indexOf("bob") <= BEFORE / 2, `order of service: ${served.join(", ")}`);
}

async function showsRefusal({ farm, webui }: Tried): Promise<void> {
  const bob = await signIn(webui.url, BOB);
  await farm.run("key", "revoke", KEY);
  await until(() => assert.rejects(bob.chat(SERVICE, SHORT), /was revoked/));
}

function staysBelowLimit({ webui }: Tried): void {
  const [peak, limit] = [webui.peakBytes(), webui.memoryLimitBytes];
  assert.ok(peak > 0 && peak < limit, `${peak} bytes, and the limit is ${limit}`);
}

function bothUsers({ url }: OpenWebUI): Promise<[SignedIn, SignedIn]> {
  return Promise.all([signIn(url, ANN), signIn(url, BOB)]);
}

function accountOf(name: string): Account {
  return { name, email: `${name}@example.com`, password: random() };
}

function random(): string {
  return randomBytes(24).toString("base64url");
}
