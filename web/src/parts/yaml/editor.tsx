/** A field for YAML with line numbers; faults are marked at their line and listed below. */
import { type KeyboardEvent, useId, useRef } from "react";
import { printYaml, type YamlFault } from "./documents.ts";
import "./yaml.css";
import { CopyButton, WithCommands } from "../buttons.tsx";

export interface YamlEditorProps {
  readonly label: string;
  readonly value: string;
  readonly faults: readonly YamlFault[];
  readonly isReadOnly?: boolean;
  readonly onChange?: (value: string) => void;
  /** Rows that are seen at once, at most. */
  readonly rows?: number;
}

export function YamlEditor(props: YamlEditorProps) {
  const { label, value, faults, isReadOnly = false, onChange, rows = 32 } = props;
  const gutter = useRef<HTMLDivElement>(null);
  const area = useRef<HTMLTextAreaElement>(null);
  const list = useId();
  const count = value.split("\n").length;
  const bad = new Set(faults.map(({ line }) => line));
  const goTo = (line: number): void => {
    const start =
      value
        .split("\n")
        .slice(0, line - 1)
        .join("\n").length + (line > 1 ? 1 : 0);
    const end = value.indexOf("\n", start);
    area.current?.focus();
    area.current?.setSelectionRange(start, end < 0 ? value.length : end);
    area.current?.scrollTo({ top: (line - 4) * LINE_PX });
  };
  return (
    <div className="stack">
      <div className="yaml-editor" style={{ height: Math.min(rows, count + 1) * LINE_PX + 16 }}>
        <div className="yaml-gutter" ref={gutter} aria-hidden>
          {Array.from({ length: count }, (_, index) => index + 1).map((line) => (
            <span key={line} className={bad.has(line) ? "yaml-bad" : undefined}>
              {line}
            </span>
          ))}
        </div>
        <textarea
          ref={area}
          aria-label={label}
          aria-invalid={faults.length > 0}
          aria-describedby={faults.length > 0 ? list : undefined}
          value={value}
          readOnly={isReadOnly}
          spellCheck={false}
          autoCapitalize="off"
          autoCorrect="off"
          wrap="off"
          onChange={({ target }) => onChange?.(target.value)}
          onKeyDown={indent}
          onScroll={({ currentTarget }) => {
            if (gutter.current !== null) gutter.current.scrollTop = currentTarget.scrollTop;
          }}
        />
      </div>
      {faults.length > 0 && (
        <ul id={list} className="stack gap-4" role="alert">
          {faults.map(({ line, message }) => (
            <li key={`${line} ${message}`} className="line yaml-fault">
              <button type="button" className="link-button number" onClick={() => goTo(line)}>
                Line {line}
              </button>
              <span>
                <WithCommands text={message} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}

/** An object as YAML, to read and copy. */
export function YamlView({ object, label = "YAML" }: { readonly object: object; readonly label?: string }) {
  const yaml = printYaml(object);
  return (
    <div className="stack gap-8">
      <div className="row end">
        <CopyButton value={yaml} label="Copy the YAML" />
      </div>
      <YamlEditor label={label} value={yaml} faults={[]} isReadOnly />
    </div>
  );
}

const LINE_PX = 20;

/** Enter keeps the indentation of the line. Tab leaves the field, as keyboard users expect. */
function indent(event: KeyboardEvent<HTMLTextAreaElement>): void {
  const { currentTarget: area } = event;
  if (event.key !== "Enter" || event.shiftKey || area.readOnly) return;
  const line = area.value.slice(0, area.selectionStart).split("\n").at(-1) ?? "";
  const [spaces = ""] = /^ */.exec(line) ?? [];
  event.preventDefault();
  const text = `\n${spaces}${line.trimEnd().endsWith(":") ? "  " : ""}`;
  // Unlike an assignment of the value, this keeps undo.
  if (!document.execCommand("insertText", false, text))
    area.setRangeText(text, area.selectionStart, area.selectionEnd, "end");
}
