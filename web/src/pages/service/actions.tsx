/** What can be done to a service. An action without the right is shown, disabled, with the reason. */
import { Link } from "@tanstack/react-router";
import { Ellipsis, MessagesSquare } from "lucide-react";
import { DropdownMenu } from "radix-ui";
import { useState } from "react";
import { keepNamespace } from "../../address/search.ts";
import { type RightState, useRight } from "../../api/session.ts";
import { Button, IconButton } from "../../parts/buttons.tsx";
import { Done } from "../../parts/notices.tsx";
import { type ServiceAction, ServiceActionDialog } from "./action-dialogs.tsx";
import type { ServiceObjects } from "./objects.ts";

export function Actions({ objects }: { readonly objects: ServiceObjects }) {
  const { service } = objects;
  const { namespace = "default", name } = service.metadata;
  const [open, setOpen] = useState<ServiceAction>();
  const [done, setDone] = useState("");
  const of = { resource: "inferenceservices", namespace, name };
  const mayPatch = useRight({ verb: "patch", ...of });
  const mayDelete = useRight({ verb: "delete", ...of });
  const isReady = (service.status?.readyReplicas ?? 0) > 0;
  const isSuspended = service.spec.suspend;
  return (
    <>
      <Done>{done}</Done>
      {isReady ? (
        <Link
          to={"/playground" as "/"}
          search={(before: object) =>
            ({ ...(keepNamespace(before) as object), service: `${namespace}/${name}` }) as never
          }
          className="button button-plain"
        >
          <MessagesSquare size={14} aria-hidden />
          Open in playground
        </Link>
      ) : (
        <Button
          icon={<MessagesSquare size={14} aria-hidden />}
          right={{ isAllowed: false, why: "No replica is ready." }}
        >
          Open in playground
        </Button>
      )}
      <Button right={mayPatch} onClick={() => setOpen("scale")}>
        Scale
      </Button>
      <DropdownMenu.Root>
        <DropdownMenu.Trigger asChild>
          <IconButton label="More actions">
            <Ellipsis size={16} aria-hidden />
          </IconButton>
        </DropdownMenu.Trigger>
        <DropdownMenu.Portal>
          <DropdownMenu.Content className="menu" align="end" sideOffset={4}>
            <Item label="Restart" right={mayRestart(objects, mayPatch)} onSelect={() => setOpen("restart")} />
            <Item
              label={isSuspended ? "Resume" : "Suspend"}
              right={mayPatch}
              onSelect={() => setOpen(isSuspended ? "resume" : "suspend")}
            />
            <DropdownMenu.Separator className="menu-line" />
            <Item label="Delete" right={mayDelete} onSelect={() => setOpen("delete")} isDanger />
          </DropdownMenu.Content>
        </DropdownMenu.Portal>
      </DropdownMenu.Root>
      {open !== undefined && (
        <ServiceActionDialog
          action={open}
          objects={objects}
          onClose={() => setOpen(undefined)}
          onDone={setDone}
        />
      )}
    </>
  );
}

/** As `metalbridge rollout restart` allows it. */
function mayRestart({ service }: ServiceObjects, right: RightState): RightState {
  if (!right.isAllowed) return right;
  const isOutdated = service.status?.conditions?.some(
    ({ type, reason }) => type === "BackendRuntimeCurrent" && reason === "UpdatePending",
  );
  const isOnHosts = service.status?.on === "Hosts" && isOutdated !== true;
  return isOnHosts
    ? {
        isAllowed: false,
        why: "Only pods can be restarted. To restart an engine on a host, delete its replica.",
      }
    : right;
}

function Item({
  label,
  right,
  onSelect,
  isDanger = false,
}: {
  readonly label: string;
  readonly right: RightState;
  readonly onSelect: () => void;
  readonly isDanger?: boolean;
}) {
  return (
    <DropdownMenu.Item
      className={isDanger ? "menu-item menu-danger" : "menu-item"}
      disabled={!right.isAllowed}
      onSelect={onSelect}
    >
      <span>
        {label}
        {right.why !== undefined && <span className="menu-why muted small">{right.why}</span>}
      </span>
    </DropdownMenu.Item>
  );
}
