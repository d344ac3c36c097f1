/** Reads files of a web server: one address, and files on the same server. */
import { MetalbridgeError } from "../../api/errors.ts";
import { bearerHeaders } from "../../models/source/credentials.ts";
import type { HttpSource } from "../../models/source/kinds/http.ts";
import type { Access, SourceReader } from "../remote-source.ts";

/** A web server has no list, so the address or the spec names the files. */
export function openHttp(
  source: HttpSource,
  { rules, credentials }: Pick<Access, "rules" | "credentials">,
): SourceReader {
  const url = new URL(source.url);
  const authorization = bearerHeaders(credentials);
  const named = url.pathname.endsWith("/") ? undefined : lastSegment(url);
  return {
    shown: `${url.protocol}//${url.host}${url.pathname}`,
    named,
    rules,
    hasCredentials: Object.keys(authorization).length > 0 || url.search !== "" || url.username !== "",
    holds: (address) => new URL(address).origin === url.origin,
    authorize: async () => authorization,
    list: async () => undefined,
    locate: (name) => {
      if (name === named) return url;
      if (/^https?:/i.test(name)) return sameOrigin(new URL(name), url);
      const target = new URL(name.split("/").map(encodeURIComponent).join("/"), url);
      // The query contains the signature of a signed address.
      target.search = url.search;
      return target;
    },
  };
}

/** The source's token must not be sent to another server. */
function sameOrigin(target: URL, source: URL): URL {
  if (target.origin === source.origin) return target;
  throw new MetalbridgeError(
    "SourceNotAllowed",
    `the projector is at ${target.host}, the source at ${source.host}`,
    { summary: "use a projector on the server of the source, or name it relative to the source" },
  );
}

function lastSegment(url: URL): string {
  const segment = url.pathname.slice(url.pathname.lastIndexOf("/") + 1);
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}
