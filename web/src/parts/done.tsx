/** What an action has done. Takes no room while there is nothing to say. */
export function Done({ children }: { readonly children: string }) {
  return (
    <span role="status" className={children === "" ? "visually-hidden" : "small muted"}>
      {children}
    </span>
  );
}
