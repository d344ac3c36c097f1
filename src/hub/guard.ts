/** Checks the server of each request: by name before it is sent, and by address after each DNS lookup. */
import { type LookupAddress, lookup } from "node:dns";
import { isIP, type LookupFunction } from "node:net";
import { FAKE_IP_NETWORK } from "../models/source/networks.ts";
import { type AddressPolicy, isFakeAddress, isForbiddenAddress } from "./addresses.ts";
import { notAllowed, type SourceFailure } from "./failure.ts";

export interface HostRules extends AddressPolicy {
  /** The only host names that may be contacted, `*.example.com` for subdomains; absent means any. */
  readonly allowedHosts?: readonly string[] | undefined;
  /** `host:port` that the operator configured. Private and loopback addresses are allowed for it. */
  readonly trustedHost?: string | undefined;
}

/** Throws SourceFailure for an address that may not be contacted. The addresses of names are checked after their lookup. */
export function checkUrl(url: URL, rules: HostRules): void {
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw notAllowed(`${url.protocol} addresses are not supported`, "use an https:// address");
  }
  if (rules.trustedHost !== url.host && !isHostAllowed(url.hostname, rules.allowedHosts)) {
    throw notAllowed(
      `host ${url.hostname} is not among the allowed hosts`,
      "use a source on one of them, or add the host to sources.allowedHosts in the agent's configuration",
    );
  }
  const literal = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(literal) !== 0 && isForbiddenAddress(literal, policyFor(url, rules))) throw addressRefused(url);
}

/** Resolves names like the system, but never passes a forbidden address to connect(). */
export function guardedLookup(url: URL, rules: HostRules): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, found: LookupAddress[]) => {
      if (error !== null) return callback(error, []);
      const policy = policyFor(url, rules);
      const allowed = found.filter(({ address }) => !isForbiddenAddress(address, policy));
      const [first] = allowed;
      if (first === undefined) {
        const isFake = found.some(({ address }) => isFakeAddress(address));
        return callback(isFake ? fakeAddressRefused(url) : addressRefused(url), []);
      }
      return options.all === true ? callback(null, allowed) : callback(null, first.address, first.family);
    });
  };
}

function isHostAllowed(hostname: string, allowed: readonly string[] | undefined): boolean {
  if (allowed === undefined) return true;
  const name = hostname.toLowerCase();
  return allowed.some((entry) => {
    const pattern = entry.toLowerCase();
    return pattern.startsWith("*.") ? name.endsWith(pattern.slice(1)) : name === pattern;
  });
}

function policyFor(url: URL, rules: HostRules): AddressPolicy {
  return url.host === rules.trustedHost ? { allowLoopback: true, allowPrivate: true } : rules;
}

/** The message is the same for every forbidden address, so that it does not help to map the network. */
function addressRefused(url: URL): SourceFailure {
  return notAllowed(
    `${url.hostname} is a loopback, private or reserved address that sources may not use`,
    "use another source, or allow it: for a Model with --allow-networks of the controller, for a replica with sources.allowPrivateAddresses or sources.allowLoopback in the agent's configuration",
  );
}

/** Behind such a proxy every name has such an address, so the message reveals nothing about the network. */
function fakeAddressRefused(url: URL): SourceFailure {
  return notAllowed(
    `${url.hostname} resolves to an address in ${FAKE_IP_NETWORK}, as all names do behind a proxy with fake IP addresses`,
    `allow these addresses: for a Model with --allow-networks ${FAKE_IP_NETWORK} of the controller, for a replica with sources.allowPrivateAddresses in the agent's configuration; or exclude ${url.hostname} from fake addresses in the proxy`,
  );
}
