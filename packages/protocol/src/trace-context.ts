/** `version-trace id-parent id-flags`; a later version may have more behind its flags (W3C Trace Context, section 3.2). */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const NO_TRACE = '0'.repeat(32);
const NO_PARENT = '0'.repeat(16);
const TRACE_ID_START = 3;
const TRACE_ID_END = 35;

/**
 * The trace context of a `traceparent` as a caller gives it, in the form of version 00; undefined where it is malformed,
 * which is ignored, as the specification has it.
 */
export function traceContext(traceparent: string): string | undefined {
  const [, version, trace, parent, flags, more] = TRACEPARENT.exec(traceparent.trim()) ?? [];
  if (version === undefined || version === 'ff' || trace === NO_TRACE || parent === NO_PARENT) return undefined;
  if (version === '00' && more !== undefined) return undefined;
  return `00-${trace}-${parent}-${flags}`;
}

/** The trace id of what `traceContext` gave, 32 hexadecimal digits. */
export function traceId(context: string): string {
  return context.slice(TRACE_ID_START, TRACE_ID_END);
}
