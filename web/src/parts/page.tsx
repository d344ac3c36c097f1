/** Head of a page: title, what belongs to it, its actions. */
import { type ReactNode, useEffect } from "react";

export function Page({
  title,
  subtitle,
  actions,
  isWide = false,
  children,
}: {
  readonly title: string;
  readonly subtitle?: ReactNode;
  readonly actions?: ReactNode;
  /** Tables use the whole width. */
  readonly isWide?: boolean;
  readonly children: ReactNode;
}) {
  useEffect(() => {
    document.title = `${title} · Metalbridge`;
  }, [title]);
  return (
    <div className={isWide ? "stack gap-24 page" : "stack gap-24 page page-narrow"}>
      <header className="page-head">
        <div className="page-titles">
          <h1>{title}</h1>
          {subtitle !== undefined && <div className="muted">{subtitle}</div>}
        </div>
        {actions !== undefined && <div className="row">{actions}</div>}
      </header>
      {children}
    </div>
  );
}

export function Section({
  title,
  aside,
  children,
}: {
  readonly title: string;
  readonly aside?: ReactNode;
  readonly children: ReactNode;
}) {
  return (
    <section className="stack">
      <div className="spread">
        <h2>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  );
}
