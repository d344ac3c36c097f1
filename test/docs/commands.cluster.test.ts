/** Every kubectl command of the pages works. */
import { expect, test } from "vitest";
import type { ErrorEntry } from "../../src/api/errors/entry.ts";
import { errorCatalog } from "../../src/api/errors.ts";
import { sharedCluster } from "../cluster/cluster.ts";
import { isForReaders, readOnlyCommandsIn, readOnlyCommandsOf } from "./commands.ts";
import { allPages } from "./pages.ts";

const entries: readonly ErrorEntry[] = Object.values(errorCatalog);
const commands = new Set([
  ...allPages().filter(isForReaders).flatMap(readOnlyCommandsOf),
  ...entries.flatMap(({ command }) => readOnlyCommandsIn(command ?? "")),
]);

const NOT_THERE =
  /\(NotFound\): (\S+ "[\w.-]+" not found|the server could not find the requested resource)|resource type "(lws|prometheusrules)"/;

test("there are such commands", () => {
  expect([...commands]).toContain("kubectl explain isvc.spec.contextSize");
});

test.for([...commands])("%s", async (command) => {
  // An empty answer is fine, and so is an example's object that was never created, or an API of another program; a kind of ours,
  // a field or an option that does not exist is not.
  const words = wordsOf(command).slice(1);
  await sharedCluster()
    .kubectl(words)
    .catch((error: unknown) => expect(String(error)).toMatch(NOT_THERE));
});

/** As a shell reads them: quotes hold a word together and are no part of it, others inside them are. */
function wordsOf(command: string): string[] {
  const words = command.match(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g) ?? [];
  return words.map((word) => word.replaceAll(/'([^']*)'|"([^"]*)"/g, (_, one, other) => one ?? other));
}
