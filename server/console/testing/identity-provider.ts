/** A real identity provider with TLS, and a browser that signs in there: it keeps cookies and fills in the forms. */

import { once } from "node:events";
import type { RequestListener } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { createCertificate } from "../../../src/crypto/certificate.ts";

export interface IdentityProvider extends AsyncDisposable {
  readonly issuer: string;
  /** PEM of the authority that has signed its certificate. */
  readonly authority: string;
}

export const CLIENT = { id: "console", secret: "a secret of the client" };

/** Not imported by a literal: its types do not fit those of the packages that they import. */
const PACKAGE: string = "oidc-provider";

interface ProviderModule {
  readonly default: new (
    issuer: string,
    configuration: object,
  ) => { readonly callback: () => RequestListener };
}

/** Every login name is an account. */
export async function startIdentityProvider(redirectUri: string): Promise<IdentityProvider> {
  const root = createCertificate({ name: "test authority", isAuthority: true });
  const own = createCertificate({
    name: "id.example",
    hosts: ["127.0.0.1"],
    issuer: { name: "test authority", key: root.key },
  });
  const server = createServer({ key: own.key, cert: own.cert });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const { default: Provider } = (await import(PACKAGE)) as ProviderModule;
  const provider = new Provider(issuer, configurationFor(redirectUri));
  server.on("request", provider.callback());
  return {
    issuer,
    authority: root.cert,
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, "close");
      server.closeAllConnections();
      server.close();
      await closed;
    },
  };
}

function configurationFor(redirectUri: string): object {
  return {
    clients: [
      {
        client_id: CLIENT.id,
        client_secret: CLIENT.secret,
        redirect_uris: [redirectUri],
        grant_types: ["authorization_code", "refresh_token"],
        response_types: ["code"],
      },
    ],
    scopes: ["openid", "offline_access", "email"],
    claims: { openid: ["sub"], email: ["email", "email_verified"] },
    conformIdTokenClaims: false,
    findAccount: (_: unknown, id: string) => ({
      accountId: id,
      claims: () => ({ sub: id, email: `${id}@example.org`, email_verified: true }),
    }),
    issueRefreshToken: async () => true,
    cookies: { keys: ["a key of the test"] },
    ttl: {
      IdToken: 3_600,
      AccessToken: 3_600,
      Interaction: 600,
      Grant: 3_600,
      Session: 3_600,
      RefreshToken: 3_600,
    },
  };
}

export interface Browser {
  readonly cookies: Map<string, string>;
  /** Follows redirects and submits forms until it is at an address that `isEnd`, which it does not open. */
  readonly open: (url: string, isEnd: (url: URL) => boolean) => Promise<URL>;
}

const MAX_PAGES = 20;

export function openBrowser(): Browser {
  const cookies = new Map<string, string>();
  const load = async (url: URL, form?: URLSearchParams): Promise<Response> => {
    const answer = await fetch(url, {
      method: form === undefined ? "GET" : "POST",
      body: form,
      redirect: "manual",
      headers: { cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join("; ") },
    });
    for (const line of answer.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === "") cookies.delete(name);
      else cookies.set(name, value);
    }
    return answer;
  };
  return {
    cookies,
    open: async (address, isEnd) => {
      let url = new URL(address);
      let form: URLSearchParams | undefined;
      for (let page = 0; page < MAX_PAGES; page += 1) {
        if (isEnd(url)) return url;
        const answer = await load(url, form);
        form = undefined;
        const location = answer.headers.get("location");
        if (location !== null) {
          url = new URL(location, url);
          continue;
        }
        const html = await answer.text();
        const action = /<form[^>]* action="([^"]+)"/.exec(html)?.[1];
        if (action === undefined)
          throw new Error(`${url.href} answered ${answer.status}: ${html.slice(0, 500)}`);
        form = fieldsOf(html);
        url = new URL(action, url);
      }
      throw new Error(`more than ${MAX_PAGES} pages`);
    },
  };
}

/** The hidden fields of the page, and a name and a password. */
function fieldsOf(html: string): URLSearchParams {
  const form = new URLSearchParams({ login: "ada", password: "any" });
  for (const [, input = ""] of html.matchAll(/<input([^>]*)>/g)) {
    const name = / name="([^"]+)"/.exec(input)?.[1];
    const value = / value="([^"]*)"/.exec(input)?.[1];
    if (name !== undefined && value !== undefined) form.set(name, value);
  }
  return form;
}
