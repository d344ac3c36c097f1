/** The console: sign-in, refused requests, what it passes on. */
import type { ErrorEntry } from "./entry.ts";

export const consoleErrors = {
  ConsoleNotBuilt: {
    what: "The server has no pages of the console, because they were not built.",
    do: "build them, then reload the page",
    command: "npm run build",
  },
  ConsoleSignInRefused: {
    what: "Sign-in failed: the API server does not accept the token, the one-time code was used or is from an earlier start, or the identity provider refused.",
    do: "sign in with a valid token of the cluster, or open the newest address that `metalbridge console` has printed",
    command: "kubectl create token <account> -n <namespace>",
  },
  ConsoleTokenTooLong: {
    what: "The token does not fit into a cookie, which browsers limit to 4 KB.",
    do: "use a shorter token: configure the identity provider to put fewer claims and groups into it",
  },
  ConsoleRequestRefused: {
    what: "The console accepts requests only from its own pages, under the server's own name.",
    do: "open the console by the name that the browser's address bar and the server share; programs send the header x-metalbridge-console",
  },
  ConsoleRequestInvalid: {
    what: "A request to the console's own API has an invalid field or parameter; the message names it.",
    do: "reload the page: it may be older than the server",
  },
  ConsoleReadOnly: {
    what: "The console is in read-only mode, which allows changes only as a dry run.",
    do: "use kubectl or `metalbridge`, or restart the server without --console-read-only",
  },
  ConsoleKindNotServed: {
    what: "The console passes on requests only for the kinds that its pages show.",
    do: "use kubectl for other kinds",
  },
  ConsoleStreamNotFound: {
    what: "The server has no such stream of this reader: the connection was lost, or the server has restarted.",
    do: "wait: the page opens a new stream",
  },
  ConsoleStreamsFull: {
    what: "The server, or this reader, has too many open pages of the console.",
    do: "close other pages of the console",
  },
  ConsoleGatewayMissing: {
    what: "No gateway is configured, so the console cannot talk to models.",
    do: "start the server with --gateway-url",
  },
  ConsoleQueuesUnreadable: {
    what: "No gateway's queues can be read: the account that the server runs as lacks a right, or the gateway does not answer at the port of its metrics.",
    do: "give that account the Role gateway-queues of docs/gateway.md, or name the address with --gateway-health-url",
  },
  ConsoleGatewayUnreachable: {
    what: "The gateway does not respond.",
    do: "check that it runs, and that --gateway-url is its address",
  },
} as const satisfies Record<string, ErrorEntry>;
