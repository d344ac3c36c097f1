/** Words that this repository does not use, each with the field's word to write instead. */

export interface WordRule {
  /** Matched without regard to case, line by line. */
  readonly pattern: RegExp;
  readonly instead: string;
  /** Path prefixes the rule applies to; everywhere if absent. */
  readonly only?: readonly string[];
  /** Exempts tests and what only tests use. */
  readonly notInTests?: true;
}

/** They name what runs a service, not the operating system or GPU of a machine. */
const hostsAndPods = ["controller/", "src/api/", "src/capacity/"];
const placement = ["controller/", "src/capacity/", "scripts/simulate"];
/** Rooms that hold to the words of the last rules already; elsewhere those words still have several meanings. */
const settled = ["fitness/", "gateway/", "launchd/", "local/", "scripts/", "src/"];
const code = [...settled, "agent/", "cli/", "controller/", "server/", "web/"];

export const wordRules: readonly WordRule[] = [
  { pattern: /\bby (itself|themselves)\b/i, instead: "automatically, or nothing" },
  { pattern: /\b(anew|afresh)\b/i, instead: "again, from scratch, re-…" },
  { pattern: /\bfor ever\b/i, instead: "forever, indefinitely" },
  { pattern: /\b(nobody|somebody|everybody|anybody)\b/i, instead: "the part or person that is meant" },
  { pattern: /\b(go|goes|going|went) on\b/i, instead: "continues, keeps, resumes" },
  { pattern: /\b(tells|told)\b/i, instead: "reports, publishes, says, notifies" },
  { pattern: /\b(looked|looks) at\b/i, instead: "inspected, checked, read" },
  { pattern: /\bfor want of\b/i, instead: "for lack of, because … is missing" },
  { pattern: /\b(makes?|made|making) way\b/i, instead: "is preempted, is evicted, yields" },
  { pattern: /\b(comes?|came) into question\b/i, instead: "is a candidate" },
  { pattern: /\b(tried|tries|trying) (it )?again\b/i, instead: "retried, retries" },
  { pattern: /\bso long\b/i, instead: "for that long, while" },
  { pattern: /\b(is|are|was|were) over\b/i, instead: "has elapsed, has expired, has finished, exceeds" },
  { pattern: /\b(has|have|had) ended\b/i, instead: "has exited (process), has stopped, has finished" },
  { pattern: /\b(is|are|was|were) to (end|be ended)\b/i, instead: "stopping, must stop" },
  { pattern: /\b(MOST|LARGEST|LONGEST)_[A-Z]/, instead: "MAX_…" },
  { pattern: /\b(LEAST|SMALLEST|SHORTEST)_[A-Z]/, instead: "MIN_…" },
  { pattern: /catalogue/i, instead: "catalog" },
  { pattern: /\bkeeper/i, instead: "shim" },
  { pattern: /\bhopeless/i, instead: "terminal" },
  { pattern: /\bledger/i, instead: "scheduler cache, reservations" },
  { pattern: /\bwaiters?\b/i, instead: "pending, queued" },
  { pattern: /\bsayings?\b/i, instead: "message, event, report" },
  { pattern: /\bglances?\b/i, instead: "check, reading" },
  { pattern: /\b(comes?|came|coming) and (go|goes|went|going)\b/i, instead: "is flapping" },
  { pattern: /\bgiven up as\b/i, instead: "marked" },
  { pattern: /\b(takes?|took|taking) the place of\b/i, instead: "replaces, preempts" },
  { pattern: /\bin vain\b/i, instead: "without success" },
  { pattern: /\b(stands?|stood|standing) still\b/i, instead: "is stalled, is paused, does not move" },
  { pattern: /\brequests? in work\b/i, instead: "requests in flight" },
  {
    pattern: /\b(macs?|linux|metal) paths?\b|\bpaths?\/mac\b/i,
    instead: "services on hosts, services in pods; the path of hosts or pods",
  },
  {
    pattern: /\b(on|in|for)(Macs?|Linux|Metal)\b|\b(mac|linux|metal)_?only\b|"metal" \| "linux"/i,
    instead: 'onHosts, inPods, HOSTS_ONLY, PODS_ONLY, "Hosts" | "Pods"',
    only: hostsAndPods,
  },
  {
    pattern: /\b(board|shelf|shelves)\b/i,
    instead: "node info, host info, scheduler cache",
    only: placement,
  },
  { pattern: /(behavi|colo|favo|hono|neighbo)ur/i, instead: "the American spelling: -or" },
  {
    pattern: /\b(cancell|labell|signall)(ed|ing)\b|(initial|organ|quant|serial)is(ation|e[ds]?|ing)\b/i,
    instead: "the American spelling: -l-, -iz-",
  },
  {
    pattern: /^\s*(\/\/|\/?\*\*?) Whether /,
    instead: "True if … (a boolean), or what the file or function checks",
  },
  {
    pattern: /^\s*(\/\/|\/?\*\*?) Of /,
    instead: "the noun that it qualifies, or a verb",
    only: code,
    notInTests: true,
  },
  {
    pattern: /\bwhoever\b/i,
    instead: "anyone who, the client or user that",
    only: code,
    notInTests: true,
  },
  { pattern: /[a-z]Troubles?\b/, instead: "…Problem, …Failure, …Condition" },
  { pattern: /\b(givenUp|heldBack|putOff)\b/, instead: "abandoned, failed; pending, paused; postponed" },
  { pattern: /(InVain|Afresh)\b/, instead: "failed; restart…, reset…" },
  { pattern: /\blook(s|ed)?(At|Later)\b/, instead: "inspect, check, read; recheck" },
  { pattern: /\b(how|where)(It|They)[A-Z]/, instead: "a noun: listenAddress, exitDescription" },
  { pattern: /\bwhy[A-Z]/, instead: "a noun: failureReason, refusal", only: code, notInTests: true },
  {
    pattern: /\b(say|tell)[A-Z]/,
    instead: "print, log, report, publish, notify",
    only: code,
    notInTests: true,
  },
  { pattern: /\b(until|when)Gone\b/, instead: "waitForExit, onExit", only: code, notInTests: true },
  {
    pattern: /\basked[A-Z]|[a-z]Asked([A-Z]|\b)/,
    instead: "requested",
    only: code,
    notInTests: true,
  },
  {
    pattern: /\bwish(ed|For|Of)\b|[a-z]Wish\b|\bWish\b/,
    instead: "desired, request, options",
    only: code,
    notInTests: true,
  },
  { pattern: /patience/i, instead: "timeout, backoff, retry limit", only: code, notInTests: true },
  { pattern: /\b(giver|taker)s?\b|Giver|Taker/, instead: "PeerServer, PeerClient", only: code },
  {
    pattern: /\b(an|the|its|no|each|every|first|last) answers?\b(?! (requests|[a-z]+s\b))/,
    instead: "response (HTTP), result, decision",
    only: settled,
    notInTests: true,
  },
  {
    pattern: /(?<![a-z])figures?(Of)?\b|[a-z]Figures?\b/,
    instead: "values, results, estimate, totals: the noun of the numbers",
    only: settled,
    notInTests: true,
  },
  {
    pattern: /(?<!prefetch\??\.)\bwanted\b(?!:)|Wanted\b/,
    instead: "desired (state), requested (by a caller), required",
    only: settled,
    notInTests: true,
  },
  { pattern: /(?<![-/])\bfarms?\b(?![:"`])/i, instead: "fleet", only: settled, notInTests: true },
  {
    pattern: /(?<!unhandled )\brejections?\b|[a-z]Rejections?\b/i,
    instead: "refusal",
    only: settled,
    notInTests: true,
  },
  {
    pattern: /^\s*\/\*\* (What|How|Which|Where|Who) /,
    instead: "the noun, or the verb of the function",
    only: settled.filter((room) => room !== "scripts/"),
    notInTests: true,
  },
];
