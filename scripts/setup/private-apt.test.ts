import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { findOnPath } from "./command.mjs";
import { askApt, debianOnly, STALE_LISTS } from "./private-apt.mjs";

describe.skipIf(findOnPath("apt-get") === undefined)("apt of its own (needs apt-get)", () => {
  test("apt keeps its state in the given folder, and leaves it to the system whether expired lists are refused", async () => {
    await using folder = await temporaryFolder();
    const settings = debianOnly(folder.path, [], "arm64");
    const configurationWith = async (more: object) => {
      await askApt(folder.path, ["indextargets"], { ...settings, ...more });
      return readFile(path.join(folder.path, "apt.conf"), "utf8");
    };
    expect(await configurationWith({})).not.toContain("Valid-Until");
    // apt locks the folder of this file.
    expect(await configurationWith({})).toContain(`Dir::State::status "${folder.path}/`);
    expect(await configurationWith(STALE_LISTS)).toContain('Acquire::Check-Valid-Until "false";');
  });
});
