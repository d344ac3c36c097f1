/** The Debian mirror of this system, from its own configuration: the only place where a mirror's address may come from. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** Contents of every file that apt would read. */
export function readAptSources(folder = "/etc/apt") {
  const read = (file) => {
    try {
      return readFileSync(file, "utf8");
    } catch {
      return "";
    }
  };
  let names = [];
  try {
    names = readdirSync(join(folder, "sources.list.d"))
      .filter((name) => /\.(list|sources)$/.test(name))
      .sort();
  } catch {
    // No such folder: only the one file.
  }
  return [join(folder, "sources.list"), ...names.map((name) => join(folder, "sources.list.d", name))].map(
    read,
  );
}

/** Pure: the first Debian archive in one-line or deb822 sources, without its security archive; undefined when there is none. */
export function findDebianMirror(texts) {
  const addresses = texts.flatMap((text) => [...oneLineAddresses(text), ...deb822Addresses(text)]);
  return addresses
    .map((address) => address.replace(/\/+$/, ""))
    .find((address) => address.endsWith("/debian"));
}

function oneLineAddresses(text) {
  return [...text.matchAll(/^deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s/gm)].map(([, address]) => address);
}

function deb822Addresses(text) {
  return text
    .split(/\n\s*\n/)
    .filter((stanza) => !/^Enabled:\s*no/im.test(stanza))
    .flatMap(
      (stanza) =>
        stanza
          .match(/^URIs:\s*(.+)$/im)?.[1]
          ?.trim()
          .split(/\s+/) ?? [],
    );
}
