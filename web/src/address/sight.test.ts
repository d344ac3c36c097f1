import { describe, expect, test } from "vitest";
import { type Rights, sightOf } from "./sight.ts";

const ALL: Rights = { allServices: true, ownServices: undefined, hosts: undefined, allClaims: undefined };
const NARROW: Rights = { allServices: false, ownServices: true, hosts: false, allClaims: false };
const SERVER = { namespace: "default", isLocal: false };
const LOCAL = { namespace: "team-a", isLocal: true };
const NO_HOSTS = "and no hosts: you may not list inferenceservices of all namespaces, nor hosts.";
const NOT_ALL = "you may not list inferenceservices of all namespaces.";

describe("what a reader sees, and what is missing", () => {
  test.each([
    ["all of it", SERVER, ALL, ["b", "a"], ["a", "b"], ""],
    [
      "nothing is said before the rights are known",
      undefined,
      { ...ALL, allServices: undefined },
      [],
      [],
      "",
    ],
    [
      "the namespace of the kubeconfig, also without objects",
      LOCAL,
      NARROW,
      [],
      ["team-a"],
      `Only namespace team-a is shown, ${NO_HOSTS} metalbridge console -n selects another namespace.`,
    ],
    [
      "one namespace of a shared server, with hosts",
      SERVER,
      { ...NARROW, ownServices: false, hosts: true },
      ["team-b"],
      ["team-b"],
      `Only namespace team-b is shown: ${NOT_ALL}`,
    ],
    [
      "hosts whose claims are not all known to the console of one reader",
      LOCAL,
      { ...NARROW, hosts: true },
      ["team-a"],
      ["team-a"],
      `Only namespace team-a is shown: ${NOT_ALL} Claims of other namespaces are not counted: less memory may be free than shown. metalbridge console -n selects another namespace.`,
    ],
    ["several", SERVER, NARROW, ["b"], ["b", "default"], `Only namespaces b, default are shown, ${NO_HOSTS}`],
    [
      "many",
      SERVER,
      NARROW,
      ["a", "b", "c"],
      ["a", "b", "c", "default"],
      `Only 4 namespaces are shown, ${NO_HOSTS}`,
    ],
    ["pages say it where nothing is seen", SERVER, { ...NARROW, ownServices: false }, [], [], ""],
  ])("%s", (_, session, rights, seen, namespaces, missing) => {
    expect(sightOf(session, rights, seen)).toMatchObject({ namespaces, missing });
  });
});
