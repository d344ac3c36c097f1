/** Where locked packages come from, and that nothing but the locked bytes is taken. */
import { readdirSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { sha256Hex } from "../../src/util/hash.ts";
import { serveHttp } from "../../test/bed/http-server.ts";
import { temporaryFolder } from "../../test/fixtures/temporary-folder.ts";
import { DEBIAN_ARCHITECTURES, type DebianLock, fetchLocked, PACKAGES, readLock } from "./debian-lock.ts";

const PLACE = "pool/main/t/tiny/tiny_1%2b2_all.deb";
const sha256 = sha256Hex("package");
const locked = { archive: "debian", path: PLACE, sha256 };
const LOCK: DebianLock = {
  suite: "trixie",
  snapshot: "20260102T030405Z",
  packages: { amd64: [locked], arm64: [] },
};
const SNAPSHOT = `/archive/debian/20260102T030405Z/${PLACE}`;

/** A mirror below /, and snapshots below /archive. */
async function serve(files: Readonly<Record<string, string>>) {
  const asked: string[] = [];
  const server = await serveHttp(({ url = "" }, response) => {
    asked.push(url);
    const content = files[url];
    response.writeHead(content === undefined ? 404 : 200).end(content);
  });
  const mirror = server.url;
  return {
    asked,
    options: { mirror, snapshots: `${mirror}/archive` },
    [Symbol.asyncDispose]: server[Symbol.asyncDispose],
  };
}

test("the lock has every package for both architectures, and no others", () => {
  const { packages } = readLock();
  for (const architecture of DEBIAN_ARCHITECTURES) {
    const names = packages[architecture].map(({ path: file }) => file.replace(/^.*\/([^_]+)_.*$/, "$1"));
    expect(names.map(decodeURIComponent).sort()).toEqual([...PACKAGES].sort());
    for (const one of packages[architecture]) {
      expect(one.path).toMatch(new RegExp(`_(${architecture}|all)\\.deb$`));
      expect(one.sha256).toMatch(/^[0-9a-f]{64}$/);
    }
  }
});

test("a package that the mirror has no more comes from the snapshots, once", async () => {
  await using folder = await temporaryFolder();
  await using server = await serve({ [SNAPSHOT]: "package" });
  const options = { ...server.options, folder: folder.path };
  const [file = ""] = await fetchLocked(LOCK, "amd64", options);
  expect(readFileSync(file, "utf8")).toBe("package");
  expect(new Set(server.asked)).toEqual(new Set([`/debian/${PLACE}`, SNAPSHOT]));
  const before = server.asked.length;
  expect(await fetchLocked(LOCK, "amd64", options)).toEqual([file]);
  expect(server.asked).toHaveLength(before);
});

test("a package with other bytes is refused, wherever it is, and not kept", async () => {
  await using folder = await temporaryFolder();
  await using server = await serve({ [`/debian/${PLACE}`]: "packagf", [SNAPSHOT]: "packagg" });
  const fetched = fetchLocked(LOCK, "amd64", { ...server.options, folder: folder.path });
  await expect(fetched).rejects.toThrow(new RegExp(`no mirror has ${PLACE} with the SHA-256 ${sha256}`));
  expect(readdirSync(folder.path)).toEqual([]);
});
