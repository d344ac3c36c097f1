/** /console/undo: restores the spec of an earlier revision of a service, with the reader's own rights. */
import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { MetalbridgeError } from "../../src/api/errors.ts";
import { LABEL_SERVICE_UID } from "../../src/api/group.ts";
import { INFERENCE_SERVICES, MODELS } from "../../src/api/kinds.ts";
import { renderChange } from "../../src/capacity/rollback/changes.ts";
import { historyOf } from "../../src/capacity/rollback/history.ts";
import { chooseRevision, planUndo, restorable, type UndoPlan } from "../../src/capacity/rollback/undo.ts";
import { UNDO_PATH, type UndoResponse } from "../../src/console/protocol.ts";
import { createClient } from "../../src/kube/client/create-client.ts";
import { CONTROLLER_REVISIONS } from "../../src/kube/kinds.ts";
import type { KubeClient } from "../../src/kube/types.ts";
import { parseBody } from "./body.ts";
import type { MountRoutes } from "./reader.ts";
import { unwrapAnswer } from "./refusal.ts";

const undoSchema = z.strictObject({
  namespace: z.string().min(1).max(63),
  name: z.string().min(1).max(253),
  /** 0 means the one before, as in `metalbridge rollout undo`. */
  revision: z.int().min(0).default(0),
  isDryRun: z.boolean().default(false),
});
type Undo = z.output<typeof undoSchema>;

export function mountUndo(isReadOnly: boolean): MountRoutes {
  return (scope, { requireReader }) => {
    const config = { calledBy: "call" } as const;
    scope.post(UNDO_PATH, { config }, async (request: FastifyRequest): Promise<UndoResponse> => {
      const asked = parseBody(undoSchema, request.body);
      if (isReadOnly && !asked.isDryRun)
        throw new MetalbridgeError("ConsoleReadOnly", "the console is in read-only mode");
      const client = createClient((await requireReader(request)).connection);
      const plan = await planOf(client, asked);
      if (!asked.isDryRun && plan.operations.length > 0)
        unwrapAnswer(await client.jsonPatch(INFERENCE_SERVICES, asked, plan.operations));
      const { revision, hash } = plan.target;
      return { revision, hash, changes: plan.changes.map(renderChange), notes: plan.notes };
    });
  };
}

async function planOf(client: KubeClient, { namespace, name, revision }: Undo): Promise<UndoPlan> {
  const service = unwrapAnswer(await client.get(INFERENCE_SERVICES, { namespace, name }));
  const revisions = unwrapAnswer(
    await client.list(CONTROLLER_REVISIONS, {
      namespace,
      labelSelector: `${LABEL_SERVICE_UID}=${service.metadata.uid}`,
    }),
  );
  const target = chooseRevision(service, historyOf(service, revisions.items), revision);
  const model = await client.get(MODELS, { namespace, name: restorable(service, target).model.name });
  if (!model.ok && model.error.kind !== "notFound") unwrapAnswer(model);
  return planUndo(service, target, model.ok ? model.value : undefined);
}
