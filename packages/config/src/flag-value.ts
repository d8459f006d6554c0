import type { Flag, FlagKind } from './flag-table.ts';

export type FlagValue = { readonly ok: true; readonly value: unknown } | { readonly ok: false; readonly error: string };

/** Plain decimal: no hexadecimal, no exponent, no blanks. */
const INTEGER = /^[+-]?\d+$/;
const NUMBER = /^[+-]?(?:\d+\.?\d*|\.\d+)$/;

/** One text as a value of its kind; undefined where it is none. */
function readText(kind: FlagKind, text: string): unknown {
  switch (kind) {
    case 'boolean':
      if (/^(?:true|1)$/i.test(text)) return true;
      return /^(?:false|0)$/i.test(text) ? false : undefined;
    case 'integer':
      return INTEGER.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined;
    case 'number':
      return NUMBER.test(text) ? Number(text) : undefined;
    case 'text':
    case 'choice':
      return text;
  }
}

/**
 * Reads the texts of one flag. `label` is how the source names it (`--http-port`,
 * `NEREID_HTTP_PORT`, …). Of a flag that is not repeatable the last text holds, as in Triton.
 */
export function readFlag(flag: Flag, texts: readonly string[], label: string): FlagValue {
  const wrong = (text: string): FlagValue => {
    const shown = flag.secret === true ? 'this value' : `'${text}'`;
    return { ok: false, error: `${label}: ${shown} is not allowed; give ${flag.allowed}` };
  };
  const { separator } = flag;
  const separate = separator === undefined ? texts : texts.flatMap((text) => text.split(separator));
  const used = flag.repeatable ? separate : texts.slice(-1);
  const values: unknown[] = [];
  for (const text of used) {
    const value = readText(flag.kind, text);
    if (value === undefined) return wrong(text);
    const given = flag.repeatable ? [value] : value;
    if (!flag.schema.safeParse(given).success) return wrong(text);
    values.push(value);
  }
  return { ok: true, value: flag.repeatable ? values : values[0] };
}
