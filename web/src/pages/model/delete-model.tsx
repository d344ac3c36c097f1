/** Deletes a model, after a question that names its services and copies. */
import { useMutation } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Model } from "../../../../src/api/model.ts";
import { keepNamespace } from "../../address/search.ts";
import { deleteObject } from "../../api/kube.ts";
import { useRight } from "../../api/session.ts";
import { Button } from "../../parts/button.tsx";
import { Confirm } from "../../parts/dialog.tsx";
import { Failure } from "../../parts/notice.tsx";
import { modelsText } from "../../texts/models.ts";

const words = modelsText.remove;
const NAMES = 8;

export function DeleteModel({
  model: { metadata, status },
  services,
}: {
  readonly model: Model;
  readonly services: readonly string[];
}) {
  const [isAsking, setIsAsking] = useState(false);
  const navigate = useNavigate();
  const place = { resource: "models", namespace: metadata.namespace ?? "default", name: metadata.name };
  const right = useRight({ verb: "delete", ...place });
  const { mutate, isPending, error } = useMutation({
    mutationFn: () => deleteObject(place),
    onSuccess: () => navigate({ to: "/models" as "/", search: keepNamespace }),
  });
  const copies = status?.hosts?.length ?? 0;
  return (
    <>
      <Button look="danger" right={right} onClick={() => setIsAsking(true)}>
        {words.act}
      </Button>
      <Confirm
        title={words.title(metadata.name)}
        isOpen={isAsking}
        onClose={() => setIsAsking(false)}
        act={words.act}
        isBusy={isPending}
        onConfirm={() => mutate()}
      >
        {services.length === 0 ? (
          <p className="prose">{words.unused}</p>
        ) : (
          <div>
            <p className="prose">{words.used(services.length)}</p>
            <ul>
              {services.slice(0, NAMES).map((name) => (
                <li key={name}>
                  <bdi>{name}</bdi>
                </li>
              ))}
            </ul>
          </div>
        )}
        <p className="prose">{words.copies(copies)}</p>
        {status?.cache !== undefined && <p className="prose">{words.volume}</p>}
        {error !== null && <Failure error={error} />}
      </Confirm>
    </>
  );
}
