/** Limits of what clients send in headers. */

/** Largest request line with headers that clients of the gateway and the console may send: cookies of a single sign-on are large. */
export const MAX_HEADERS_KIB = 60;

/** Longest credential that is hashed or sent to the API server for a review; no issuer makes longer ones. */
export const MAX_CREDENTIAL = 16_384;
