/** The way to the API server and back, and the credential for it. */
import type { ErrorCode } from "../../api/errors.ts";
import type { ApiReading, CredentialReading, Readings } from "../readings.ts";
import { type Check, type CheckFinding, defineCheck } from "./check.ts";

const DAY_MS = 24 * 3_600_000;
/** The Date header has whole seconds. */
const SKEW_WARNING_MS = 5_000;
const SKEW_ERROR_MS = 60_000;

export const clusterChecks: readonly Check[] = [
  defineCheck({
    code: "ApiUnreachable",
    title: "route to the API server",
    severity: "error",
    reason:
      "without the API server the host keeps its replicas but gets no new ones, and is removed from its Services",
    needs: ["api"],
    judge: ({ api: { failure, server } }) =>
      failure === undefined ? [] : [{ code: failure.code, finding: `${server}: ${failure.message}` }],
  }),
  defineCheck({
    code: "ClockSkewed",
    title: "clock",
    severity: "warning",
    reason:
      "the validity of tokens and certificates is checked against this clock and against the API server's",
    linuxCommand: "sudo timedatectl set-ntp true",
    needs: ["api"],
    judge: ({ api }) => judgeClock(api),
  }),
  defineCheck({
    code: "CredentialExpired",
    title: "life of the credential",
    severity: "error",
    reason: "the API server accepts nothing from an expired credential",
    needs: ["credential", "nowMs"],
    judge: ({ credential: { untilMs }, nowMs }) =>
      untilMs === undefined || untilMs > nowMs ? [] : [{ finding: `it expired at ${iso(untilMs)}` }],
  }),
  defineCheck({
    code: "CredentialExpiresSoon",
    title: "renewal of the credential",
    severity: "warning",
    reason:
      "the agent renews the credential of a joined host after two thirds of its lifetime; this one was not renewed",
    needs: ["credential", "nowMs"],
    judge: ({ credential: { fromMs, untilMs }, nowMs }) => {
      if (untilMs === undefined || untilMs <= nowMs) return [];
      const start = fromMs ?? untilMs - 30 * DAY_MS;
      return (nowMs - start) * 3 < (untilMs - start) * 2
        ? []
        : [{ finding: `it expires at ${iso(untilMs)}` }];
    },
  }),
  defineCheck({
    code: "CredentialLongLived",
    title: "kind of the credential",
    severity: "warning",
    reason: "anyone who copies it can act as this host until it expires",
    needs: ["credential", "nowMs"],
    judge: ({ credential, nowMs }) => judgeKind(credential, nowMs),
  }),
  preflightCheck(
    "host",
    "HostNotRegistered",
    "Host object",
    "without a Host object the controller does not know this machine",
  ),
  preflightCheck(
    "address",
    "AddressUnknown",
    "address to serve on",
    "engines listen on an address that the Host allows and nodes reach",
  ),
  preflightCheck(
    "rights",
    "ApiForbidden",
    "rights of the credential",
    "the agent cannot report, or cannot publish its endpoints",
  ),
];

/** The agent's own preflight decides; a check of doctor shows one of its results. */
function preflightCheck(
  what: Readings["preflight"][number]["what"],
  code: ErrorCode,
  title: string,
  reason: string,
): Check {
  return defineCheck({
    code,
    title,
    reason,
    severity: "error",
    needs: ["preflight"],
    judge: ({ preflight }) =>
      preflight.flatMap((check) =>
        check.what === what && check.code !== undefined ? [{ code: check.code, finding: check.text }] : [],
      ),
  });
}

function judgeClock({ dateMs, sentMs, receivedMs }: ApiReading): readonly CheckFinding[] | "notApplicable" {
  if (dateMs === undefined) return "notApplicable";
  // The header was written between the two, and is cut to the second.
  const tooFast = sentMs - (dateMs + 1_000);
  const tooSlow = dateMs - receivedMs;
  const skewMs = Math.max(tooFast, tooSlow, 0);
  if (skewMs < SKEW_WARNING_MS) return [];
  const direction = tooFast > 0 ? "ahead of" : "behind";
  const finding = `this clock is at least ${Math.round(skewMs / 1_000)} s ${direction} the API server's`;
  return [{ finding, severity: skewMs >= SKEW_ERROR_MS ? "error" : "warning" }];
}

function judgeKind({ kind, untilMs }: CredentialReading, nowMs: number): readonly CheckFinding[] {
  if (untilMs === undefined) return [{ finding: `the ${kind} never expires` }];
  if (untilMs - nowMs > 366 * DAY_MS) return [{ finding: `the ${kind} is valid until ${iso(untilMs)}` }];
  return [];
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}
