/** Files of any web server. */
import { InvalidSource, type SourceKind } from "./kind.ts";
import { lastName } from "./path.ts";

export interface HttpSource {
  readonly kind: "http";
  readonly url: string;
}

export const HTTP = {
  schemes: ["https", "http"],
  form: "https://…",
  readBy: "hub",
  parse: (_, text): HttpSource => {
    const url = URL.parse(text);
    if (url === null || url.hostname === "")
      throw new InvalidSource("it is not a valid URL", "https://host/path/model.gguf");
    if (url.username !== "" || url.password !== "")
      throw new InvalidSource(
        "it holds a user name or password",
        "put credentials into spec.sourceSecretRef",
        `${url.protocol}//…@${url.host}${url.pathname}`,
      );
    url.hash = "";
    return { kind: "http", url: url.href };
  },
  fileName: ({ url }: HttpSource) => lastName(safelyDecoded(new URL(url).pathname)),
  origin: ({ url }: HttpSource) => url,
} satisfies SourceKind<HttpSource>;

function safelyDecoded(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
