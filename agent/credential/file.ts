/** The credential that `metalbridge join` leaves on a host: a kubeconfig with a token, in the state folder. */
import { closeSync, constants, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { readTokenClaims, type TokenClaims } from "../../src/kube/token.ts";
import { writeFileAtomic } from "../../src/util/atomic-file.ts";

const FILE = "kubeconfig";

/** A token of a host's account, with what it says of itself. */
export interface HostToken {
  readonly token: string;
  readonly claims: TokenClaims & { readonly host: string };
}

interface Kubeconfig {
  readonly users?: readonly { readonly user?: { readonly token?: unknown } }[];
}

/** Where `join` keeps the credential by default. */
export function joinedKubeconfigPath(stateDir: string): string {
  return join(stateDir, FILE);
}

/** The token in a kubeconfig with one user; undefined for any other kubeconfig, and for one that cannot be read. */
export function readHostToken(path: string): HostToken | undefined {
  const token = onlyTokenOf(readKubeconfig(path));
  const claims = token === undefined ? undefined : readTokenClaims(token);
  if (token === undefined || claims?.host === undefined) return undefined;
  return { token, claims: { ...claims, host: claims.host } };
}

/** Puts another token into such a kubeconfig, for this user's eyes only. Throws the system's error. */
export async function replaceToken(path: string, token: string): Promise<void> {
  const config = readKubeconfig(path);
  const [only] = config?.users ?? [];
  const users = [{ ...only, user: { ...only?.user, token } }];
  await writeFileAtomic(path, stringify({ ...config, users }));
}

function onlyTokenOf(config: Kubeconfig | undefined): string | undefined {
  const [only, other] = config?.users ?? [];
  const token = only?.user?.token;
  return other === undefined && typeof token === "string" ? token : undefined;
}

/** Never waits for a writer of a FIFO. */
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
