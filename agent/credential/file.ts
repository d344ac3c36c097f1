/** The credential that `metalbridge join` writes on a host: a kubeconfig with a token, in the state folder. */
import { closeSync, constants, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { readTokenClaims, type TokenClaims } from "../../src/kube/token.ts";
import { writeFileAtomic } from "../../src/util/atomic-file.ts";

const FILE = "kubeconfig";

/** A token of a host's account, and its claims. */
export interface HostToken {
  readonly token: string;
  readonly claims: TokenClaims & { readonly host: string };
}

interface Kubeconfig {
  readonly users?: readonly { readonly user?: { readonly token?: unknown } }[];
}

/** The default path of the credential. */
export function joinedKubeconfigPath(stateDir: string): string {
  return join(stateDir, FILE);
}

/** The token in a kubeconfig with one user; undefined for any other kubeconfig, and for one that cannot be read. */
export function readHostToken(path: string): HostToken | undefined {
  const [only, other] = readKubeconfig(path)?.users ?? [];
  const token = only?.user?.token;
  if (other !== undefined || typeof token !== "string") return undefined;
  const claims = readTokenClaims(token);
  return claims?.host === undefined ? undefined : { token, claims: { ...claims, host: claims.host } };
}

/** Replaces the token in such a kubeconfig, which only this user can read. Throws the system's error. */
export async function replaceToken(path: string, token: string): Promise<void> {
  const config = readKubeconfig(path);
  const [only] = config?.users ?? [];
  const users = [{ ...only, user: { ...only?.user, token } }];
  await writeFileAtomic(path, stringify({ ...config, users }));
}

/** Does not wait for a writer if the path is a FIFO. */
function readKubeconfig(path: string): Kubeconfig | undefined {
  try {
    const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      return parse(readFileSync(file, "utf8")) as Kubeconfig;
    } finally {
      closeSync(file);
    }
  } catch {
    return undefined;
  }
}
