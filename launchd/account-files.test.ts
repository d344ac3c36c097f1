import { execFileSync } from "node:child_process";
import {
  chownSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { readPlainFile } from "../src/util/plain-file.ts";
import { temporaryFolder } from "../test/fixtures/temporary-folder.ts";
import { accountControlling, asOwnerOf, makeOwnedFolder, removeTree, replaceFile } from "./account-files.ts";

const isRoot = process.geteuid?.() === 0;
const OTHER = { uid: 65_534, gid: 65_534 };
const ROOT = path.join(import.meta.dirname, "..");

/** What an account may put where root writes, reads or removes. */
const KINDS = [
  "file",
  "folder",
  "link to a file",
  "link to a folder",
  "link to nothing",
  "hard link",
  "FIFO",
] as const;
type Kind = (typeof KINDS)[number];

function put(kind: Kind, at: string, victim: string): void {
  if (kind === "file") writeFileSync(at, "own");
  else if (kind === "folder") mkdirSync(at);
  else if (kind === "hard link") linkSync(path.join(victim, "file"), at);
  else if (kind === "FIFO") execFileSync("mkfifo", [at]);
  else
    symlinkSync(
      kind === "link to nothing" ? "/nowhere" : path.join(victim, kind === "link to a file" ? "file" : ""),
      at,
    );
  if (kind !== "hard link") execFileSync("chown", ["-h", `${OTHER.uid}:${OTHER.gid}`, at]);
}

/** A folder of root's and one of another account beside it. */
async function twoFolders() {
  const folder = await temporaryFolder();
  execFileSync("chmod", ["755", folder.path]);
  const [victim, theirs] = [path.join(folder.path, "victim"), path.join(folder.path, "theirs")];
  mkdirSync(victim);
  mkdirSync(theirs);
  writeFileSync(path.join(victim, "file"), "root's", { mode: 0o600 });
  chownSync(theirs, OTHER.uid, OTHER.gid);
  const untouched = () => ({
    text: readFileSync(path.join(victim, "file"), "utf8"),
    names: execFileSync("ls", [victim], { encoding: "utf8" }),
    ...(({ uid, gid, mode }) => ({ uid, gid, mode }))(lstatSync(path.join(victim, "file"))),
    folder: lstatSync(victim).uid,
  });
  return {
    victim,
    theirs,
    untouched,
    before: untouched(),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

test.runIf(isRoot)(
  "whatever an account puts in its folder, nothing of root's changes and nothing waits",
  async () => {
    const action = fc.constantFrom("write", "make folder", "read", "remove");
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...KINDS),
        fc.constantFrom(...KINDS),
        action,
        async (kind, temporary, what) => {
          await using two = await twoFolders();
          const at = path.join(two.theirs, "kubeconfig");
          put(kind, at, two.victim);
          put(temporary, `${at}.metalbridge-new`, two.victim);
          try {
            if (what === "write") replaceFile(at, "new", { mode: 0o644, ids: OTHER });
            if (what === "make folder") makeOwnedFolder(at, 0o777, OTHER);
            if (what === "read")
              expect(asOwnerOf(two.theirs, () => readPlainFile(at, { maxBytes: 100 }))).not.toContain(
                "root's",
              );
            if (what === "remove") removeTree(two.theirs, "account");
          } catch (error) {
            // Refused by the system, or by the readers themselves.
            expect(error).toHaveProperty("code");
          }
          expect(two.untouched()).toEqual(two.before);
          expect(process.geteuid?.()).toBe(0);
          if (what === "remove") expect(existsSync(two.theirs)).toBe(false);
        },
      ),
      { numRuns: 60 },
    );
  },
);

test.each(["kubeconfig", "kubeconfig.metalbridge-new"])(
  "a folder %s in the way of a file is named with how to remove it, and stays",
  async (name) => {
    await using folder = await temporaryFolder();
    const at = path.join(folder.path, name);
    mkdirSync(at);
    const write = () => replaceFile(path.join(folder.path, "kubeconfig"), "new", { mode: 0o600 });
    expect(write).toThrow(`${at} is a folder, where a file belongs: remove it (rm -r '${at}') and retry`);
    expect(await readdir(folder.path)).toEqual([name]);
  },
);

test.runIf(isRoot)("a path is as trustworthy as the first folder or link that is not root's", async () => {
  await using two = await twoFolders();
  expect(accountControlling(two.victim)).toBeUndefined();
  expect(accountControlling(path.join(two.theirs, "any", "thing"))).toEqual({ ...OTHER, at: two.theirs });
  symlinkSync(two.theirs, path.join(two.victim, "roots-link"));
  expect(accountControlling(path.join(two.victim, "roots-link", "x"))).toMatchObject(OTHER);
  symlinkSync(two.victim, path.join(two.theirs, "link"));
  expect(accountControlling(path.join(two.theirs, "link", "file"))).toMatchObject(OTHER);
  symlinkSync("loop", path.join(two.victim, "loop"));
  expect(() => accountControlling(path.join(two.victim, "loop"))).toThrow(/too many links/);
  execFileSync("chmod", ["777", two.victim]);
  expect(() => accountControlling(path.join(two.victim, "file"))).toThrow(/every account may change/);
});

test("readPlainFile refuses a file above the limit, and reads its end on request", async () => {
  await using folder = await temporaryFolder();
  const file = path.join(folder.path, "log");
  fc.assert(
    fc.property(
      fc.string({ unit: "grapheme-ascii", maxLength: 300 }),
      fc.integer({ min: 1, max: 200 }),
      (text, maxBytes) => {
        writeFileSync(file, text);
        expect(readPlainFile(file, { maxBytes, atEnd: true })).toBe(text.slice(-maxBytes));
        const whole = () => readPlainFile(file, { maxBytes });
        if (text.length <= maxBytes) expect(whole()).toBe(text);
        else expect(whole).toThrow(/larger than/);
      },
    ),
  );
});

test.runIf(isRoot)("what an account has led elsewhere is removed with its rights", async () => {
  await using two = await twoFolders();
  const state = path.join(two.theirs, "state");
  symlinkSync(two.victim, state);
  const remove = () => removeTree(path.join(state, "file"), "account");
  expect(remove).toThrow(expect.objectContaining({ code: "EACCES" }));
  expect(two.untouched()).toEqual(two.before);
  expect(process.geteuid?.()).toBe(0);
  execFileSync("rm", [state]);
  mkdirSync(state);
  chownSync(state, OTHER.uid, OTHER.gid);
  put("file", path.join(state, "own"), two.victim);
  removeTree(state, "account");
  expect(existsSync(state)).toBe(false);
});

test.runIf(isRoot)("root's files in a folder of another account are removed by root", async () => {
  await using two = await twoFolders();
  const own = path.join(two.theirs, "own");
  mkdirSync(path.join(own, "versions"), { recursive: true });
  removeTree(own, "installer");
  expect(existsSync(own)).toBe(false);
});

test("removeTree removes links, and retains their targets", async () => {
  await using folder = await temporaryFolder();
  const [tree, kept] = [path.join(folder.path, "tree"), path.join(folder.path, "kept")];
  mkdirSync(path.join(tree, "a/b/c"), { recursive: true });
  mkdirSync(kept);
  writeFileSync(path.join(tree, "a/b/file"), "");
  symlinkSync(kept, path.join(tree, "a/link"));
  removeTree(tree, "installer");
  removeTree(tree, "installer");
  expect([existsSync(tree), existsSync(kept)]).toEqual([false, true]);
  symlinkSync(kept, tree);
  expect(readlinkSync(tree)).toBe(kept);
  removeTree(tree, "installer");
  expect(existsSync(kept)).toBe(true);
});

test("owners and rights are changed in one file only", async () => {
  const allowed = ["launchd/account-files.ts", "cli/install/installed-agent.ts"];
  const found: string[] = [];
  for (const part of ["launchd", "cli"])
    for (const name of await readdir(path.join(ROOT, part), { recursive: true })) {
      const file = `${part}/${name}`;
      if (!file.endsWith(".ts") || file.endsWith(".test.ts")) continue;
      const text = await readFile(path.join(ROOT, file), "utf8");
      if (/chown(Sync)?\(|\.set(e|re)?[ug]id\b|setgroups/.test(text)) found.push(file);
    }
  expect(found.sort()).toEqual(allowed.sort());
});
