/** Largest request line with headers that clients of the gateway and the console may send: cookies of a single sign-on are large. */
export const MAX_HEADERS_KIB = 60;
