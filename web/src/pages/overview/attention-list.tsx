/** The list Needs attention. */
import { Link } from "@tanstack/react-router";
import { Fragment } from "react";
import { keepNamespace } from "../../address/search.ts";
import { AttentionNotice } from "../../parts/attention.tsx";
import type { AttentionGroup, AttentionItem } from "./attention.ts";

const KINDS = { host: "machines", service: "services", model: "models" } as const;
const LINKS = 6;
const GROUPS = 30;

export function AttentionList({ groups }: { readonly groups: readonly AttentionGroup[] }) {
  const hidden = groups.slice(GROUPS).reduce((sum, { items }) => sum + items.length, 0);
  return (
    <div className="stack gap-8">
      {groups.slice(0, GROUPS).map((group) => (
        <AttentionNotice key={group.key} attention={group.first.attention} about={<About group={group} />} />
      ))}
      {hidden > 0 && <p className="muted">{`and ${hidden} more`}</p>}
    </div>
  );
}

function About({ group: { first, items } }: { readonly group: AttentionGroup }) {
  const rest = items.length - LINKS;
  const alike = items.filter(({ because }) => because === undefined).length;
  return (
    <>
      {alike > 1 && <span className="muted">{`${alike} ${KINDS[first.kind]}`}</span>}
      {items.slice(0, LINKS).map((item, index) => (
        <Fragment key={item.key}>
          {index === alike && <span className="muted">affects</span>}
          <ItemLink item={item} />
        </Fragment>
      ))}
      {rest > 0 && <span className="muted">{`and ${rest} more`}</span>}
    </>
  );
}

function ItemLink({ item: { href, name } }: { readonly item: AttentionItem }) {
  return (
    <Link to={href as "/"} search={keepNamespace} className="link">
      <bdi>{name}</bdi>
    </Link>
  );
}
