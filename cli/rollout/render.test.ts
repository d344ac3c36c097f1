import path from "node:path";
import type { InferenceService } from "../../src/api/inference-service/index.ts";
import { historyOf } from "../../src/capacity/rollback/history.ts";
import type { ControllerRevision } from "../../src/kube/objects.ts";
import { testScreens } from "../../test/golden/text.ts";
import { renderHistory, renderRevision } from "./render.ts";

interface Input {
  readonly service: InferenceService;
  readonly revisions: readonly ControllerRevision[];
  readonly one?: number;
}

testScreens(path.join(import.meta.dirname, "golden"), ({ service, revisions, one }: Input) => {
  const history = historyOf(service, revisions);
  const entry = history.find(({ revision }) => revision === one);
  return entry === undefined
    ? renderHistory(history, 10, Date.parse("2026-03-01T12:00:00Z"))
    : renderRevision(entry);
});
