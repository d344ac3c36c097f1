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
        Delete
      </Button>
      <Confirm
        title={`Delete the model ${metadata.name}?`}
        isOpen={isAsking}
        onClose={() => setIsAsking(false)}
        act="Delete"
        isBusy={isPending}
        onConfirm={() => mutate()}
      >
        {services.length === 0 ? (
          <p className="prose">No service uses it.</p>
        ) : (
          <div>
            <p className="prose">
              {services.length === 1
                ? "1 service uses it. Its replicas keep running, but no new replica can be started:"
                : `${services.length} services use it. Their replicas keep running, but no new replica can be started:`}
            </p>
            <ul>
              {services.slice(0, NAMES).map((name) => (
                <li key={name}>
                  <bdi>{name}</bdi>
                </li>
              ))}
            </ul>
          </div>
        )}
        <p className="prose">
          {copies === 0
            ? "No host has a copy of its weights."
            : `${copies === 1 ? "The copy" : `The ${copies} copies`} on hosts stay until their space is needed.`}
        </p>
        {status?.cache !== undefined && (
          <p className="prose">The weights on the volume for pods are deleted.</p>
        )}
        {error !== null && <Failure error={error} />}
      </Confirm>
    </>
  );
}
