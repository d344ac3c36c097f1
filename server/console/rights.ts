/** POST /console/rights: which actions the reader may take, so that pages disable the others. */
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import { CONSOLE_PATH } from "../../src/console/protocol.ts";
import type { ConsoleAccess } from "./access.ts";
import { parseBody } from "./body.ts";

const MAX_QUESTIONS = 64;

const text = z.string().max(253);
const bodySchema = z.strictObject({
  questions: z
    .array(
      z.strictObject({
        verb: text.min(1),
        group: text,
        resource: text.min(1),
        subresource: text.optional(),
        namespace: text.optional(),
        name: text.optional(),
      }),
    )
    .max(MAX_QUESTIONS),
});

export function mountRights(scope: FastifyInstance, { requireReader, mayAccess }: ConsoleAccess): void {
  scope.post(`${CONSOLE_PATH}/rights`, { config: { calledBy: "call" } }, async (request) => {
    const { questions } = parseBody(bodySchema, request.body);
    const reader = await requireReader(request);
    return { allowed: await Promise.all(questions.map((question) => mayAccess(reader, question))) };
  });
}
