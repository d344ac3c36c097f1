/** The headers by which a client learns which host has answered. Clients that do not ask learn no name of a machine. */

/** A request with this header asks, whatever its value. */
export const ASK_HOST_HEADER = "x-show-host";
/** The response has the name of the host or node in it. */
export const HOST_HEADER = "x-metalbridge-host";
