/** The account of a host, and the lifetime of its tokens. */
import { NAMESPACE_HOSTS } from "../group.ts";

/** User name of a host's account without the name of the host. */
export const ACCOUNT_PREFIX = `system:serviceaccount:${NAMESPACE_HOSTS}:`;

/** Maximum lifetime of a join token. */
export const JOIN_TOKEN_SECONDS = 24 * 3_600;
/** Lifetime that an agent requests: a machine that was off for a third of it can still renew its token. */
export const HOST_TOKEN_SECONDS = 30 * 24 * 3_600;

/** Prefix of the Secrets that hosts' tokens are bound to, before the name of the host and a dot. */
export const CREDENTIAL_SECRET_PREFIX = "metalbridge-host-";
