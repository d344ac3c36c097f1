/** The account of a host, and how long its tokens live. */
import { NAMESPACE_HOSTS } from "../group.ts";

/** The user name of a host's account without the host's name. */
export const ACCOUNT_PREFIX = `system:serviceaccount:${NAMESPACE_HOSTS}:`;

/** Longest life of a token that admits a host to `metalbridge join`. */
export const JOIN_TOKEN_SECONDS = 24 * 3_600;
/** Life that an agent asks for: a machine may be switched off for a third of it and still renew its token. */
export const HOST_TOKEN_SECONDS = 30 * 24 * 3_600;

/** Prefix of the Secrets that hosts' tokens are bound to; the host's name and a dot follow. */
export const CREDENTIAL_SECRET_PREFIX = "metalbridge-host-";
