/** A property list as XML. Pure. */

export type PlistValue = string | number | boolean | readonly PlistValue[] | PlistDict;

export interface PlistDict {
  readonly [key: string]: PlistValue;
}

/** Throws for characters that XML 1.0 does not allow and for numbers that are not integers: launchd rejects both without a reason. */
export function renderPlistXml(dict: PlistDict): string {
  return [
    '<?xml version="1.0" encoding="UTF-8"?>',
    '<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">',
    '<plist version="1.0">',
    ...linesOf(dict, ""),
    "</plist>",
    "",
  ].join("\n");
}

function linesOf(value: PlistValue, indent: string): readonly string[] {
  if (typeof value === "string") return [`${indent}<string>${escapeText(value)}</string>`];
  if (typeof value === "boolean") return [`${indent}<${value}/>`];
  if (typeof value === "number") {
    if (!Number.isSafeInteger(value)) throw new TypeError(`${value} is not an integer`);
    return [`${indent}<integer>${value}</integer>`];
  }
  if (isList(value))
    return wrap(
      "array",
      value.flatMap((item) => linesOf(item, `${indent}\t`)),
      indent,
    );
  const entries = Object.entries(value).flatMap(([key, inner]) => [
    `${indent}\t<key>${escapeText(key)}</key>`,
    ...linesOf(inner, `${indent}\t`),
  ]);
  return wrap("dict", entries, indent);
}

function isList(value: PlistValue): value is readonly PlistValue[] {
  return Array.isArray(value);
}

function wrap(tag: string, inner: readonly string[], indent: string): readonly string[] {
  return inner.length === 0 ? [`${indent}<${tag}/>`] : [`${indent}<${tag}>`, ...inner, `${indent}</${tag}>`];
}

function escapeText(text: string): string {
  const forbidden = [...text].find(
    (character) => character < " " || character === "\u{FFFE}" || character === "\u{FFFF}",
  );
  if (forbidden !== undefined || !text.isWellFormed())
    throw new TypeError(`${JSON.stringify(text)} has a character that a property list cannot hold`);
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
