/** `metalbridge scale` against the real API server. */
import { expect, test } from "vitest";
import { INFERENCE_SERVICES } from "../src/api/kinds.ts";
import { must } from "../test/bed/must.ts";
import { openDesk } from "../test/cli/objects.ts";
import { runVerb } from "../test/cli/program.ts";

test("the number of replicas is an argument or --replicas, and nothing else of the service changes", async () => {
  await using desk = await openDesk();
  const { namespace } = desk;
  await desk.service("chat", { "spec.replicas": 2, "spec.contextSize": 4096 });
  const scale = (...args: string[]) => runVerb(["scale", ...args, "-n", namespace], desk);
  const spec = async () => must(await desk.client.get(INFERENCE_SERVICES, { name: "chat", namespace })).spec;
  const before = await spec();
  for (const [args, said, replicas] of [
    [["chat", "--replicas", "3"], "is scaled from 2 to 3", 3],
    [["isvc/chat", "--replicas=0"], "is scaled from 3 to 0", 0],
    [["chat", "0"], "has spec.replicas 0 already", 0],
    [["chat", "4"], "is scaled from 0 to 4", 4],
  ] as const) {
    expect(await scale(...args)).toEqual({ code: 0, stdout: `service chat ${said}\n`, stderr: "" });
    expect(await spec()).toEqual({ ...before, replicas });
  }
  for (const args of [["chat"], ["chat", "--replicas", "-1"], ["chat", "--replicas", "two"]])
    expect({ args, code: (await scale(...args)).code }).toEqual({ args, code: 2 });
  expect(await scale("absent", "--replicas", "1")).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/^ServiceNotFound: /),
  });
  expect(await spec()).toEqual({ ...before, replicas: 4 });
});

test("a suspended service is scaled, and the answer says that none runs", async () => {
  await using desk = await openDesk();
  await desk.service("chat", { "spec.suspend": true });
  expect(await runVerb(["scale", "chat", "--replicas", "2", "-n", desk.namespace], desk)).toEqual({
    code: 0,
    stdout: "service chat is scaled from 1 to 2\n",
    stderr: "the service is suspended: no replica runs until spec.suspend is false\n",
  });
});
